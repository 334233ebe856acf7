//! Journals of running turns.
//!
//! The records of a turn also stay in memory until it is over. A turn that continues in this
//! process after a database outage therefore also finds records that were not written.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use goondan_core::ids::InstanceId;
use goondan_core::ports::journal::{
    EffectKind, EffectOutcome, InterruptionPolicy, JournalEffect, JournalProgress, TurnEffect,
    TurnJournal, TurnJournalStore,
};
use goondan_core::ports::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::leadership::SessionAccess;
use crate::reconnecting_session::SessionPool;
use crate::rows::{Key, decode, encode, instance_key, key};
use crate::store::PostgresStore;

/// Maximum number of instances that are remembered to have an empty journal.
const MAX_EMPTY_JOURNALS: usize = 10_000;

/// Size in bytes above which a model answer is written at once.
const MAX_DEFERRED_BYTES: usize = 64 * 1024;

const READ: &str =
    "SELECT turn_id, record FROM goondan.journal WHERE workspace = $1 AND instance = $2";

const CLEAR: &str = "DELETE FROM goondan.journal WHERE workspace = $1 AND instance = $2";

const WRITE: &str = "\
    INSERT INTO goondan.journal (workspace, instance, turn_id, effect, record)
    SELECT $1, $2, $3::text, r.effect, r.record FROM unnest($4::bytea[], $5::text[]) AS r(effect, \
    record)
    ON CONFLICT (workspace, instance, effect) DO UPDATE SET turn_id = excluded.turn_id, record = \
    excluded.record";

/// The stored form of an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EffectEntry {
    effect: String,
    kind: EffectKind,
    intent: Value,
    /// True if the effect may run again.
    may_repeat: bool,
    /// True if `outcome` is known.
    is_done: bool,
    outcome: Arc<Value>,
}

/// A recorded effect of an unfinished turn.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEffect {
    pub turn_id: String,
    /// Id of the effect, unique within the turn.
    pub effect: String,
    pub kind: EffectKind,
    /// Description of the effect.
    pub intent: Value,
    /// True if the outcome is known.
    pub is_done: bool,
    /// True if a resumed turn may repeat the effect.
    pub may_repeat: bool,
}

impl PostgresStore {
    /// Returns the recorded effects of the instance's turn. Empty between turns.
    pub async fn recorded(&self, id: &InstanceId) -> Result<Vec<RecordedEffect>, StoreError> {
        let key = instance_key(id);
        if self.access.id == 0 {
            return Ok(Vec::new());
        }
        let rows = self
            .quick
            .session_for(&key)
            .query(READ, &[&self.access.id, &key])
            .await?;
        let effect = |row: &tokio_postgres::Row| {
            let EffectEntry {
                effect,
                kind,
                intent,
                may_repeat,
                is_done,
                ..
            } = decode("the journal of a turn", row.get(1))?;
            let turn_id = decode("the id of a turn", row.get(0))?;
            Ok(RecordedEffect {
                turn_id,
                effect,
                kind,
                intent,
                is_done,
                may_repeat,
            })
        };
        rows.iter().map(effect).collect()
    }
}

pub(crate) struct JournalTable {
    access: Arc<SessionAccess>,
    quick: Arc<SessionPool>,
    durable: Arc<SessionPool>,
    running: Mutex<HashMap<Key, Arc<StoredTurnEffects>>>,
    /// Instances with an empty journal.
    empty: Mutex<HashSet<Key>>,
}

struct StoredTurnEffects {
    turn_id: String,
    effects: Mutex<HashMap<String, JournalEffect>>,
    /// The first model answer, held back until another record follows. Most turns end with this
    /// answer.
    held: Mutex<DeferredEffect>,
}

