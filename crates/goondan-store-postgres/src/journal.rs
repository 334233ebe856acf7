//! Journals of running turns.
//!
//! What a turn has recorded is in memory, too, until the turn is over: a turn that goes on in this process, after the database was
//! away, finds even what did not get there.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use goondan_core::ids::InstanceId;
use goondan_core::ports::journal::{
    Effect, EffectKind, Journal, Outcome, TurnJournal, WhenInterrupted,
};
use goondan_core::ports::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hold::Access;
use crate::line::Lines;
use crate::rows::{Key, decode, encode, instance_key, key};
use crate::store::PostgresStore;

/// That many instances are remembered whose journals are known to be empty.
const REMEMBERED: usize = 10_000;

/// A longer answer of a model is written at once, in bytes.
const MOST_HELD: usize = 64 * 1024;

const READ: &str =
    "SELECT turn_id, record FROM goondan.journal WHERE workspace = $1 AND instance = $2";

const CLEAR: &str = "DELETE FROM goondan.journal WHERE workspace = $1 AND instance = $2";

const WRITE: &str = "\
    INSERT INTO goondan.journal (workspace, instance, turn_id, effect, record)
    SELECT $1, $2, $3::text, r.effect, r.record FROM unnest($4::bytea[], $5::text[]) AS r(effect, record)
    ON CONFLICT (workspace, instance, effect) DO UPDATE SET turn_id = excluded.turn_id, record = excluded.record";

/// What is written of an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    effect: String,
    kind: EffectKind,
    intent: Value,
    /// Whether it may simply be done again.
    may_repeat: bool,
    /// Whether `outcome` is known.
    is_done: bool,
    outcome: Arc<Value>,
}

/// An effect of a turn that is not over, as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEffect {
    /// The turn.
    pub turn_id: String,
    /// The effect's id, unique in the turn.
    pub effect: String,
    /// What kind of thing it is.
    pub kind: EffectKind,
    /// What it is about.
    pub intent: Value,
    /// Whether it is known what came of it.
    pub is_done: bool,
    /// Whether a resumed turn may do it again.
    pub may_repeat: bool,
}

