//! Stored state of swarms, readable while no swarm runs.

pub mod database;
pub mod identity;
pub(crate) mod import_export;
mod maintenance;
pub mod running_record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_core::conversation::Conversation;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::journal::EffectKind;
use goondan_core::ports::store::{
    DeadLetter, InstanceMeta, InstanceStatus, InstanceStore as _, StoredConversation,
};
use goondan_core::private_files;
use goondan_core::reserved_names::TITLE_RECORD;
use goondan_store::jsonl::{
    JournalRecord, JsonlStore, ListedConversation, OpenWorkspaceError, layout,
    listed_conversations, read_lines,
};
use serde::Serialize;
use serde_json::Value;

use crate::approvals;

/// Directory of all workspaces: `--state-root` > `GOONDAN_STATE_ROOT` > `~/.goondan` (rule C3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRoot(pub PathBuf);

impl StateRoot {
    /// Returns `explicit`, or the state root from the environment.
    pub fn find(explicit: Option<&Path>) -> StateRoot {
        let path = explicit
            .map(Path::to_owned)
            .or_else(state_root_variable)
            .unwrap_or_else(state_root_in_home);
        StateRoot(std::path::absolute(&path).unwrap_or(path))
    }

    /// Protects this directory from the tools of this process, and the state roots that other
    /// processes of the user have without `--state-root`.
    pub(crate) fn protect(&self) {
        let others = [state_root_variable(), Some(state_root_in_home())];
        for root in others.into_iter().flatten().chain([self.0.clone()]) {
            // The directory of the workspaces can be a link to another disk.
            for folder in [root.join(layout::WORKSPACES), root] {
                goondan_tools::state_directory::protect(&folder);
            }
        }
    }

    /// Creates the directory if needed, and removes access of other users.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, or if other users can read it.
    pub fn prepare(&self) -> io::Result<()> {
        private_files::create_directory(&self.0)?;
        private_files::tighten(&self.0)
    }

    /// Prepares the directory like [`StateRoot::prepare`], and warns if other users can read it. A
    /// failed creation is reported when the directory is opened.
    pub fn prepare_or_warn(&self) {
        if let Err(error) = self.prepare()
            && self.0.is_dir()
        {
            tracing::warn!(folder = %self.0.display(), %error, "state root is readable by other \
                users");
        }
    }

    /// Returns all workspaces, sorted by ID.
    pub fn workspaces(&self) -> io::Result<Vec<Workspace>> {
        let mut workspaces = Vec::new();
        for dir in subdirectories(&self.0.join(layout::WORKSPACES))? {
            if let Some(id) = dir.file_name().and_then(|name| name.to_str()) {
                workspaces.push(Workspace {
                    id: id.to_owned(),
                    dir,
                });
            }
        }
        workspaces.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(workspaces)
    }

    /// Returns the workspace with this ID or instance key, which may not exist yet. For a project's
    /// workspace, use [`StateRoot::workspace_of`].
    pub fn workspace(&self, key: &str) -> Workspace {
        Workspace {
            id: layout::workspace_id(key),
            dir: layout::workspace_dir(&self.0, key),
        }
    }
}

/// State of one swarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Workspace ID.
    pub id: String,
    /// Workspace directory.
    pub dir: PathBuf,
}

/// Stored instance.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceSummary {
    /// Instance ID.
    pub id: InstanceId,
    /// `idle`, `processing` for a running or interrupted turn, or `retired`.
    pub status: String,
    /// Time of its first event.
    pub created_at: DateTime<Utc>,
    /// Time of its last change.
    pub updated_at: DateTime<Utc>,
    /// Number of messages in its conversation.
    pub messages: usize,
}

/// Effect of an unfinished turn, which runs in another process or was interrupted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedEffect {
    /// Turn ID; the turn resumes at the next start.
    pub turn_id: String,
    /// Effect ID, unique within the turn.
    pub effect: String,
    /// Kind of the effect.
    pub kind: EffectKind,
    /// Subject of the effect; for a tool call `toolCallId`, `toolName` and `input`.
    pub intent: Value,
    /// True if the outcome is known. A resumed turn then does not repeat the effect.
    pub has_outcome: bool,
    /// True if a resumed turn may repeat the effect, because the export is `readOnly` or
    /// `idempotent`.
    pub may_repeat: bool,
}

