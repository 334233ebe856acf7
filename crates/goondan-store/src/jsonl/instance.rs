//! The conversation of an instance.

use std::path::Path;
use std::sync::Arc;

use super::appender::Appender;
use super::disk::Disk;
use super::unsettled::Unsettled;
use super::{layout, lines};
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::store::{CarriedFold, Fold, InstanceStore, StoreError, StoredConversation};

/// What has more bytes, the events of a turn or a base that it rewrites, is synced where it is: to write it once more would
/// take longer.
const LARGE: u64 = 64 * 1024;

/// An open conversation. Between turns it holds no file open.
pub(super) struct JsonlInstance {
    id: InstanceId,
    disk: Arc<Disk>,
    unsettled: Arc<Unsettled>,
    base: Appender,
    events: Appender,
    /// The turn whose fold is in the record that ends it.
    carried: Option<String>,
}

impl JsonlInstance {
    pub(super) fn new(id: InstanceId, disk: Arc<Disk>, unsettled: Arc<Unsettled>, dir: &Path) -> Self {
        let base = Appender::new(Arc::clone(&disk), dir.join(layout::BASE), layout::DEPTH);
        let events = Appender::new(Arc::clone(&disk), dir.join(layout::EVENTS), layout::DEPTH);
        JsonlInstance { id, disk, unsettled, base, events, carried: None }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, path: &Path) -> Result<lines::Lines<T>, StoreError> {
        lines::read(&**self.disk, path).map_err(|cause| StoreError::new("read", path, &cause))
    }

    fn rewrite(&mut self, messages: &[Arc<Message>]) -> Result<(), StoreError> {
        let path = self.base.path().to_owned();
        let mut bytes = Vec::new();
        lines::encode(&mut bytes, messages).map_err(|cause| StoreError::new("encode", &path, &cause))?;
        let written = match &self.carried {
            Some(_) => self.base.put(&bytes),
            None => self.base.replace(&bytes),
        };
        written.map_err(|cause| StoreError::new("write", &path, &cause))
    }

    /// Even where nothing was appended: what is there may be of a process that was cut off before it could do this.
    fn sync_base(&mut self) -> Result<(), StoreError> {
        self.base.sync()?;
        self.unsettled.settled(&self.id);
        Ok(())
    }
}

impl InstanceStore for JsonlInstance {
    fn load(&mut self) -> Result<StoredConversation, StoreError> {
        // In this order: whoever looks on while a turn is folded may see its events twice, which `restore` tells, and never
        // misses them.
        let (events, mut warnings) = self.read::<MessageEvent>(self.events.path())?.into_values();
        let (base, more) = self.read::<Arc<Message>>(self.base.path())?.into_values();
        warnings.extend(more);
        Ok(StoredConversation { base, events, warnings })
    }

    fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.events.append(event)
    }

    fn discard_events(&mut self) -> Result<(), StoreError> {
        self.events.clear()
    }

    fn carry(&mut self, turn_id: &str, fold: Fold<'_>) -> Result<Option<CarriedFold>, StoreError> {
        // Where the base can't be used, the fold says so.
        let Ok(end) = self.base.end() else { return Ok(None) };
        let (at, size, messages) = match fold {
            Fold::Append(messages) => (end, self.events.len(), messages),
            // Each of its messages was in the base, or came with the turn.
            Fold::Rewrite(messages) => (0, end + self.events.len(), messages),
        };
        if size > LARGE {
            return Ok(None);
        }
        self.carried = Some(turn_id.to_owned());
        self.unsettled.carries(&self.id);
        let is_whole = matches!(fold, Fold::Rewrite(_));
        Ok(Some(CarriedFold { instance: self.id.clone(), at, is_whole, messages: messages.to_vec() }))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.events.sync()?;
        if !self.unsettled.contains(&self.id) {
            return Ok(());
        }
        if !self.disk.exists(self.base.path()) {
            // Somebody has deleted it: nothing is left to keep.
            self.unsettled.settled(&self.id);
            return Ok(());
        }
        self.sync_base()
    }

    fn fold(&mut self, fold: Fold<'_>) -> Result<(), StoreError> {
        let mut before = self.base.len();
        match fold {
            Fold::Append(messages) => self.base.append_all(messages.iter())?,
            Fold::Rewrite(messages) => {
                before = 0;
                self.rewrite(messages)?;
            }
        }
        match self.carried.take() {
            Some(turn_id) => {
                self.base.keep();
                self.unsettled.add(&self.id, turn_id, self.base.len() - before);
            }
            None => self.sync_base()?,
        }
        self.base.close();
        self.events.clear()?;
        self.events.close();
        Ok(())
    }
}
