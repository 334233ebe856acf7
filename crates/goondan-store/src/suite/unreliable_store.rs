//! A store behind an unreliable connection, for tests of code that uses stores.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::MessageEvent;
use goondan_core::ports::journal::{
    EffectOutcome, JournalProgress, TurnEffect, TurnJournal, TurnJournalStore,
};
use goondan_core::ports::store::{
    BaseChange, ConversationStore, DurabilityResolver, DurabilityTicket, FinishedTurn,
    InstanceLease, InstanceMeta, InstanceStore, LogRecord, OpenConversation, RecordStore,
    RecordVersion, RecoveredState, RuntimeEventStore, Store, StoreError, StoredConversation,
    VersionedRecord, WorkspaceLog, WorkspacePaths,
};

/// A store that answers each call after a varying delay, and fails some calls. A failed call has no
/// effect. The store must be created and used inside a Tokio runtime.
pub struct UnreliableStore {
    store: Arc<dyn Store>,
    faults: Arc<FaultInjector>,
    /// Records in transit, in call order.
    records: Mutex<UnboundedSender<(LogRecord, DurabilityResolver)>>,
    remembered_outside: Option<usize>,
}

struct FaultInjector {
    longest: Duration,
    /// True if every answer takes the maximum delay.
    is_steady: bool,
    /// One of this many calls fails; 0 for no failures.
    fails: u64,
    calls: AtomicU64,
}

impl UnreliableStore {
    /// Wraps `store`. Each answer takes up to `longest`, and one of `fails` calls fails.
    pub fn new(store: Arc<dyn Store>, longest: Duration, fails: u64) -> Self {
        UnreliableStore::with_faults(
            store,
            FaultInjector {
                longest,
                is_steady: false,
                fails,
                calls: AtomicU64::new(0),
            },
        )
    }

    /// Wraps `store`. Each answer takes exactly `each`, and no call fails.
    pub fn steady(store: Arc<dyn Store>, each: Duration) -> Self {
        UnreliableStore::with_faults(
            store,
            FaultInjector {
                longest: each,
                is_steady: true,
                fails: 0,
                calls: AtomicU64::new(0),
            },
        )
    }

    /// Wraps a store; `faults` delays and fails calls.
    fn with_faults(store: Arc<dyn Store>, faults: FaultInjector) -> Self {
        let faults = Arc::new(faults);
        let (records, mut queue) = unbounded_channel::<(LogRecord, DurabilityResolver)>();
        let (inner, record_faults) = (Arc::clone(&store), Arc::clone(&faults));
        tokio::spawn(async move {
            while let Some((record, receipt)) = queue.recv().await {
                match record_faults.inject_fault().await {
                    Ok(()) => receipt.settle(inner.append(record).await),
                    Err(error) => receipt.settle(Err(error)),
                }
            }
        });
        UnreliableStore {
            store,
            faults,
            records: Mutex::new(records),
            remembered_outside: None,
        }
    }

    /// Limits the number of idle instances that the engine keeps in memory.
    #[must_use]
    pub fn remembered_outside(self, most: usize) -> Self {
        UnreliableStore {
            remembered_outside: Some(most),
            ..self
        }
    }
}

impl FaultInjector {
    /// Waits for the delay of one call, and fails some calls.
    async fn inject_fault(&self) -> Result<(), StoreError> {
        // The sequence is pseudo-random but equal in each run.
        let call = pseudo_random(self.calls.fetch_add(1, Ordering::Relaxed));
        let part = if self.is_steady {
            63
        } else {
            u32::try_from(call % 64).unwrap_or_default()
        };
        tokio::time::sleep(self.longest * part / 63).await;
        match self.fails > 0 && (call / 64).is_multiple_of(self.fails) {
            true => Err(StoreError::Other(Arc::new(io::Error::from(
                io::ErrorKind::ConnectionReset,
            )))),
            false => Ok(()),
        }
    }
}