impl UnfinishedEffect {
    /// Returns true for a tool call with an unknown outcome (rule C2b).
    pub fn is_uncertain(&self) -> bool {
        self.kind.is_tool_call() && !self.has_outcome && !self.may_repeat
    }
}

impl Workspace {
    /// Returns all instances, newest change first.
    pub fn instances(&self) -> io::Result<Vec<InstanceSummary>> {
        let mut summaries = match listed_conversations(&self.dir) {
            Some(listed) => self.summaries(&listed)?,
            None => self.found_instances()?,
        };
        summaries.sort_by(|a, b| (b.updated_at, &a.id).cmp(&(a.updated_at, &b.id)));
        Ok(summaries)
    }

    /// Returns the summaries of listed conversations.
    fn summaries(&self, listed: &[ListedConversation]) -> io::Result<Vec<InstanceSummary>> {
        let mut summaries = Vec::with_capacity(listed.len());
        for ListedConversation {
            meta,
            messages,
            is_at_work,
        } in listed
        {
            let messages = match messages.filter(|_| !is_at_work) {
                Some(messages) => messages,
                None => self.conversation(&meta.id())?.0.len(),
            };
            summaries.push(summary(meta, *is_at_work, messages));
        }
        Ok(summaries)
    }

    /// Reads the files of all instances.
    fn found_instances(&self) -> io::Result<Vec<InstanceSummary>> {
        let mut summaries = Vec::new();
        for dir in subdirectories(&self.dir.join(layout::INSTANCES))? {
            // An interrupted creation leaves a directory without metadata.
            if let Ok(meta) = read_meta(&dir) {
                let is_at_work = self.is_at_work(&meta.id());
                summaries.push(summary(
                    &meta,
                    is_at_work,
                    self.conversation(&meta.id())?.0.len(),
                ));
            }
        }
        Ok(summaries)
    }

    /// Returns the IDs of all instances with runtime events, including those that had tool calls
    /// but no turn yet.
    pub fn instances_with_events(&self) -> io::Result<Vec<InstanceId>> {
        let mut ids = Vec::new();
        for dir in subdirectories(&self.dir.join(layout::INSTANCES))? {
            match read_meta(&dir) {
                Ok(meta) => ids.push(meta.id()),
                Err(_) => {
                    let (events, _) =
                        read_lines::<RuntimeEvent>(&dir.join(layout::RUNTIME_EVENTS))?;
                    ids.extend(events.first().map(RuntimeEvent::instance));
                }
            }
        }
        Ok(ids)
    }

    /// Returns the conversation from its base and events, with warnings about unreadable lines.
    pub fn conversation(&self, id: &InstanceId) -> io::Result<(Vec<Arc<Message>>, Vec<String>)> {
        let dir = layout::instance_dir(&self.dir, id);
        // Read in this order: a turn that is checkpointed in between appears twice, which `restore`
        // detects, but is never missed.
        let (events, mut warnings) = read_lines(&dir.join(layout::EVENTS))?;
        let (base, base_warnings) = read_lines(&dir.join(layout::BASE))?;
        warnings.extend(base_warnings);
        let stored = StoredConversation {
            base,
            events,
            warnings: Vec::new(),
        };
        Ok((
            Conversation::restore(stored).0.messages().to_vec(),
            warnings,
        ))
    }

    /// Returns the title that a user gave an instance. An unreadable title counts as missing.
    pub fn title(&self, id: &InstanceId) -> Option<String> {
        let name = format!("{}.json", layout::file_name(TITLE_RECORD));
        let path = self.instance_dir(id).join(layout::EXTENSIONS).join(name);
        let title = serde_json::from_slice::<Option<String>>(&fs::read(path).ok()?);
        title.ok().flatten()
    }

    /// Returns the failed events of an instance, oldest first.
    pub fn dead_letters(&self, id: &InstanceId) -> io::Result<Vec<DeadLetter>> {
        match fs::read(layout::instance_dir(&self.dir, id).join(layout::DEAD_LETTERS)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Returns the runtime events of an instance, oldest first: the archived ones and the current
    /// ones.
    pub fn runtime_events(&self, id: &InstanceId) -> io::Result<[Vec<RuntimeEvent>; 2]> {
        let [older, newer] = self.runtime_events_paths(id);
        Ok([read_lines(&older)?.0, read_lines(&newer)?.0])
    }

    /// Returns the paths of the runtime events: the archive, and the current file that moves there
    /// when it is large.
    pub fn runtime_events_paths(&self, id: &InstanceId) -> [PathBuf; 2] {
        [layout::OLDER_RUNTIME_EVENTS, layout::RUNTIME_EVENTS]
            .map(|name| self.instance_dir(id).join(name))
    }

    /// Returns the directory of an instance.
    pub fn instance_dir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.dir, id)
    }

