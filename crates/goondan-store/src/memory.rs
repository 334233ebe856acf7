//! An in-memory workspace, for tests and for embedding without a disk.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::Value;

use super::wal_index::{WalIndex, WalState};
use crate::record::InboxRecord;
use crate::workspace_directories::WorkspaceDirectories;
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::journal::{
    EffectOutcome, InterruptionPolicy, JournalEffect, JournalProgress, TurnEffect, TurnJournal,
    TurnJournalStore,
};
use goondan_core::ports::store::{
    BaseChange, ConversationStore, DurabilityTicket, FinishedTurn, InstanceLease, InstanceMeta,
    InstanceStore, LogRecord, OpenConversation, RecordStore, RecordVersion, RecoveredState,
    RuntimeEventStore, StoreError, StoredConversation, TurnRemains, VersionedRecord, WorkspaceLog,
    WorkspacePaths, put_begun_first,
};

/// Number of new records after which the inbox is compacted.
const MIN_COMPACTION_RECORDS: usize = 20_000;

/// Conversations in memory. Tools work below `dir`, which the caller owns. Clones share the same
/// workspace, so that a swarm can be restarted on it.
#[derive(Clone)]
pub struct MemoryStore {
    folders: WorkspaceDirectories,
    state: Arc<Mutex<MemoryState>>,
}

#[derive(Default)]
struct MemoryState {
    inbox: Vec<InboxRecord>,
    /// Inbox length at which obsolete records are removed.
    compact_at: usize,
    metas: HashMap<InstanceId, InstanceMeta>,
    conversations: HashMap<InstanceId, StoredConversation>,
    epochs: HashMap<InstanceId, u64>,
    records: HashMap<InstanceId, HashMap<String, VersionedRecord>>,
    /// Side effects of unfinished turns.
    journals: HashMap<InstanceId, MemoryTurnEffects>,
    last_version: RecordVersion,
}

impl MemoryStore {
    pub fn new(dir: PathBuf) -> Self {
        MemoryStore {
            folders: WorkspaceDirectories::below(dir),
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<MemoryState>) -> MutexGuard<'_, MemoryState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryState {
    /// Appends a record, and removes records that are no longer needed when their number has
    /// doubled.
    fn take(&mut self, record: InboxRecord) {
        self.inbox.push(record);
        if self.inbox.len() >= self.compact_at.max(MIN_COMPACTION_RECORDS) {
            let ledger = WalIndex::from_records(self.inbox.iter());
            let records = self.inbox.iter().enumerate();
            self.inbox = records
                .filter_map(|(position, record)| ledger.reduce_record(position, record))
                .map(Cow::into_owned)
                .collect();
            self.compact_at = self.inbox.len() * 2;
        }
    }

    /// Returns a stored record; `None` if there is none.
    fn record(&self, id: &InstanceId, name: &str) -> Option<&VersionedRecord> {
        self.records.get(id)?.get(name)
    }
}

#[async_trait]
impl WorkspaceLog for MemoryStore {
    async fn recover(&self) -> Result<RecoveredState, StoreError> {
        let state = self.state();
        let (ledger, mut held) = (
            WalIndex::from_records(state.inbox.iter()),
            WalState::default(),
        );
        for position in ledger.needed_positions() {
            ledger.take_up(position, state.inbox[position].clone(), &mut held);
        }
        let mut recovered = held.recovered;
        put_begun_first(&mut recovered, |id| {
            TurnRemains::in_events(
                state
                    .conversations
                    .get(id)
                    .iter()
                    .flat_map(|conversation| &conversation.events),
            )
        });
        Ok(recovered)
    }