/// Returns a pseudo-random number (SplitMix64). Failures are irregular so that a caller with
/// periodic retries does not fail each time.
fn pseudo_random(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[async_trait]
impl WorkspaceLog for UnreliableStore {
    async fn recover(&self) -> Result<RecoveredState, StoreError> {
        self.faults.inject_fault().await?;
        self.store.recover().await
    }

    fn earlier_result(&self, event_id: &str) -> Option<goondan_core::result_cache::EncodedResult> {
        self.store.earlier_result(event_id)
    }

    fn append(&self, record: LogRecord) -> DurabilityTicket {
        let (receipt, ticket) = DurabilityTicket::new();
        // If the runtime has ended, the ticket reports that the store is closed.
        let _ = self
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send((record, receipt));
        ticket
    }
}

#[async_trait]
impl ConversationStore for UnreliableStore {
    async fn claim(&self, id: &InstanceId) -> Result<InstanceLease, StoreError> {
        self.faults.inject_fault().await?;
        self.store.claim(id).await
    }

    async fn open(&self, lease: InstanceLease) -> Result<Box<dyn OpenConversation>, StoreError> {
        self.faults.inject_fault().await?;
        let conversation = self.store.open(lease).await?;
        Ok(Box::new(UnreliableConversation {
            conversation,
            faults: Arc::clone(&self.faults),
        }))
    }

    async fn read(&self, id: &InstanceId) -> Result<StoredConversation, StoreError> {
        self.faults.inject_fault().await?;
        self.store.read(id).await
    }
}

struct UnreliableConversation {
    conversation: Box<dyn OpenConversation>,
    faults: Arc<FaultInjector>,
}

#[async_trait]
impl OpenConversation for UnreliableConversation {
    async fn load(&mut self) -> Result<StoredConversation, StoreError> {
        self.faults.inject_fault().await?;
        self.conversation.load().await
    }

    async fn append(&mut self, event: &MessageEvent) -> Result<(), StoreError> {
        self.faults.inject_fault().await?;
        self.conversation.append(event).await
    }

    async fn discard_events(&mut self) -> Result<(), StoreError> {
        self.faults.inject_fault().await?;
        self.conversation.discard_events().await
    }

    async fn checkpoint(&mut self, fold: BaseChange<'_>) -> Result<(), StoreError> {
        self.faults.inject_fault().await?;
        self.conversation.checkpoint(fold).await
    }

    async fn end_turn(
        &mut self,
        turn: FinishedTurn,
        fold: BaseChange<'_>,
        meta: InstanceMeta,
    ) -> Result<bool, StoreError> {
        self.faults.inject_fault().await?;
        self.conversation.end_turn(turn, fold, meta).await
    }
}

#[async_trait]
impl InstanceStore for UnreliableStore {
    async fn instances(&self) -> Result<Vec<InstanceMeta>, StoreError> {
        self.faults.inject_fault().await?;
        self.store.instances().await
    }

    async fn instances_behind(
        &self,
        after: Option<&InstanceId>,
    ) -> Result<Vec<InstanceMeta>, StoreError> {
        self.faults.inject_fault().await?;
        self.store.instances_behind(after).await
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<InstanceMeta>, StoreError> {
        self.faults.inject_fault().await?;
        self.store.instance(id).await
    }

    fn remembered_outside(&self) -> Option<usize> {
        self.remembered_outside
            .or_else(|| self.store.remembered_outside())
    }

    fn idle_instances(&self) -> Option<usize> {
        self.store.idle_instances()
    }

    async fn put_instance(&self, meta: &InstanceMeta) -> Result<(), StoreError> {
        self.faults.inject_fault().await?;
        self.store.put_instance(meta).await
    }

    async fn delete_instance(&self, id: &InstanceId) -> Result<bool, StoreError> {
        self.faults.inject_fault().await?;
        self.store.delete_instance(id).await
    }
}

#[async_trait]
impl RecordStore for UnreliableStore {
    async fn get(
        &self,
        id: &InstanceId,
        name: &str,
    ) -> Result<Option<VersionedRecord>, StoreError> {
        self.faults.inject_fault().await?;
        self.store.get(id, name).await
    }

    async fn put(
        &self,
        id: &InstanceId,
        name: &str,
        value: &Value,
        expected: Option<RecordVersion>,
    ) -> Result<bool, StoreError> {
        self.faults.inject_fault().await?;
        self.store.put(id, name, value, expected).await
    }

    async fn all_records(
        &self,
        name: &str,
    ) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError> {
        self.faults.inject_fault().await?;
        self.store.all_records(name).await
    }
}

#[async_trait]
impl RuntimeEventStore for UnreliableStore {
    fn record(&self, event: &Arc<RuntimeEvent>) {
        self.store.record(event);
    }

    async fn events(&self, id: &InstanceId, after: u64) -> Result<Vec<RuntimeEvent>, StoreError> {
        self.faults.inject_fault().await?;
        self.store.events(id, after).await
    }
}

impl WorkspacePaths for UnreliableStore {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        self.store.workdir(id)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        self.store.output_file(id, name)
    }
}

#[async_trait]
impl TurnJournalStore for UnreliableStore {
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        self.faults.inject_fault().await?;
        let journal = self.store.open_journal(instance, turn_id).await?;
        Ok(Arc::new(UnreliableJournal {
            journal,
            faults: Arc::clone(&self.faults),
        }))
    }

    async fn close_journal(&self, instance: &InstanceId, turn_id: &str) -> Result<(), StoreError> {
        self.faults.inject_fault().await?;
        self.store.close_journal(instance, turn_id).await
    }
}

struct UnreliableJournal {
    journal: Arc<dyn TurnJournal>,
    faults: Arc<FaultInjector>,
}

#[async_trait]
impl TurnJournal for UnreliableJournal {
    async fn run_value(
        &self,
        effect: TurnEffect,
        work: BoxFuture<'_, Value>,
    ) -> Result<EffectOutcome<Arc<Value>>, StoreError> {
        self.faults.inject_fault().await?;
        self.journal.run_value(effect, work).await
    }

    fn progress(&self) -> JournalProgress {
        self.journal.progress()
    }

    fn has_intent(&self, effect_id: &str) -> bool {
        self.journal.has_intent(effect_id)
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        self.journal.has_outcome(effect_id)
    }
}
