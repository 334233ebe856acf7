//! A workspace that is gone with the process: for embedding without a disk, and for tests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::Value;

use super::begun::{self, Traces};
use super::ledger::{Held, Ledger};
use crate::jsonl::layout;
use goondan_core::event::RuntimeEvent;
use goondan_core::footing::Footing;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::journal::{Effect, Journal, Outcome, TurnJournal};
use goondan_core::ports::store::{
    CarriedFold, DeadLetter, Fold, InboxRecord, InstanceMeta, InstanceStore, OnDurable, Recovered, Store, StoreError,
    StoredConversation,
};

/// The inbox is looked through for what may go when it has grown by that many records.
const WORTH_COMPACTING: usize = 20_000;

/// Conversations in memory. Tools work below `dir`, which the caller owns. Clones are the same workspace: a swarm that ends
/// may be started again on one.
#[derive(Clone)]
pub struct MemoryStore {
    dir: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    inbox: Vec<InboxRecord>,
    /// Once the inbox is that long, what no longer matters goes.
    compact_at: usize,
    metas: HashMap<InstanceId, InstanceMeta>,
    conversations: HashMap<InstanceId, StoredConversation>,
    extension_states: HashMap<InstanceId, HashMap<String, Value>>,
    dead_letters: HashMap<InstanceId, Vec<DeadLetter>>,
}

impl MemoryStore {
    /// An empty workspace.
    pub fn new(dir: PathBuf) -> Self {
        MemoryStore { dir, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, record: InboxRecord) {
        self.inbox.push(record);
        if self.inbox.len() >= self.compact_at.max(WORTH_COMPACTING) {
            let ledger = Ledger::of(self.inbox.iter());
            let records = self.inbox.iter().enumerate();
            self.inbox =
                records.filter_map(|(place, record)| ledger.reduce(place, record)).map(Cow::into_owned).collect();
            self.compact_at = self.inbox.len() * 2;
        }
    }
}

impl Store for MemoryStore {
    fn recover(&self) -> Result<Recovered, StoreError> {
        let state = self.state();
        let (ledger, mut held) = (Ledger::of(state.inbox.iter()), Held::default());
        for place in ledger.places() {
            ledger.take_up(place, state.inbox[place].clone(), &mut held);
        }
        let mut recovered = held.recovered;
        begun::put_first(&mut recovered, |id| {
            Traces::in_events(state.conversations.get(id).iter().flat_map(|conversation| &conversation.events))
        });
        Ok(recovered)
    }

    fn submit(&self, record: InboxRecord, on_durable: OnDurable) {
        self.state().take(record);
        on_durable(Ok(()));
    }

    fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        Ok(self.state().metas.values().cloned().collect())
    }

    fn put_meta(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        self.state().metas.insert(meta.id(), meta.clone());
        Ok(())
    }

    fn open(&self, id: &InstanceId) -> Result<Box<dyn InstanceStore>, StoreError> {
        Ok(Box::new(MemoryInstance { id: id.clone(), state: Arc::clone(&self.state) }))
    }

    fn extension_state(&self, id: &InstanceId, extension: &str) -> Result<Option<Value>, StoreError> {
        Ok(self.state().extension_states.get(id).and_then(|states| states.get(extension)).cloned())
    }

    fn put_extension_state(&self, id: &InstanceId, extension: &str, state: &Value) -> Result<(), StoreError> {
        self.state().extension_states.entry(id.clone()).or_default().insert(extension.to_owned(), state.clone());
        Ok(())
    }

    fn dead_letters(&self, id: &InstanceId) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(self.state().dead_letters.get(id).cloned().unwrap_or_default())
    }

    fn put_dead_letters(&self, id: &InstanceId, letters: &[DeadLetter]) -> Result<(), StoreError> {
        self.state().dead_letters.insert(id.clone(), letters.to_vec());
        Ok(())
    }

    fn delete(&self, id: &InstanceId) -> Result<bool, StoreError> {
        let mut state = self.state();
        state.conversations.remove(id);
        state.extension_states.remove(id);
        state.dead_letters.remove(id);
        Ok(state.metas.remove(id).is_some())
    }

    fn log(&self, _event: &Arc<RuntimeEvent>) {}

    fn workdir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.dir, id).join(layout::WORKDIR)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        layout::instance_dir(&self.dir, id).join(layout::FILES).join(layout::file_name(name))
    }
}

struct MemoryInstance {
    id: InstanceId,
    state: Arc<Mutex<State>>,
}

impl MemoryInstance {
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Message>>, &mut Vec<MessageEvent>)) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = state.conversations.entry(self.id.clone()).or_default();
        change(&mut conversation.base, &mut conversation.events);
        Ok(())
    }
}

impl InstanceStore for MemoryInstance {
    fn load(&mut self) -> Result<StoredConversation, StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.conversations.get(&self.id).cloned().unwrap_or_default())
    }

    fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.change(|_, events| events.push(event.clone()))
    }

    fn discard_events(&mut self) -> Result<(), StoreError> {
        self.change(|_, events| events.clear())
    }

    fn carry(&mut self, _turn_id: &str, _fold: Fold<'_>) -> Result<Option<CarriedFold>, StoreError> {
        Ok(None)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn fold(&mut self, fold: Fold<'_>) -> Result<(), StoreError> {
        self.change(|base, events| {
            match fold {
                Fold::Append(messages) => base.extend(messages.iter().cloned()),
                Fold::Rewrite(messages) => *base = messages.to_vec(),
            }
            events.clear();
        })
    }
}

/// A journal that records nothing: without a disk there is nothing to resume.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryJournal;

#[async_trait]
impl Journal for MemoryJournal {
    async fn open(
        &self,
        _instance: &InstanceId,
        _turn_id: &str,
        _footing: &Arc<Footing>,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        Ok(Arc::new(MemoryJournal))
    }

    async fn close(&self, _instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl TurnJournal for MemoryJournal {
    async fn run(&self, _effect: Effect, work: BoxFuture<'_, Value>) -> Result<Outcome, StoreError> {
        Ok(Outcome::Done { value: work.await, replayed: false })
    }

    fn is_resumed(&self) -> bool {
        false
    }

    fn has_intent(&self, _effect_id: &str) -> bool {
        false
    }

    fn has_outcome(&self, _effect_id: &str) -> bool {
        false
    }
}