    fn append(&self, record: LogRecord) -> DurabilityTicket {
        self.state().take(record.into());
        DurabilityTicket::settled(Ok(()))
    }
}

#[async_trait]
impl ConversationStore for MemoryStore {
    async fn claim(&self, id: &InstanceId) -> Result<InstanceLease, StoreError> {
        let mut state = self.state();
        let epoch = state.epochs.entry(id.clone()).or_default();
        *epoch += 1;
        Ok(InstanceLease {
            instance: id.clone(),
            epoch: *epoch,
        })
    }

    async fn open(&self, lease: InstanceLease) -> Result<Box<dyn OpenConversation>, StoreError> {
        Ok(Box::new(MemoryConversation {
            lease,
            state: Arc::clone(&self.state),
        }))
    }

    async fn read(&self, id: &InstanceId) -> Result<StoredConversation, StoreError> {
        Ok(self
            .state()
            .conversations
            .get(id)
            .cloned()
            .unwrap_or_default())
    }
}

#[async_trait]
impl InstanceStore for MemoryStore {
    async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        Ok(self.state().metas.values().cloned().collect())
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError> {
        Ok(self.state().metas.get(id).cloned())
    }

    async fn put_instance(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        self.state().metas.insert(meta.id(), meta.clone());
        Ok(())
    }

    async fn delete_instance(&self, id: &InstanceId) -> Result<bool, StoreError> {
        let mut state = self.state();
        state.conversations.remove(id);
        state.records.remove(id);
        state.journals.remove(id);
        Ok(state.metas.remove(id).is_some())
    }
}

#[async_trait]
impl RecordStore for MemoryStore {
    async fn get(
        &self,
        id: &InstanceId,
        name: &str,
    ) -> Result<Option<VersionedRecord>, StoreError> {
        Ok(self.state().record(id, name).cloned())
    }

    async fn put(
        &self,
        id: &InstanceId,
        name: &str,
        value: &Value,
        expected: Option<RecordVersion>,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        if state.record(id, name).map(|record| record.version) != expected {
            return Ok(false);
        }
        state.last_version += 1;
        let record = VersionedRecord {
            value: value.clone(),
            version: state.last_version,
        };
        state
            .records
            .entry(id.clone())
            .or_default()
            .insert(name.to_owned(), record);
        Ok(true)
    }

    async fn all_records(
        &self,
        name: &str,
    ) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError> {
        let state = self.state();
        let records = state
            .records
            .iter()
            .filter_map(|(id, records)| Some((id.clone(), records.get(name)?.clone())));
        Ok(records.collect())
    }
}

/// Keeps no events: observers receive them as they occur.
#[async_trait]
impl RuntimeEventStore for MemoryStore {
    fn record(&self, _event: &Arc<RuntimeEvent>) {}

    async fn events(&self, _id: &InstanceId, _after: u64) -> Result<Vec<RuntimeEvent>, StoreError> {
        Ok(Vec::new())
    }
}

impl WorkspacePaths for MemoryStore {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        self.folders.workdir(id)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        self.folders.output_file(id, name)
    }
}

struct MemoryConversation {
    lease: InstanceLease,
    state: Arc<Mutex<MemoryState>>,
}

impl MemoryConversation {
    /// Changes the stored state if the lease is still valid.
    fn change_state(&self, change: impl FnOnce(&mut MemoryState)) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        if state.epochs.get(&self.lease.instance) != Some(&self.lease.epoch) {
            return Err(StoreError::Fenced(self.lease.instance.clone()));
        }
        change(&mut state);
        Ok(())
    }

    /// Changes the events of the open turn of this conversation.
    fn change_events(&self, change: impl FnOnce(&mut Vec<MessageEvent>)) -> Result<(), StoreError> {
        let id = self.lease.instance.clone();
        self.change_state(|state| change(&mut state.conversations.entry(id).or_default().events))
    }
}

