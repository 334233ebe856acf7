//! Conversation files of one instance.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::appender::{FileAppender, FileEnd};
use super::background_writer::BackgroundWriter;
use super::dirty_checkpoints::DirtyCheckpoints;
use super::synced_disk::SyncedDisk;
use super::wal::InboxWal;
use super::{layout, lines};
use crate::record::{CarriedFold, InboxRecord};
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::store::{
    BaseChange, FinishedTurn, InstanceMeta, OpenConversation, StoreError, StoredConversation,
    blocking,
};

/// Turn events and rewritten bases above this size in bytes are synced in their own file. Copying
/// them into the carrier record would take longer.
const OWN_SYNC_BYTES: u64 = 64 * 1024;

#[derive(Clone)]
pub(super) struct ConversationShared {
    pub(super) disk: Arc<SyncedDisk>,
    pub(super) inbox: Arc<InboxWal>,
    pub(super) dirty_checkpoints: Arc<DirtyCheckpoints>,
    pub(super) background: Arc<BackgroundWriter>,
}

/// An open conversation. It keeps no file open between turns.
pub(super) struct JsonlConversation {
    /// `None` after a call that held the files was cancelled.
    files: Option<ConversationFiles>,
}

impl JsonlConversation {
    pub(super) fn new(id: InstanceId, shared: ConversationShared, dir: &Path) -> Self {
        JsonlConversation {
            files: Some(ConversationFiles::new(id, shared, dir)),
        }
    }

    /// Returns the files. Fails if a cancelled call has taken them.
    fn files(&mut self) -> Result<&mut ConversationFiles, StoreError> {
        self.files.as_mut().ok_or(StoreError::Closed)
    }

    /// Runs blocking disk work on a thread that may block.
    async fn run_blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut ConversationFiles) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut files = self.files.take().ok_or(StoreError::Closed)?;
        let (files, done) = blocking(move || {
            let done = work(&mut files);
            Ok((files, done))
        })
        .await?;
        self.files = Some(files);
        done
    }
}

#[async_trait]
impl OpenConversation for JsonlConversation {
    async fn load(&mut self) -> Result<StoredConversation, StoreError> {
        let files = self.files()?;
        match files.has_files() {
            true => self.run_blocking(|files| files.load()).await,
            false => Ok(StoredConversation::default()),
        }
    }

    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.files()?.events.append(event)
    }

    async fn discard_events(&mut self) -> Result<(), StoreError> {
        self.files()?.events.clear()
    }

    async fn checkpoint(&mut self, change: BaseChange<'_>) -> Result<(), StoreError> {
        let change = OwnedBaseChange::from(change);
        self.run_blocking(move |files| files.apply_to_base_and_sync(&change))
            .await
    }

    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        change: BaseChange<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError> {
        let change = OwnedBaseChange::from(change);
        let files = self.files()?;
        let carried = files.carried_messages(&change);
        if carried.is_none() {
            // The events are too large to be written twice.
            self.run_blocking(|files| files.sync()).await?;
        }
        let files = self.files()?;
        let turn_id = turn.turn_id.clone();
        let is_carried = carried.is_some();
        files
            .shared
            .inbox
            .commit(&InboxRecord::done(turn, carried))
            .await?;
        files.shared.background.put_meta_soon(meta);
        let applied = if is_carried {
            files.apply_carried_to_base(&change, turn_id)
        } else {
            self.run_blocking(move |files| files.apply_to_base_and_sync(&change))
                .await
        };
        if let Err(error) = &applied {
            // The turn is over nevertheless.
            tracing::warn!(%error, "failed to write a turn's messages; the next turn retries");
        }
        Ok(applied.is_ok())
    }
}

/// A change of the base messages that can move to another thread. Cloning it copies no messages.
enum OwnedBaseChange {
    Append(Vec<Arc<Message>>),
    Rewrite(Vec<Arc<Message>>),
}

impl From<BaseChange<'_>> for OwnedBaseChange {
    fn from(change: BaseChange<'_>) -> Self {
        match change {
            BaseChange::Append(messages) => OwnedBaseChange::Append(messages.to_vec()),
            BaseChange::Rewrite(messages) => OwnedBaseChange::Rewrite(messages.to_vec()),
        }
    }
}

struct ConversationFiles {
    id: InstanceId,
    shared: ConversationShared,
    base: FileAppender,
    events: FileAppender,
}

impl ConversationFiles {
    fn new(id: InstanceId, shared: ConversationShared, dir: &Path) -> Self {
        let base = FileAppender::new(
            Arc::clone(&shared.disk),
            dir.join(layout::BASE),
            layout::INSTANCE_FILE_DEPTH,
        );
        let events = FileAppender::new(
            Arc::clone(&shared.disk),
            dir.join(layout::EVENTS),
            layout::INSTANCE_FILE_DEPTH,
        );
        ConversationFiles {
            id,
            shared,
            base,
            events,
        }
    }

    /// Returns true if the conversation has a messages file or an events file.
    fn has_files(&self) -> bool {
        [&self.base, &self.events]
            .iter()
            .any(|file| self.shared.disk.exists(file.path()))
    }

