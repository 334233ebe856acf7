//! Guard against writes that would undo another conversation's change.
//!
//! The guard stores the version of each file that a conversation last read or wrote. A write fails
//! if another conversation has changed the file since. The versions are kept in memory only.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use goondan_core::ports::tool::{HandlerError, ToolContext};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use lru::LruCache;
use serde::Deserialize;

use super::diff;
use crate::mutex_lock::lock;
use crate::paths::ResolvedPath;

/// Maximum size in bytes of a guarded file.
pub(crate) const MAX_GUARDED_FILE_BYTES: usize = 1024 * 1024;
/// Maximum size in bytes of a version whose text is kept for the diff.
const MAX_KEPT_TEXT_BYTES: usize = 128 * 1024;
/// Maximum number of versions whose text is kept.
const MAX_KEPT_TEXTS: usize = 256;
/// Maximum number of remembered pairs of a conversation and a file.
const MAX_SEEN_VERSIONS: usize = 20_000;

/// Treatment of a write to a file that another conversation has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StaleWritePolicy {
    /// The write fails and the error shows the change.
    #[default]
    Deny,
    /// The write succeeds and its result shows the change.
    Warn,
    /// The write succeeds.
    Allow,
}

/// Agent and key of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ConversationId(String, String);

struct KnownVersions {
    /// Hash of the content that a conversation last read or wrote.
    seen: LruCache<(ConversationId, PathBuf), u64>,
    /// Conversation that wrote a file last, and the hash of the content.
    writers: LruCache<PathBuf, (ConversationId, u64)>,
    texts: LruCache<(PathBuf, u64), Arc<str>>,
}

static KNOWN_VERSIONS: LazyLock<Mutex<KnownVersions>> = LazyLock::new(|| {
    Mutex::new(KnownVersions {
        seen: LruCache::new(const { NonZeroUsize::new(MAX_SEEN_VERSIONS).unwrap() }),
        writers: LruCache::new(const { NonZeroUsize::new(MAX_SEEN_VERSIONS).unwrap() }),
        texts: LruCache::new(const { NonZeroUsize::new(MAX_KEPT_TEXTS).unwrap() }),
    })
});

/// View of the guard for one conversation.
pub(crate) struct StaleWriteGuard {
    conversation: ConversationId,
    policy: StaleWritePolicy,
    /// The call may read, so messages show the change.
    may_read: bool,
}

impl StaleWriteGuard {
    pub(crate) fn from_context(ctx: &ToolContext, policy: StaleWritePolicy) -> StaleWriteGuard {
        StaleWriteGuard {
            conversation: ConversationId(ctx.agent_name.clone(), ctx.instance_key.clone()),
            policy,
            may_read: ctx.granted.contains(&Permission::Read),
        }
    }

    /// Returns the guard for an append. An append undoes no change, so it does not fail; its result
    /// shows the change.
    pub(crate) fn for_append(self) -> StaleWriteGuard {
        let policy = match self.policy {
            StaleWritePolicy::Deny | StaleWritePolicy::Warn => StaleWritePolicy::Warn,
            StaleWritePolicy::Allow => StaleWritePolicy::Allow,
        };
        StaleWriteGuard { policy, ..self }
    }

    /// Remembers the whole content of a file that this conversation has read.
    pub(crate) fn note_read(&self, path: &Path, content: &[u8]) {
        if content.len() <= MAX_GUARDED_FILE_BYTES
            && let Ok(content) = std::str::from_utf8(content)
        {
            lock(&KNOWN_VERSIONS).record_version(&self.conversation, path, content);
        }
    }

    /// Remembers the content that this conversation has written.
    pub(crate) fn note_written(&self, path: &Path, content: &str) {
        if content.len() > MAX_GUARDED_FILE_BYTES {
            return;
        }
        let mut known_versions = lock(&KNOWN_VERSIONS);
        let hash = known_versions.record_version(&self.conversation, path, content);
        let writer = (self.conversation.clone(), hash);
        known_versions.writers.put(path.to_owned(), writer);
    }