#[derive(Default)]
enum DeferredEffect {
    #[default]
    Nothing,
    /// The first record is held back.
    First(Box<EffectEntry>),
    /// Further records are written immediately.
    Over,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JournalTable {
    pub(crate) fn new(
        access: Arc<SessionAccess>,
        quick: Arc<SessionPool>,
        durable: Arc<SessionPool>,
    ) -> Self {
        JournalTable {
            access,
            quick,
            durable,
            running: Mutex::default(),
            empty: Mutex::default(),
        }
    }

    /// Records that a turn of the instance is over and its journal deleted.
    pub(crate) fn mark_ended(&self, instance: &Key) {
        lock(&self.running).remove(instance);
        let mut empty = lock(&self.empty);
        if empty.len() >= MAX_EMPTY_JOURNALS {
            empty.clear();
        }
        empty.insert(instance.clone());
    }

    /// Records that the instance is deleted, or was used by another node.
    pub(crate) fn forget(&self, instance: &Key) {
        lock(&self.running).remove(instance);
        lock(&self.empty).remove(instance);
    }

    /// Returns the recorded effects of the turn: the running ones, or those in the database.
    /// Deletes records of a finished turn.
    async fn recorded_effects(
        &self,
        instance: &Key,
        turn_id: &str,
    ) -> Result<Arc<StoredTurnEffects>, StoreError> {
        if let Some(running) = lock(&self.running)
            .get(instance)
            .filter(|running| running.turn_id == turn_id)
        {
            return Ok(Arc::clone(running));
        }
        let is_empty = lock(&self.empty).remove(instance);
        let mut effects = HashMap::new();
        if !is_empty {
            let connection = self.quick.session_for(instance);
            let (mut strange, turn) = (false, encode(turn_id)?);
            for row in connection.query(READ, &[&self.access.id, instance]).await? {
                if row.get::<_, &str>(0) != turn {
                    strange = true;
                    continue;
                }
                let entry: EffectEntry = decode("the journal of a turn", row.get(1))?;
                let started = JournalEffect {
                    kind: entry.kind,
                    may_repeat: entry.may_repeat,
                    outcome: entry.is_done.then_some(entry.outcome),
                };
                effects.insert(entry.effect, started);
            }
            if strange && effects.is_empty() {
                // The records belong to a finished turn.
                connection
                    .query(CLEAR, &[&self.access.id, instance])
                    .await?;
            }
        }
        let held = if effects.is_empty() {
            DeferredEffect::Nothing
        } else {
            DeferredEffect::Over
        };
        let recorded = StoredTurnEffects {
            turn_id: turn_id.to_owned(),
            effects: effects.into(),
            held: held.into(),
        };
        let recorded = Arc::new(recorded);
        lock(&self.running).insert(instance.clone(), Arc::clone(&recorded));
        Ok(recorded)
    }

    /// Writes the records of a turn to the database. `durably`: returns only after they are synced
    /// to disk.
    async fn write(
        &self,
        instance: &Key,
        turn_id: &str,
        entries: &[EffectEntry],
        durably: bool,
    ) -> Result<(), StoreError> {
        let effects: Vec<Key> = entries.iter().map(|entry| key(&[&entry.effect])).collect();
        let records: Vec<String> = entries.iter().map(encode).collect::<Result<_, _>>()?;
        let pool = if durably { &self.durable } else { &self.quick };
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [
            &self.access.id,
            instance,
            &encode(turn_id)?,
            &effects,
            &records,
        ];
        pool.session_for(instance)
            .query_with_retry(WRITE, &values)
            .await
            .map(drop)
    }
}

#[async_trait]
impl TurnJournalStore for PostgresStore {
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        self.check_writable()?;
        let key = instance_key(instance);
        let running = self.journals.recorded_effects(&key, turn_id).await?;
        let before = lock(&running.effects).clone();
        Ok(Arc::new(PostgresJournal {
            journals: Arc::clone(&self.journals),
            instance: key,
            running,
            before,
        }))
    }

    async fn close_journal(&self, instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        let key = instance_key(instance);
        // The end of a turn has already deleted it.
        if lock(&self.journals.running).remove(&key).is_some() {
            self.quick
                .session_for(&key)
                .query(CLEAR, &[&self.access.id, &key])
                .await?;
        }
        Ok(())
    }

    fn doubt_journal(&self, instance: &InstanceId) {
        self.journals.forget(&instance_key(instance));
    }
}

struct PostgresJournal {
    journals: Arc<JournalTable>,
    instance: Key,
    running: Arc<StoredTurnEffects>,
    /// Effects recorded before the turn was resumed.
    before: HashMap<String, JournalEffect>,
}

