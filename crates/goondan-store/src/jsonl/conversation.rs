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
    pub(super) unsettled: Arc<DirtyCheckpoints>,
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
    async fn blocking<T: Send + 'static>(
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
        match files.exist() {
            true => self.blocking(|files| files.load()).await,
            false => Ok(StoredConversation::default()),
        }
    }

    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.files()?.events.append(event)
    }

    async fn discard_events(&mut self) -> Result<(), StoreError> {
        self.files()?.events.clear()
    }

    async fn fold(&mut self, fold: BaseChange<'_>) -> Result<(), StoreError> {
        let fold = OwnedFold::from(fold);
        self.blocking(move |files| files.fold(&fold, None)).await
    }

    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        fold: BaseChange<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError> {
        let fold = OwnedFold::from(fold);
        let files = self.files()?;
        let carried = files.carry(&fold);
        if carried.is_none() {
            // The events are too large to be written twice.
            self.blocking(|files| files.sync()).await?;
        }
        let files = self.files()?;
        let (carrier, is_carried) = (turn.turn_id.clone(), carried.is_some());
        files
            .shared
            .inbox
            .commit(&InboxRecord::done(turn, carried))
            .await?;
        files.shared.background.put_meta_soon(meta);
        // The turn is over even if this fails: the next turn repeats a failed fold.
        let folded = match is_carried {
            true => files.fold(&fold, Some(carrier)),
            false => self.blocking(move |files| files.fold(&fold, None)).await,
        };
        let warn = |error: &StoreError| {
            tracing::warn!(%error, "failed to write a turn's messages; the next turn retries");
        };
        Ok(folded.inspect_err(warn).is_ok())
    }
}

/// A fold that can move to another thread. Cloning it copies no messages.
enum OwnedFold {
    Append(Vec<Arc<Message>>),
    Rewrite(Vec<Arc<Message>>),
}

impl From<BaseChange<'_>> for OwnedFold {
    fn from(fold: BaseChange<'_>) -> Self {
        match fold {
            BaseChange::Append(messages) => OwnedFold::Append(messages.to_vec()),
            BaseChange::Rewrite(messages) => OwnedFold::Rewrite(messages.to_vec()),
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

    /// Returns whether the conversation has a messages file or an events file.
    fn exist(&self) -> bool {
        [&self.base, &self.events]
            .iter()
            .any(|file| self.shared.disk.exists(file.path()))
    }

    /// Reads the messages and events from their files.
    fn load(&self) -> Result<StoredConversation, StoreError> {
        read(&self.shared.disk, self.base.path(), self.events.path())
    }

    /// Returns the fold that the turn's final record carries, so that events and base need no sync
    /// of their own. `None` if they do need one.
    fn carry(&mut self, fold: &OwnedFold) -> Option<CarriedFold> {
        // If the base is unusable, the fold itself reports the error.
        let end = self.base.end().ok()?;
        let (place, size, messages, is_whole) = match fold {
            OwnedFold::Append(messages) => (end, self.events.len(), messages, false),
            // Each message was already in the base or came with this turn, which bounds the size.
            OwnedFold::Rewrite(messages) => {
                let size = end.at + self.events.len();
                (FileEnd::EMPTY, size, messages, true)
            }
        };
        if size > OWN_SYNC_BYTES {
            return None;
        }
        self.shared.unsettled.carries(&self.id);
        Some(CarriedFold {
            instance: self.id.clone(),
            at: place.at,
            sequence: place.next,
            is_whole,
            messages: messages.clone(),
        })
    }

    /// Makes all appended events durable, and the folds of earlier turns.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.events.sync()?;
        if !self.shared.unsettled.contains(&self.id) {
            return Ok(());
        }
        if !self.shared.disk.exists(self.base.path()) {
            // The conversation was deleted, so there is nothing to sync.
            self.shared.unsettled.settled(&self.id);
            return Ok(());
        }
        self.sync_base()
    }

    /// Merges `fold` into the base and clears the events. Syncs the base, unless the durable record
    /// of the turn `carrier` carries the fold.
    fn fold(&mut self, fold: &OwnedFold, carrier: Option<String>) -> Result<(), StoreError> {
        let mut before = self.base.len();
        match fold {
            OwnedFold::Append(messages) => self.base.append_all(messages.iter())?,
            OwnedFold::Rewrite(messages) => {
                before = 0;
                self.rewrite(messages, carrier.is_some())?;
            }
        }
        match carrier {
            Some(turn_id) => {
                self.base.keep();
                self.shared
                    .unsettled
                    .add(&self.id, turn_id, self.base.len() - before);
            }
            None => self.sync_base()?,
        }
        self.base.close();
        self.events.clear()?;
        self.events.close();
        Ok(())
    }

    /// Replaces all messages. `is_carried`: the log also contains them, so the file is overwritten
    /// in place.
    fn rewrite(&mut self, messages: &[Arc<Message>], is_carried: bool) -> Result<(), StoreError> {
        let path = self.base.path().to_owned();
        let written = match is_carried {
            true => self.base.overwrite(messages),
            false => self.base.replace(messages),
        };
        written.map_err(|cause| StoreError::file("write", &path, cause))
    }

    /// Syncs even if nothing was appended: an earlier process may have been killed before its sync.
    fn sync_base(&mut self) -> Result<(), StoreError> {
        self.base.sync()?;
        self.shared.unsettled.settled(&self.id);
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
