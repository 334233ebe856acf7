//! The checkpoint of a workspace, written at a clean end: a start reads it instead of all records of
//! the log and the metadata of all conversations.
//!
//! The checkpoint counts only in the same boot of the machine, and only if neither the log, nor the
//! list of conversations, nor the names of their directories changed since. A start empties it
//! before any other change, so that it never describes an earlier state. Without a checkpoint, a
//! start reads everything.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::changed_instances::ChangedInstances;
use super::conversation_list::{self, ListState, ListWriter, ListedConversation};
use super::file_format::{self, FoundHeader};
use super::handled_events::{self, HandledEvents};
use super::lines::FIRST_SEQUENCE;
use super::log_checkpoint::{self, LogState, LogSummary};
use super::synced_disk::SyncedDisk;
use super::{checksum, layout};
use crate::fs::{FileSystem, RealFs};
use goondan_core::ports::store::StoreError;

/// First record of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename = "checkpoint", rename_all = "camelCase")]
struct CheckpointRecord {
    /// Identifies the boot of the machine.
    boot: String,
    log: LogState,
    conversations: ListState,
}

/// Result of reading a checkpoint.
enum FoundCheckpoint {
    /// There is none: the last process was killed, or the machine was started again.
    Missing,
    /// Reason why the checkpoint can't be used.
    Unusable(String),
    /// The checkpoint, with its line of handled events.
    Current(Box<CheckpointRecord>, Vec<u8>),
}

/// A checkpoint that was taken at the start.
pub(super) struct TakenCheckpoint {
    pub(super) log: LogState,
    pub(super) conversations: ListState,
    /// `None` if the log is missing.
    pub(super) handled: Option<HandledEvents>,
}

/// Reads the checkpoint and empties its file. Reports an unusable one.
///
/// # Errors
/// Fails if the file can't be emptied, or if the log can't be opened.
pub(super) fn take(
    disk: &Arc<SyncedDisk>,
    workspace: &Path,
) -> Result<Option<TakenCheckpoint>, StoreError> {
    let path = workspace.join(layout::CHECKPOINT);
    let found = find(&***disk, workspace);
    if disk.file_len(&path).is_ok_and(|length| length > Some(0)) {
        let emptied = disk.open(&path).and_then(|opened| {
            let mut file = opened.file;
            file.set_len(0)
        });
        emptied.map_err(|cause| StoreError::file("empty", &path, cause))?;
    }
    match found {
        FoundCheckpoint::Missing => Ok(None),
        FoundCheckpoint::Unusable(problem) => {
            tracing::warn!(path = %path.display(), "the checkpoint can't be used: {problem}. The \
                whole log is read");
            Ok(None)
        }
        FoundCheckpoint::Current(record, line) => {
            let handled = match record.log.length {
                0 => None,
                _ => Some(HandledEvents::open(
                    disk,
                    &workspace.join(layout::INBOX),
                    line,
                )?),
            };
            Ok(Some(TakenCheckpoint {
                log: record.log,
                conversations: record.conversations,
                handled,
            }))
        }
    }
}

/// Reads the checkpoint of a workspace and checks if it is current.
fn find(fs: &dyn FileSystem, workspace: &Path) -> FoundCheckpoint {
    let (path, unusable) = (workspace.join(layout::CHECKPOINT), |problem: String| {
        FoundCheckpoint::Unusable(problem)
    });
    let bytes = match fs.read_if_there(&path) {
        Err(error) => return unusable(error.to_string()),
        Ok(bytes) => bytes.unwrap_or_default(),
    };
    if bytes.last() != Some(&b'\n') {
        // The file is empty, or a kill interrupted its writer.
        return FoundCheckpoint::Missing;
    }
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let [header, record, handled] = *lines else {
        return unusable("it is incomplete".to_owned());
    };
    match file_format::read_header(header, &path) {
        Ok(Some(FoundHeader::Intact)) => {}
        Ok(Some(FoundHeader::Damaged(problem))) => return unusable(problem),
        Ok(None) => return unusable("it has no header".to_owned()),
        Err(newer) => return unusable(newer.to_string()),
    }
    if !checksum::is_sealed(record) || !checksum::is_intact(record) {
        return unusable("its checksum does not match".to_owned());
    }
    let record: CheckpointRecord = match serde_json::from_slice(record) {
        Ok(record) => record,
        Err(error) => return unusable(error.to_string()),
    };
    if fs.boot_id().as_ref() != Some(&record.boot) {
        return FoundCheckpoint::Missing;
    }
    if !record.log.is_current(fs, &workspace.join(layout::INBOX)) {
        return unusable("the log changed after it was written".to_owned());
    }
    if !record.conversations.is_current(fs, workspace) {
        return unusable("the conversations changed after it was written".to_owned());
    }
    FoundCheckpoint::Current(Box::new(record), handled.to_vec())
}

/// Writes the checkpoint at a clean end. `earlier` is the checkpoint of the start; its log counts
/// only if the log was not rewritten since.
///
/// # Errors
/// Fails if a file can't be read or written. The next start then reads everything.
pub(super) fn write(
    disk: &Arc<SyncedDisk>,
    workspace: &Path,
    earlier: Option<&TakenCheckpoint>,
    is_log_rewritten: bool,
    changed: &ChangedInstances,
) -> Result<(), StoreError> {
    let (path, log) = (
        workspace.join(layout::CHECKPOINT),
        workspace.join(layout::INBOX),
    );
    let Some(boot) = disk.boot_id() else {
        return Ok(());
    };
    let known = earlier.filter(|_| !is_log_rewritten).and_then(|earlier| {
        let handled = earlier.handled.as_ref().map(HandledEvents::entries);
        Some((&earlier.log, handled.unwrap_or_else(|| Some(Vec::new()))?))
    });
    let summary = log_checkpoint::summarize(&***disk, &log, known)
        .map_err(|cause| StoreError::file("read", &log, cause))?;
    let Some(LogSummary { state, handled }) = summary else {
        return Ok(());
    };
    let list = ListWriter { disk, workspace };
    let conversations = match earlier.zip(changed.states_before()) {
        Some((earlier, before)) => list.update(&earlier.conversations, &before)?,
        None => list.rewrite_list()?,
    };
    let record = CheckpointRecord {
        boot,
        log: state,
        conversations,
    };
    let written = encode(&record, &handled, &path).and_then(|bytes| {
        let mut file = disk.open(&path)?.file;
        file.set_len(0)?;
        file.write_at(0, &bytes)
    });
    written.map_err(|cause| StoreError::file("write", &path, cause))
}

/// Returns the contents of the file.
fn encode(
    record: &CheckpointRecord,
    handled: &[crate::wal_index::HandledEntry],
    path: &Path,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file_format::add_header(&mut bytes, path);
    let start = bytes.len();
    serde_json::to_writer(&mut bytes, record)?;
    checksum::seal(&mut bytes, start, Some(FIRST_SEQUENCE));
    bytes.push(b'\n');
    handled_events::add_line(&mut bytes, handled, FIRST_SEQUENCE + 1);
    Ok(bytes)
}

/// Returns all conversations of a workspace that no process uses, without reading each of them.
/// Returns `None` if the workspace has no current checkpoint or the list is damaged.
pub fn listed_conversations(workspace: &Path) -> Option<Vec<ListedConversation>> {
    match find(&RealFs, workspace) {
        FoundCheckpoint::Current(..) => conversation_list::read(&RealFs, workspace).ok(),
        FoundCheckpoint::Missing | FoundCheckpoint::Unusable(_) => None,
    }
}