impl PostgresStore {
    /// What the turn of an instance has recorded. Empty between turns.
    pub async fn recorded(&self, id: &InstanceId) -> Result<Vec<RecordedEffect>, StoreError> {
        let key = instance_key(id);
        if self.access.id == 0 {
            return Ok(Vec::new());
        }
        let rows = self
            .quick
            .of(&key)
            .query(READ, &[&self.access.id, &key])
            .await?;
        let effect = |row: &tokio_postgres::Row| {
            let Entry {
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

/// The journals of all turns that run.
pub(crate) struct Journals {
    access: Arc<Access>,
    quick: Arc<Lines>,
    durable: Arc<Lines>,
    running: Mutex<HashMap<Key, Arc<Recorded>>>,
    /// Instances that have none.
    empty: Mutex<HashSet<Key>>,
}

/// What a turn has recorded.
struct Recorded {
    turn_id: String,
    /// Effects that have begun, with outcomes where they got that far.
    effects: Mutex<HashMap<String, Option<Arc<Value>>>>,
    /// The first answer of the model, which is written when something else follows. Most turns end with it.
    held: Mutex<Held>,
}

#[derive(Default)]
enum Held {
    /// Nothing was recorded yet.
    #[default]
    Nothing,
    /// The first record.
    First(Box<Entry>),
    /// From now on everything is written.
    Over,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journals {
    pub(crate) fn new(access: Arc<Access>, quick: Arc<Lines>, durable: Arc<Lines>) -> Self {
        Journals {
            access,
            quick,
            durable,
            running: Mutex::default(),
            empty: Mutex::default(),
        }
    }

    /// A turn of that instance is over, and its journal is gone with it.
    pub(crate) fn ended(&self, instance: &Key) {
        locked(&self.running).remove(instance);
        let mut empty = locked(&self.empty);
        if empty.len() >= REMEMBERED {
            empty.clear();
        }
        empty.insert(instance.clone());
    }

    /// The instance is deleted, or another node has worked at it.
    pub(crate) fn forget(&self, instance: &Key) {
        locked(&self.running).remove(instance);
        locked(&self.empty).remove(instance);
    }

    async fn recorded(&self, instance: &Key, turn_id: &str) -> Result<Arc<Recorded>, StoreError> {
        if let Some(running) = locked(&self.running)
            .get(instance)
            .filter(|running| running.turn_id == turn_id)
        {
            return Ok(Arc::clone(running));
        }
        let is_empty = locked(&self.empty).remove(instance);
        let mut effects = HashMap::new();
        if !is_empty {
            let line = self.quick.of(instance);
            let (mut strange, turn) = (false, encode(turn_id)?);
            for row in line.query(READ, &[&self.access.id, instance]).await? {
                if row.get::<_, &str>(0) != turn {
                    strange = true;
                    continue;
                }
                let entry: Entry = decode("the journal of a turn", row.get(1))?;
                effects.insert(entry.effect, entry.is_done.then_some(entry.outcome));
            }
            if strange && effects.is_empty() {
                // What lies there is of a turn that is over.
                line.query(CLEAR, &[&self.access.id, instance]).await?;
            }
        }
        let held = if effects.is_empty() {
            Held::Nothing
        } else {
            Held::Over
        };
        let recorded = Recorded {
            turn_id: turn_id.to_owned(),
            effects: effects.into(),
            held: held.into(),
        };
        let recorded = Arc::new(recorded);
        locked(&self.running).insert(instance.clone(), Arc::clone(&recorded));
        Ok(recorded)
    }

    async fn write(
        &self,
        instance: &Key,
        turn_id: &str,
        entries: &[Entry],
        durably: bool,
    ) -> Result<(), StoreError> {
        let effects: Vec<Key> = entries.iter().map(|entry| key(&[&entry.effect])).collect();
        let records: Vec<String> = entries.iter().map(encode).collect::<Result<_, _>>()?;
        let lines = if durably { &self.durable } else { &self.quick };
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [
            &self.access.id,
            instance,
            &encode(turn_id)?,
            &effects,
            &records,
        ];
        lines
            .of(instance)
            .query_surely(WRITE, &values)
            .await
            .map(drop)
    }
}

#[async_trait]
impl Journal for PostgresStore {
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        self.check_held()?;
        let key = instance_key(instance);
        let running = self.journals.recorded(&key, turn_id).await?;
        let before = locked(&running.effects).clone();
        Ok(Arc::new(PostgresJournal {
            journals: Arc::clone(&self.journals),
            instance: key,
            running,
            before,
        }))
    }

    async fn close_journal(&self, instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        let key = instance_key(instance);
        // The end of a turn has cleared it already.
        if locked(&self.journals.running).remove(&key).is_some() {
            self.quick
                .of(&key)
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
    journals: Arc<Journals>,
    instance: Key,
    running: Arc<Recorded>,
    /// What was recorded before the turn was resumed.
    before: HashMap<String, Option<Arc<Value>>>,
}

impl PostgresJournal {
    /// Records that an effect begins, and so what led to it. A question to a model that is cut off is simply asked again, and
    /// leaves no trace before it is answered; nor does what the turn only reads.
    async fn begin(&self, effect: &Effect) -> Result<(), StoreError> {
        let is_once = effect.when_interrupted == WhenInterrupted::Report;
        if is_once || matches!(effect.kind, EffectKind::ToolCall | EffectKind::Approval) {
            self.write(entry(effect, None), is_once).await?;
        }
        locked(&self.running.effects).insert(effect.id.clone(), None);
        Ok(())
    }

    async fn end(&self, effect: &Effect, outcome: &Arc<Value>) -> Result<(), StoreError> {
        locked(&self.running.effects).insert(effect.id.clone(), Some(Arc::clone(outcome)));
        let entry = entry(effect, Some(outcome));
        if effect.kind == EffectKind::ModelCall && self.hold(&entry)? {
            return Ok(());
        }
        self.write(entry, effect.kind == EffectKind::Approval).await
    }

    /// Whether the record may wait for the next one.
    fn hold(&self, entry: &Entry) -> Result<bool, StoreError> {
        let mut held = locked(&self.running.held);
        let is_first = matches!(*held, Held::Nothing);
        if is_first && encode(&*entry.outcome)?.len() <= MOST_HELD {
            *held = Held::First(Box::new(entry.clone()));
            return Ok(true);
        }
        Ok(false)
    }

    /// Writes a record, and what was held before it.
    async fn write(&self, entry: Entry, durably: bool) -> Result<(), StoreError> {
        let before = match &*locked(&self.running.held) {
            Held::First(first) => Some(Entry::clone(first)),
            Held::Nothing | Held::Over => None,
        };
        let entries: Vec<Entry> = before.into_iter().chain([entry]).collect();
        self.journals
            .write(&self.instance, &self.running.turn_id, &entries, durably)
            .await?;
        *locked(&self.running.held) = Held::Over;
        Ok(())
    }
}

fn entry(effect: &Effect, outcome: Option<&Arc<Value>>) -> Entry {
    Entry {
        effect: effect.id.clone(),
        kind: effect.kind,
        intent: effect.intent.clone(),
        may_repeat: effect.when_interrupted == WhenInterrupted::RunAgain,
        is_done: outcome.is_some(),
        outcome: outcome.cloned().unwrap_or_default(),
    }
}

#[async_trait]
impl TurnJournal for PostgresJournal {
    async fn run_value(
        &self,
        effect: Effect,
        work: BoxFuture<'_, Value>,
    ) -> Result<Outcome<Arc<Value>>, StoreError> {
        match self.before.get(&effect.id) {
            Some(Some(value)) => {
                return Ok(Outcome::Done {
                    value: Arc::clone(value),
                    replayed: true,
                });
            }
            Some(None) if effect.when_interrupted == WhenInterrupted::Report => {
                return Ok(Outcome::Interrupted);
            }
            _ => self.begin(&effect).await?,
        }
        let value = Arc::new(work.await);
        self.end(&effect, &value).await?;
        Ok(Outcome::Done {
            value,
            replayed: false,
        })
    }

    fn is_resumed(&self) -> bool {
        !self.before.is_empty()
    }

    fn has_intent(&self, effect_id: &str) -> bool {
        self.before.contains_key(effect_id)
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        matches!(self.before.get(effect_id), Some(Some(_)))
    }
}