impl PostgresJournal {
    /// Records that an effect begins, together with the records that led to it. An interrupted
    /// model call is repeated, so it is recorded only with its answer. Reads of the turn are not
    /// recorded either.
    async fn begin(&self, effect: &TurnEffect) -> Result<(), StoreError> {
        let is_once = effect.when_interrupted == InterruptionPolicy::Report;
        if is_once || effect.kind.is_tool_call() || effect.kind == EffectKind::Approval {
            self.write(effect_entry(effect, None), is_once).await?;
        }
        lock(&self.running.effects).insert(effect.id.clone(), JournalEffect::new(effect, None));
        Ok(())
    }

    /// Records the outcome of an effect. The outcome of the first model call of a turn is not
    /// written before the next record: a lost model call can be repeated.
    async fn record_outcome(
        &self,
        effect: &TurnEffect,
        outcome: &Arc<Value>,
    ) -> Result<(), StoreError> {
        let started = JournalEffect::new(effect, Some(Arc::clone(outcome)));
        lock(&self.running.effects).insert(effect.id.clone(), started);
        let entry = effect_entry(effect, Some(outcome));
        if effect.kind == EffectKind::ModelCall && self.defer_write(&entry)? {
            return Ok(());
        }
        let durably = effect.kind == EffectKind::Approval;
        self.write(entry, durably).await
    }

    /// Keeps the first record of the turn in memory until the next one is written. Returns false
    /// if the record is not the first, or is too large, so that the caller must write it.
    fn defer_write(&self, entry: &EffectEntry) -> Result<bool, StoreError> {
        let mut held = lock(&self.running.held);
        let is_first = matches!(*held, DeferredEffect::Nothing);
        if is_first && encode(&*entry.outcome)?.len() <= MAX_DEFERRED_BYTES {
            *held = DeferredEffect::First(Box::new(entry.clone()));
            return Ok(true);
        }
        Ok(false)
    }

    /// Writes a record, preceded by the deferred record if there is one. `durably`: returns only
    /// after the database has synced the records to disk.
    async fn write(&self, entry: EffectEntry, durably: bool) -> Result<(), StoreError> {
        let before = match &*lock(&self.running.held) {
            DeferredEffect::First(first) => Some(EffectEntry::clone(first)),
            DeferredEffect::Nothing | DeferredEffect::Over => None,
        };
        let entries: Vec<EffectEntry> = before.into_iter().chain([entry]).collect();
        self.journals
            .write(&self.instance, &self.running.turn_id, &entries, durably)
            .await?;
        *lock(&self.running.held) = DeferredEffect::Over;
        Ok(())
    }
}

/// Creates the record of an effect; without an `outcome`, the record states only the intent.
fn effect_entry(effect: &TurnEffect, outcome: Option<&Arc<Value>>) -> EffectEntry {
    EffectEntry {
        effect: effect.id.clone(),
        kind: effect.kind,
        intent: effect.intent.clone(),
        may_repeat: effect.when_interrupted == InterruptionPolicy::RunAgain,
        is_done: outcome.is_some(),
        outcome: outcome.cloned().unwrap_or_default(),
    }
}

#[async_trait]
impl TurnJournal for PostgresJournal {
    async fn run_value(
        &self,
        effect: TurnEffect,
        work: BoxFuture<'_, Value>,
    ) -> Result<EffectOutcome<Arc<Value>>, StoreError> {
        match self.before.get(&effect.id).map(|started| &started.outcome) {
            Some(Some(value)) => {
                return Ok(EffectOutcome::Done {
                    value: Arc::clone(value),
                    replayed: true,
                });
            }
            Some(None) if effect.when_interrupted == InterruptionPolicy::Report => {
                return Ok(EffectOutcome::Interrupted);
            }
            _ => self.begin(&effect).await?,
        }
        let value = Arc::new(work.await);
        self.record_outcome(&effect, &value).await?;
        Ok(EffectOutcome::Done {
            value,
            replayed: false,
        })
    }

    fn progress(&self) -> JournalProgress {
        JournalProgress::of(self.before.values())
    }

    fn has_intent(&self, effect_id: &str) -> bool {
        self.before.contains_key(effect_id)
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        self.before
            .get(effect_id)
            .is_some_and(|effect| effect.outcome.is_some())
    }
}
