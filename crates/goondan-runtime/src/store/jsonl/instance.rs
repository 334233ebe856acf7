//! The conversation of an instance.

use std::path::Path;
use std::sync::Arc;

use super::appender::Appender;
use super::disk::Disk;
use super::{layout, lines};
use crate::message::{Message, MessageEvent};
use crate::ports::store::{Fold, InstanceStore, StoreError, StoredConversation};

/// An open conversation. Between turns it holds no file open.
pub(super) struct JsonlInstance {
    disk: Arc<Disk>,
    base: Appender,
    events: Appender,
}

impl JsonlInstance {
    pub(super) fn new(disk: Arc<Disk>, dir: &Path) -> Self {
        let base = Appender::new(Arc::clone(&disk), dir.join(layout::BASE), layout::DEPTH);
        let events = Appender::new(Arc::clone(&disk), dir.join(layout::EVENTS), layout::DEPTH);
        JsonlInstance { disk, base, events }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, path: &Path) -> Result<lines::Lines<T>, StoreError> {
        lines::read(&**self.disk, path).map_err(|cause| StoreError::new("read", path, &cause))
    }

    fn rewrite(&mut self, messages: &[Arc<Message>]) -> Result<(), StoreError> {
        let path = self.base.path().to_owned();
        let mut bytes = Vec::new();
        for message in messages {
            serde_json::to_writer(&mut bytes, message).map_err(|cause| StoreError::new("encode", &path, &cause))?;
            bytes.push(b'\n');
        }
        self.base.replace(&bytes).map_err(|cause| StoreError::new("write", &path, &cause))
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

    fn sync(&mut self) -> Result<(), StoreError> {
        self.events.sync()
    }

    fn fold(&mut self, fold: Fold<'_>) -> Result<(), StoreError> {
        match fold {
            Fold::Append(messages) => self.base.append_all(messages.iter())?,
            Fold::Rewrite(messages) => self.rewrite(messages)?,
        }
        // Even where nothing was appended: what is there may be of a process that was cut off before it could do this.
        self.base.sync()?;
        self.base.close();
        self.events.clear()?;
        self.events.close();
        Ok(())
    }
}