    /// Reads the messages and events from their files.
    fn load(&self) -> Result<StoredConversation, StoreError> {
        read(&self.shared.disk, self.base.path(), self.events.path())
    }

    /// Returns the messages that the inbox record that ends the turn carries, so that the events
    /// and the base need no sync. Returns `None` if there are too many bytes to copy: then the
    /// files must be synced.
    fn carried_messages(&mut self, change: &OwnedBaseChange) -> Option<CarriedFold> {
        // If the base is unusable, the change itself reports the error.
        let end = self.base.end().ok()?;
        let (base_position, max_bytes, messages, is_whole) = match change {
            OwnedBaseChange::Append(messages) => (end, self.events.len(), messages, false),
            // Each message was already in the base or came with this turn, which bounds the size.
            OwnedBaseChange::Rewrite(messages) => {
                let max_bytes = end.at + self.events.len();
                (FileEnd::EMPTY, max_bytes, messages, true)
            }
        };
        if max_bytes > OWN_SYNC_BYTES {
            return None;
        }
        self.shared
            .dirty_checkpoints
            .mark_carried_by_inbox(&self.id);
        Some(CarriedFold {
            instance: self.id.clone(),
            at: base_position.at,
            sequence: base_position.next,
            is_whole,
            messages: messages.clone(),
        })
    }

    /// Syncs the appended events. Also syncs the base if it contains unsynced messages of earlier
    /// turns.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.events.sync()?;
        if !self.shared.dirty_checkpoints.contains(&self.id) {
            return Ok(());
        }
        if !self.shared.disk.exists(self.base.path()) {
            // The conversation was deleted, so there is nothing to sync.
            self.shared.dirty_checkpoints.mark_synced(&self.id);
            return Ok(());
        }
        self.sync_base()
    }

    /// Applies a change to the base, syncs the base, and clears the events.
    fn apply_to_base_and_sync(&mut self, change: &OwnedBaseChange) -> Result<(), StoreError> {
        match change {
            OwnedBaseChange::Append(messages) => self.base.append_all(messages.iter())?,
            OwnedBaseChange::Rewrite(messages) => self.rewrite_base(messages, false)?,
        }
        self.sync_base()?;
        self.close_after_change()
    }

    /// Applies a change to the base without a sync, and clears the events. The durable inbox record
    /// of the turn `turn_id` carries the messages of the change.
    fn apply_carried_to_base(
        &mut self,
        change: &OwnedBaseChange,
        turn_id: String,
    ) -> Result<(), StoreError> {
        let kept_bytes = match change {
            OwnedBaseChange::Append(messages) => {
                let length = self.base.len();
                self.base.append_all(messages.iter())?;
                length
            }
            OwnedBaseChange::Rewrite(messages) => {
                self.rewrite_base(messages, true)?;
                0
            }
        };
        self.base.mark_stored();
        let written_bytes = self.base.len() - kept_bytes;
        self.shared
            .dirty_checkpoints
            .add_unsynced(&self.id, turn_id, written_bytes);
        self.close_after_change()
    }

    /// Clears the events, which are part of the base now, and closes both files.
    fn close_after_change(&mut self) -> Result<(), StoreError> {
        self.base.close();
        self.events.clear()?;
        self.events.close();
        Ok(())
    }

    /// Replaces all messages. `is_carried`: the log also contains them, so the file is overwritten
    /// in place.
    fn rewrite_base(
        &mut self,
        messages: &[Arc<Message>],
        is_carried: bool,
    ) -> Result<(), StoreError> {
        let path = self.base.path().to_owned();
        let written = if is_carried {
            self.base.overwrite(messages)
        } else {
            self.base.replace(messages)
        };
        written.map_err(|cause| StoreError::file("write", &path, cause))
    }

    /// Syncs even if nothing was appended: an earlier process may have been killed before its sync.
    fn sync_base(&mut self) -> Result<(), StoreError> {
        self.base.sync()?;
        self.shared.dirty_checkpoints.mark_synced(&self.id);
        Ok(())
    }
}

/// Reads the messages and events of a conversation.
pub(super) fn read(
    disk: &SyncedDisk,
    base: &Path,
    events: &Path,
) -> Result<StoredConversation, StoreError> {
    // Events first: a concurrent reader may then see a turn's events twice during a fold, but never
    // misses them. `restore` removes the duplicates.
    let (events, mut warnings) = read_lines::<MessageEvent>(disk, events)?.into_values();
    let (base, more) = read_lines::<Arc<Message>>(disk, base)?.into_values();
    warnings.extend(more);
    Ok(StoredConversation {
        base,
        events,
        warnings,
    })
}

/// Reads the values of a JSON Lines file, with its position and warnings.
pub(super) fn read_lines<T: serde::de::DeserializeOwned>(
    disk: &SyncedDisk,
    path: &Path,
) -> Result<lines::ParsedLines<T>, StoreError> {
    lines::read(&**disk, path).map_err(|cause| StoreError::file("read", path, cause))
}