    /// Checks a write to a file whose content is `current`. Returns a warning for the result, if
    /// the policy says so. Afterwards the conversation counts as having seen `current`.
    ///
    /// # Errors
    /// Fails with `E_TOOL_STALE` if another conversation has changed the file since this one read
    /// it.
    pub(crate) fn check(
        &self,
        resolved: &ResolvedPath,
        current: &str,
    ) -> Result<Option<String>, HandlerError> {
        if self.policy == StaleWritePolicy::Allow || current.len() > MAX_GUARDED_FILE_BYTES {
            return Ok(None);
        }
        let mut known_versions = lock(&KNOWN_VERSIONS);
        let Some(change) =
            known_versions.foreign_change(&self.conversation, &resolved.path, current)
        else {
            return Ok(None);
        };
        known_versions.record_version(&self.conversation, &resolved.path, current);
        drop(known_versions);
        let seen_version = change.seen.filter(|_| self.may_read);
        let change = ForeignChange {
            seen: seen_version,
            ..change
        };
        let message = change.describe(&resolved.given, current);
        match self.policy {
            StaleWritePolicy::Warn => Ok(Some(message)),
            _ => Err(stale_error(format!("{message}\nNothing was changed"))
                .suggest("check that the change still fits, and repeat the call if it does")),
        }
    }
}

/// Creates the error of a write to a file that has changed.
pub(super) fn stale_error(message: impl Into<String>) -> HandlerError {
    HandlerError::new(message).code(Code::TOOL_STALE)
}

/// A change by another conversation.
struct ForeignChange {
    writer: ConversationId,
    /// The text that the conversation has seen, if it is still known and may be shown.
    seen: Option<Arc<str>>,
}

impl ForeignChange {
    fn describe(&self, path: &str, current: &str) -> String {
        let ConversationId(agent, key) = &self.writer;
        let changes = match &self.seen {
            Some(seen) => format!(":\n{}", diff(path, seen, current)),
            None => "; read it again".to_owned(),
        };
        format!(
            "agent `{agent}` (conversation `{key}`) changed `{path}` after you read it{changes}"
        )
    }
}

impl KnownVersions {
    /// Sets the version that a conversation has seen. Returns its hash.
    fn record_version(&mut self, conversation: &ConversationId, path: &Path, content: &str) -> u64 {
        let hash = hash_of(content);
        self.seen.put((conversation.clone(), path.to_owned()), hash);
        if content.len() <= MAX_KEPT_TEXT_BYTES {
            self.texts
                .get_or_insert((path.to_owned(), hash), || content.into());
        }
        hash
    }

    /// Returns the change between the version that the conversation has seen and `current`, if
    /// another conversation wrote the file in between.
    fn foreign_change(
        &mut self,
        conversation: &ConversationId,
        path: &Path,
        current: &str,
    ) -> Option<ForeignChange> {
        let seen_version = *self.seen.get(&(conversation.clone(), path.to_owned()))?;
        let (writer, written) = self.writers.get(path)?.clone();
        if writer == *conversation || seen_version == written || seen_version == hash_of(current) {
            return None;
        }
        let seen = self.texts.get(&(path.to_owned(), seen_version)).cloned();
        Some(ForeignChange { writer, seen })
    }
}

fn hash_of(content: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::change_text;
    use super::*;
    use crate::paths::FileRoot;

    #[test]
    fn a_retried_change_keeps_the_stale_write_warning() {
        let dir = tempfile::tempdir().unwrap();
        let guard = |key: &str| StaleWriteGuard {
            conversation: ConversationId("a".to_owned(), key.to_owned()),
            policy: StaleWritePolicy::Warn,
            may_read: true,
        };
        let root = FileRoot::from_directory(dir.path()).unwrap();
        let resolved = root.resolve("notes").unwrap();
        guard("reader").note_read(&resolved.path, b"one\n");
        guard("writer").note_written(&resolved.path, "two\n");
        std::fs::write(&resolved.path, "two\n").unwrap();
        let changed = change_text(&root, &guard("reader"), &resolved, |before| {
            if before == "two\n" {
                // Another program changes the file during the first attempt.
                std::fs::write(&resolved.path, "three\n").unwrap();
            }
            Ok((format!("{before}!"), ()))
        });
        let changed = changed.unwrap();
        assert_eq!(changed.after, "three\n!");
        assert!(changed.warning.unwrap_or_default().contains("-one\n+two"));
    }
}
