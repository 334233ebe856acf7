//! Titles of conversations. A title is a state record of its conversation, so it is deleted with the
//! conversation.

use std::collections::HashMap;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{RecordStore, StoreError, update};
use goondan_core::reserved_names::TITLE_RECORD;
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// Titles of all conversations. The store is read once, because clients list titles often.
#[derive(Default)]
pub(crate) struct ConversationTitles {
    /// `None` until the first use.
    loaded: Mutex<Option<HashMap<InstanceId, String>>>,
}

impl ConversationTitles {
    /// Returns the titles of all conversations that have one.
    pub(crate) async fn all<R: RecordStore + ?Sized>(
        &self,
        records: &R,
    ) -> Result<HashMap<InstanceId, String>, StoreError> {
        let mut loaded = self.loaded.lock().await;
        if let Some(titles) = &*loaded {
            return Ok(titles.clone());
        }
        let titles = load(records).await?;
        Ok(loaded.insert(titles).clone())
    }

    /// Sets or removes a title. It is durable on return.
    pub(crate) async fn set<R: RecordStore + ?Sized>(
        &self,
        records: &R,
        id: &InstanceId,
        title: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut loaded = self.loaded.lock().await;
        update(records, id, TITLE_RECORD, |_| Some(json!(title))).await?;
        if let Some(titles) = &mut *loaded {
            match title {
                Some(title) => drop(titles.insert(id.clone(), title.to_owned())),
                None => drop(titles.remove(id)),
            }
        }
        Ok(())
    }

    /// Removes the title of a deleted conversation.
    pub(crate) async fn forget(&self, id: &InstanceId) {
        if let Some(titles) = &mut *self.loaded.lock().await {
            titles.remove(id);
        }
    }
}

/// Reads all titles.
async fn load<R: RecordStore + ?Sized>(
    records: &R,
) -> Result<HashMap<InstanceId, String>, StoreError> {
    let records = records.all_records(TITLE_RECORD).await?;
    let titles = records.into_iter();
    Ok(titles
        .filter_map(|(id, record)| match record.value {
            Value::String(title) => Some((id, title)),
            _ => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use goondan_core::ports::store::RecordStore as _;
    use goondan_store::memory::MemoryStore;
    use goondan_store::suite::samples::instance;

    use super::*;

    #[tokio::test]
    async fn a_title_is_stored_replaced_and_removed() {
        let store = MemoryStore::new("/nowhere".into());
        let id = instance("k");
        let titles = ConversationTitles::default();
        for (title, expected) in [
            (Some("Bees"), Some("Bees")),
            (Some("Wasps"), Some("Wasps")),
            (None, None),
        ] {
            titles.set(&store, &id, title).await.unwrap();
            let cached = titles.all(&store).await.unwrap();
            let stored = ConversationTitles::default().all(&store).await.unwrap();
            assert_eq!(cached.get(&id).map(String::as_str), expected);
            assert_eq!(stored, cached);
        }
        let record = store.get(&id, TITLE_RECORD).await.unwrap();
        assert_eq!(record.map(|record| record.value), Some(Value::Null));
    }

    #[tokio::test]
    async fn a_deleted_conversation_has_no_title() {
        let store = MemoryStore::new("/nowhere".into());
        let id = instance("k");
        let titles = ConversationTitles::default();
        titles.set(&store, &id, Some("Bees")).await.unwrap();
        assert_eq!(titles.all(&store).await.unwrap().len(), 1);
        titles.forget(&id).await;
        assert!(titles.all(&store).await.unwrap().is_empty());
    }
}
