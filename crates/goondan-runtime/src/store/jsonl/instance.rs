//! The folder of an instance: metadata and conversation.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout;
use super::lines::{Appender, read_lines, replace_file};
use crate::message::{Message, MessageEvent};
use crate::ports::store::{Fold, InstanceMeta, InstanceStore, StoreError, StoredConversation};

/// An open conversation.
pub(super) struct JsonlInstance {
    base_path: PathBuf,
    events_path: PathBuf,
    base: Appender,
    events: Appender,
    /// Ids that the base holds, where events may have been folded into it before the process was cut off.
    maybe_folded: Option<HashSet<String>>,
}

impl JsonlInstance {
    pub(super) fn new(dir: PathBuf) -> Self {
        let (base_path, events_path) = (dir.join(layout::BASE), dir.join(layout::EVENTS));
        JsonlInstance {
            base: Appender::new(base_path.clone()),
            events: Appender::new(events_path.clone()),
            base_path,
            events_path,
            maybe_folded: None,
        }
    }
}

impl InstanceStore for JsonlInstance {
    fn load(&mut self) -> Result<StoredConversation, StoreError> {
        let (base, mut warnings) = read::<Arc<Message>>(&self.base_path)?;
        let (events, more) = read::<MessageEvent>(&self.events_path)?;
        warnings.extend(more);
        if !events.is_empty() {
            self.maybe_folded = Some(base.iter().map(|message| message.id.clone()).collect());
        }
        Ok(StoredConversation { base, events, warnings })
    }

    fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.events.append(event)
    }

    fn discard_events(&mut self) -> Result<(), StoreError> {
        self.maybe_folded = None;
        self.events.clear()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.events.sync()
    }

    fn fold(&mut self, fold: Fold<'_>) -> Result<(), StoreError> {
        match fold {
            Fold::Append(messages) => {
                let folded = self.maybe_folded.take().unwrap_or_default();
                self.base.append_all(messages.iter().filter(|message| !folded.contains(&message.id)))?;
                self.base.sync()?;
            }
            Fold::Rewrite(messages) => {
                let mut bytes = Vec::new();
                for message in messages {
                    serde_json::to_writer(&mut bytes, message)
                        .map_err(|cause| StoreError::new("encode", &self.base_path, &cause))?;
                    bytes.push(b'\n');
                }
                replace_file(&self.base_path, &bytes, true)?;
                self.base.reopen();
            }
        }
        self.maybe_folded = None;
        self.events.clear()
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<(Vec<T>, Vec<String>), StoreError> {
    read_lines(path).map_err(|cause| StoreError::new("read", path, &cause))
}

/// Writes `metadata.json`.
pub(super) fn put_meta(dir: &Path, meta: &InstanceMeta) -> Result<(), StoreError> {
    let path = dir.join(layout::METADATA);
    let mut bytes = serde_json::to_vec_pretty(meta).map_err(|cause| StoreError::new("encode", &path, &cause))?;
    bytes.push(b'\n');
    replace_file(&path, &bytes, false)
}

/// Every instance whose metadata can be read. A folder without is what a cut-off creation leaves, and nothing was lost.
pub(super) fn list(workspace: &Path) -> Result<Vec<InstanceMeta>, StoreError> {
    let folder = workspace.join(layout::INSTANCES);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(StoreError::new("list", &folder, &cause)),
    };
    let meta = |entry: io::Result<fs::DirEntry>| {
        let bytes = fs::read(entry.ok()?.path().join(layout::METADATA)).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    Ok(entries.filter_map(meta).collect())
}

/// Deletes the folder of an instance.
pub(super) fn delete(dir: &Path) -> Result<bool, StoreError> {
    match fs::remove_dir_all(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(StoreError::new("delete", dir, &cause)),
    }
}
