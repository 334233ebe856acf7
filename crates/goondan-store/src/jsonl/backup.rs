//! Copies a workspace while a swarm uses it.
//!
//! A conversation is copied, and then the log. If the log shows that a turn of the conversation
//! ended in between, the conversation is copied again. So the copy is a state that a kill could
//! have left: each conversation is at least as new as the records of the log about its turns.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::record_header::RecordHeader;
use super::tree_copy::{copy_directory, copy_file, unless_gone};
use super::{file_format, instance_directories, layout};
use crate::fs::{FileSystem as _, RealFs};
use crate::record_facts::RecordFacts;
use goondan_core::ids::InstanceId;
use goondan_core::private_files;

/// Maximum number of rounds. A round copies the conversations whose turns ended in the previous round.
const BACKUP_ROUNDS: usize = 1_000;

/// Contents of a backup.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of conversations.
    pub conversations: usize,
    /// Number of rounds until the copy was consistent.
    pub rounds: usize,
}

/// Copies the workspace in `from` to the directory `to`, which must not exist.
///
/// # Errors
/// Fails if `to` exists, if a file cannot be read or written, if a newer program wrote the log, or
/// if turns end faster than their conversations can be copied.
pub fn back_up(from: &Path, to: &Path) -> io::Result<BackupReport> {
    back_up_watched(from, to, &mut |_| {})
}

/// Copies a workspace like [`back_up`]. Calls `after_copy` with each directory after it is copied.
#[doc(hidden)]
pub fn back_up_watched(
    from: &Path,
    to: &Path,
    after_copy: &mut dyn FnMut(&Path),
) -> io::Result<BackupReport> {
    if to.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    private_files::create_directory(&to.join(layout::INSTANCES))?;
    let mut log = read_log(from)?;
    let mut stale = conversation_names(from)?;
    for rounds in 1..=BACKUP_ROUNDS {
        for name in &stale {
            copy_conversation(from, to, name)?;
            after_copy(&from.join(layout::INSTANCES).join(name));
        }
        let next = read_log(from)?;
        let changed = changed_conversations(&log, &next);
        log = next;
        let existing = conversation_names(from)?;
        remove_deleted(to, &existing)?;
        stale = match changed {
            None => existing,
            Some(changed) => {
                let copied = conversation_names(to)?;
                let is_stale = |name: &OsString| changed.contains(name) || !copied.contains(name);
                existing.into_iter().filter(is_stale).collect()
            }
        };
        if stale.is_empty() {
            private_files::write(&to.join(layout::INBOX), &log)?;
            copy_workspace_files(from, to)?;
            let conversations = conversation_names(to)?.len();
            return Ok(BackupReport {
                conversations,
                rounds,
            });
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "turns end faster than their conversations can be copied. Try again while the swarm is less \
            busy, or stop it first",
    ))
}

/// Reads the complete lines of the log.
fn read_log(workspace: &Path) -> io::Result<Vec<u8>> {
    let path = workspace.join(layout::INBOX);
    let mut log = RealFs.read_if_there(&path)?.unwrap_or_default();
    let end = log
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    log.truncate(end);
    if let Some(first) = log.split_inclusive(|byte| *byte == b'\n').next() {
        file_format::read_header(first, &path)?;
    }
    Ok(log)
}

/// Returns the directory names of the conversations of a workspace.
fn conversation_names(workspace: &Path) -> io::Result<HashSet<OsString>> {
    let folders = RealFs.subdirectories(&workspace.join(layout::INSTANCES))?;
    let folders = folders
        .iter()
        .filter(|folder| !instance_directories::is_deleted(folder));
    Ok(folders
        .filter_map(|folder| folder.file_name().map(OsString::from))
        .collect())
}

/// Copies the files of a conversation again. The messages of the turn come first, then the journal,
/// on which these messages depend, and then the folded messages: a turn is then there twice, or
/// once, but never missing.
fn copy_conversation(from: &Path, to: &Path, name: &OsString) -> io::Result<()> {
    let (from, to) = (
        from.join(layout::INSTANCES).join(name),
        to.join(layout::INSTANCES).join(name),
    );
    unless_gone(fs::remove_dir_all(&to))?;
    private_files::create_directory(&to)?;
    let ordered = [
        layout::EVENTS,
        layout::JOURNAL,
        layout::BASE,
        layout::METADATA,
    ];
    for file in ordered {
        copy_file(&from.join(file), &to.join(file))?;
    }
    let is_other = |path: &Path| !ordered.iter().any(|file| from.join(file) == path);
    copy_directory(&from, &to, &is_other)
}

/// Removes conversations from the backup that were deleted since they were copied.
fn remove_deleted(to: &Path, existing: &HashSet<OsString>) -> io::Result<()> {
    for name in conversation_names(to)?.difference(existing) {
        unless_gone(fs::remove_dir_all(to.join(layout::INSTANCES).join(name)))?;
    }
    Ok(())
}

/// Copies the files of a workspace without conversations, the inbox, and files of the running
/// process.
fn copy_workspace_files(from: &Path, to: &Path) -> io::Result<()> {
    let mut excluded = vec![from.join(layout::INSTANCES), from.join(layout::INBOX)];
    excluded.extend(layout::checkpoint_files(from));
    excluded.extend(layout::process_files(from));
    copy_directory(from, to, &|path| {
        !excluded.iter().any(|other| other == path)
    })
}

/// Returns the directory names of conversations whose turns ended, or whose messages were settled,
/// between two states of the log. Returns `None` if the log does not show all of these
/// conversations, such as after it was rewritten.
fn changed_conversations(before: &[u8], after: &[u8]) -> Option<HashSet<OsString>> {
    let added = after.strip_prefix(before)?;
    let mut targets: HashMap<String, InstanceId> = HashMap::new();
    let mut changed: HashSet<InstanceId> = HashSet::new();
    if added.is_empty() {
        return Some(HashSet::new());
    }
    for (is_new, part) in [(false, before), (true, added)] {
        for facts in part
            .split_inclusive(|byte| *byte == b'\n')
            .filter_map(record_facts)
        {
            match facts {
                RecordFacts::Accepted(event) => drop(targets.insert(event.id, event.target)),
                RecordFacts::Done {
                    event_ids,
                    answer,
                    fold,
                    ..
                } => {
                    targets.extend(answer.map(|answer| (answer.id, answer.target)));
                    if is_new {
                        changed.extend(fold.map(|fold| fold.instance));
                        for id in event_ids {
                            // Without the event, any conversation may have changed.
                            changed.insert(targets.get(&id)?.clone());
                        }
                    }
                }
                RecordFacts::Settled(folds) if is_new => {
                    changed.extend(folds.into_iter().map(|fold| fold.instance));
                }
                RecordFacts::Settled(_) | RecordFacts::Closed | RecordFacts::Withdrawn(_) => {}
            }
        }
    }
    let names = changed.iter().map(|id| layout::file_name(&id.to_string()));
    Some(names.map(OsString::from).collect())
}

/// Returns the facts of a line of the log; `None` for damaged lines and the header, which name no
/// conversation.
fn record_facts(line: &[u8]) -> Option<RecordFacts> {
    let header: RecordHeader<'_> = serde_json::from_slice(line).ok()?;
    header.facts().ok()
}