    /// Deletes an instance with all its data and its permanent approvals. Returns false if it does
    /// not exist. No running swarm may hold the workspace.
    pub async fn delete(&self, id: &InstanceId) -> Result<bool, OpenWorkspaceError> {
        if !self.dir.exists() {
            return Ok(false);
        }
        let store = JsonlStore::open(&self.dir)?;
        approvals::forget_deleted_conversation(&self.dir, id)?;
        Ok(store.delete_instance(id).await?)
    }

    /// Returns the metadata of an instance; `None` if it does not exist.
    pub(crate) fn meta(&self, id: &InstanceId) -> io::Result<Option<InstanceMeta>> {
        match read_meta(&layout::instance_dir(&self.dir, id)) {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if a turn of the instance is running or interrupted: its events exist but are
    /// not checkpointed.
    fn is_at_work(&self, id: &InstanceId) -> bool {
        let events = fs::metadata(self.instance_dir(id).join(layout::EVENTS));
        events.is_ok_and(|events| events.len() > 0)
    }

    /// Returns the effects of the unfinished turn of an instance, in start order. Returns nothing
    /// between turns.
    pub fn unfinished(&self, id: &InstanceId) -> io::Result<Vec<UnfinishedEffect>> {
        let (records, _) = read_lines(&layout::instance_dir(&self.dir, id).join(layout::JOURNAL))?;
        let mut effects: Vec<UnfinishedEffect> = Vec::new();
        for record in records {
            match record {
                JournalRecord::Intent {
                    turn_id,
                    effect,
                    kind,
                    intent,
                    may_repeat,
                } => {
                    // A repetition by a resumed turn replaces the effect.
                    effects.retain(|earlier| {
                        (&earlier.turn_id, &earlier.effect) != (&turn_id, &effect)
                    });
                    effects.push(UnfinishedEffect {
                        turn_id,
                        effect,
                        kind,
                        intent,
                        has_outcome: false,
                        may_repeat,
                    });
                }
                JournalRecord::Outcome {
                    turn_id, effect, ..
                } => {
                    let finished = effects
                        .iter_mut()
                        .find(|earlier| earlier.turn_id == turn_id && earlier.effect == effect);
                    finished
                        .into_iter()
                        .for_each(|earlier| earlier.has_outcome = true);
                }
            }
        }
        Ok(effects)
    }
}

/// Reads the metadata, with one retry, because a running swarm may be writing the file.
fn read_meta(dir: &Path) -> io::Result<InstanceMeta> {
    let path = dir.join(layout::METADATA);
    match serde_json::from_slice(&fs::read(&path)?) {
        Ok(meta) => Ok(meta),
        Err(_) => Ok(serde_json::from_slice(&fs::read(&path)?)?),
    }
}

/// Returns an instance in the form for lists.
pub(crate) fn summary(meta: &InstanceMeta, is_at_work: bool, messages: usize) -> InstanceSummary {
    let status = match meta.status {
        // The stored status does not change with each turn.
        _ if is_at_work => "processing",
        InstanceStatus::Idle => "idle",
        InstanceStatus::Processing => "processing",
        InstanceStatus::Retired => "retired",
    };
    InstanceSummary {
        id: meta.id(),
        status: status.to_owned(),
        created_at: meta.created_at,
        updated_at: meta.updated_at,
        messages,
    }
}

/// Returns the value of `GOONDAN_STATE_ROOT`, unless it is empty.
fn state_root_variable() -> Option<PathBuf> {
    std::env::var_os("GOONDAN_STATE_ROOT")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn state_root_in_home() -> PathBuf {
    std::env::home_dir()
        .unwrap_or_else(std::env::temp_dir)
        .join(".goondan")
}

/// Returns the subdirectories; none if the directory does not exist.
fn subdirectories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}
