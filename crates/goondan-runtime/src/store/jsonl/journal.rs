//! The journal of a running turn, beside its conversation.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout;
use super::lines::{Appender, read_lines};
use crate::ids::InstanceId;
use crate::ports::journal::{Effect, EffectKind, Journal, Outcome, TurnJournal, WhenInterrupted};
use crate::ports::store::StoreError;

/// Keeps journals in the folders of the instances. Serves one machine.
pub struct JsonlJournal {
    workspace: PathBuf,
}

impl JsonlJournal {
    /// The journals of the workspace in that folder.
    pub fn new(workspace: PathBuf) -> Self {
        JsonlJournal { workspace }
    }

    fn path(&self, instance: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.workspace, instance).join(layout::JOURNAL)
    }
}

#[async_trait]
impl Journal for JsonlJournal {
    async fn open(&self, instance: &InstanceId, turn_id: &str) -> Result<Arc<dyn TurnJournal>, StoreError> {
        let path = self.path(instance);
        let (records, _) = read_lines::<Record>(&path).map_err(|cause| StoreError::new("read", &path, &cause))?;
        let mut appender = Appender::new(path);
        let mut recorded = HashMap::new();
        for record in records.into_iter().filter(|record| record.turn_id() == turn_id) {
            match record {
                Record::Intent { effect, .. } => recorded.insert(effect, None),
                Record::Outcome { effect, value, .. } => recorded.insert(effect, Some(value)),
            };
        }
        if recorded.is_empty() {
            // Nothing of this turn: what lies there is of a turn that is over.
            appender.clear()?;
        }
        Ok(Arc::new(JsonlTurnJournal { turn_id: turn_id.to_owned(), recorded, appender: Mutex::new(appender) }))
    }

    async fn close(&self, instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        Appender::new(self.path(instance)).clear()
    }
}

/// One line of `journal.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Record {
    Intent { turn_id: String, effect: String, kind: EffectKind, intent: Value },
    Outcome { turn_id: String, effect: String, value: Value },
}

impl Record {
    fn turn_id(&self) -> &str {
        match self {
            Record::Intent { turn_id, .. } | Record::Outcome { turn_id, .. } => turn_id,
        }
    }
}

struct JsonlTurnJournal {
    turn_id: String,
    /// What was recorded before the turn was resumed: intents, with outcomes where they got that far.
    recorded: HashMap<String, Option<Value>>,
    appender: Mutex<Appender>,
}

impl JsonlTurnJournal {
    fn write(&self, record: &Record) -> Result<(), StoreError> {
        self.appender.lock().unwrap_or_else(PoisonError::into_inner).append(record)
    }

    fn finish(&self, effect: String, value: &Value) -> Result<(), StoreError> {
        self.write(&Record::Outcome { turn_id: self.turn_id.clone(), effect, value: value.clone() })
    }
}

#[async_trait]
impl TurnJournal for JsonlTurnJournal {
    async fn run(&self, effect: Effect, work: BoxFuture<'_, Value>) -> Result<Outcome, StoreError> {
        match self.recorded.get(&effect.id) {
            Some(Some(value)) => return Ok(Outcome::Done { value: value.clone(), replayed: true }),
            Some(None) if effect.when_interrupted == WhenInterrupted::Report => return Ok(Outcome::Interrupted),
            Some(None) => {}
            None => {
                let (turn_id, effect) = (self.turn_id.clone(), effect.clone());
                self.write(&Record::Intent { turn_id, effect: effect.id, kind: effect.kind, intent: effect.intent })?;
            }
        }
        let value = work.await;
        self.finish(effect.id, &value)?;
        Ok(Outcome::Done { value, replayed: false })
    }

    fn is_resumed(&self) -> bool {
        !self.recorded.is_empty()
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        matches!(self.recorded.get(effect_id), Some(Some(_)))
    }
}