#[async_trait]
impl OpenConversation for MemoryConversation {
    async fn load(&mut self) -> Result<StoredConversation, StoreError> {
        Ok(lock(&self.state)
            .conversations
            .get(&self.lease.instance)
            .cloned()
            .unwrap_or_default())
    }

    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.change_events(|events| events.push(event.clone()))
    }

    async fn discard_events(&mut self) -> Result<(), StoreError> {
        self.change_events(Vec::clear)
    }

    async fn checkpoint(&mut self, fold: BaseChange<'_>) -> Result<(), StoreError> {
        let id = self.lease.instance.clone();
        self.change_state(|state| apply_fold(state.conversations.entry(id).or_default(), fold))
    }

    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        fold: BaseChange<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError> {
        let id = self.lease.instance.clone();
        self.change_state(|state| {
            state.take(InboxRecord::done(turn, None));
            apply_fold(state.conversations.entry(id.clone()).or_default(), fold);
            state.metas.insert(id, meta);
        })?;
        Ok(true)
    }
}

/// Applies a checkpoint to the stored messages and removes the events of its turn.
fn apply_fold(conversation: &mut StoredConversation, fold: BaseChange<'_>) {
    match fold {
        BaseChange::Append(messages) => conversation
            .base
            .extend(messages.iter().map(Arc::<Message>::clone)),
        BaseChange::Rewrite(messages) => conversation.base = messages.to_vec(),
    }
    conversation.events.clear();
}

#[async_trait]
impl TurnJournalStore for MemoryStore {
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        let mut state = self.state();
        let running = state.journals.entry(instance.clone()).or_default();
        if running.turn_id != turn_id {
            // The recorded effects belong to a finished turn.
            *running = MemoryTurnEffects {
                turn_id: turn_id.to_owned(),
                effects: HashMap::new(),
            };
        }
        let recorded = running.effects.clone();
        Ok(Arc::new(MemoryJournal {
            instance: instance.clone(),
            recorded,
            state: Arc::clone(&self.state),
        }))
    }

    async fn close_journal(&self, instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        self.state().journals.remove(instance);
        Ok(())
    }
}

/// Effects of a turn, with outcomes if they finished.
#[derive(Default)]
struct MemoryTurnEffects {
    turn_id: String,
    effects: HashMap<String, JournalEffect>,
}

struct MemoryJournal {
    instance: InstanceId,
    /// Effects recorded before the turn was resumed.
    recorded: HashMap<String, JournalEffect>,
    state: Arc<Mutex<MemoryState>>,
}

impl MemoryJournal {
    /// Records the state of an effect in the journal; `outcome` is `None` while the effect runs.
    fn record(&self, effect: &TurnEffect, outcome: Option<Arc<Value>>) {
        if let Some(recorded) = lock(&self.state).journals.get_mut(&self.instance) {
            let entry = JournalEffect::new(effect, outcome);
            recorded.effects.insert(effect.id.clone(), entry);
        }
    }
}

#[async_trait]
impl TurnJournal for MemoryJournal {
    async fn run_value(
        &self,
        effect: TurnEffect,
        work: BoxFuture<'_, Value>,
    ) -> Result<EffectOutcome<Arc<Value>>, StoreError> {
        match self.recorded.get(&effect.id).map(|known| &known.outcome) {
            Some(Some(value)) => {
                return Ok(EffectOutcome::Done {
                    value: Arc::clone(value),
                    replayed: true,
                });
            }
            Some(None) if effect.when_interrupted == InterruptionPolicy::Report => {
                return Ok(EffectOutcome::Interrupted);
            }
            _ => self.record(&effect, None),
        }
        let value = Arc::new(work.await);
        self.record(&effect, Some(Arc::clone(&value)));
        Ok(EffectOutcome::Done {
            value,
            replayed: false,
        })
    }

    fn progress(&self) -> JournalProgress {
        JournalProgress::of(self.recorded.values())
    }

    fn has_intent(&self, effect_id: &str) -> bool {
        self.recorded.contains_key(effect_id)
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        self.recorded
            .get(effect_id)
            .is_some_and(|effect| effect.outcome.is_some())
    }
}
