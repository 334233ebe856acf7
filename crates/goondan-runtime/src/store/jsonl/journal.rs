//! The journal of a running turn, beside its conversation.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;

use super::appender::Appender;
use super::disk::Disk;
use super::{layout, lines};
use crate::ids::InstanceId;
use crate::instance::blocking;
use crate::ports::journal::{Effect, EffectKind, Journal, Outcome, TurnJournal, WhenInterrupted};
use crate::ports::store::StoreError;
use crate::store::fs::{FileSystem, RealFs};

/// Keeps journals in the folders of the instances. Serves one machine.
pub struct JsonlJournal {
    disk: Arc<Disk>,
    workspace: PathBuf,
}

impl JsonlJournal {
    /// The journals of the workspace in that folder.
    pub fn new(workspace: PathBuf) -> Self {
        JsonlJournal::on(Arc::new(RealFs), workspace)
    }

    pub(crate) fn on(fs: Arc<dyn FileSystem>, workspace: PathBuf) -> Self {
        JsonlJournal { disk: Disk::new(fs), workspace }
    }

    fn appender(&self, instance: &InstanceId) -> Appender {
        let path = layout::instance_dir(&self.workspace, instance).join(layout::JOURNAL);
        Appender::new(Arc::clone(&self.disk), path, layout::DEPTH)
    }
}

#[async_trait]
impl Journal for JsonlJournal {
    async fn open(&self, instance: &InstanceId, turn_id: &str) -> Result<Arc<dyn TurnJournal>, StoreError> {
        let (disk, appender, turn_id) = (Arc::clone(&self.disk), self.appender(instance), turn_id.to_owned());
        blocking(move || open(&**disk, appender, turn_id).map(|journal| Arc::new(journal) as Arc<dyn TurnJournal>))
            .await
    }

    async fn close(&self, instance: &InstanceId, _turn_id: &str) -> Result<(), StoreError> {
        let mut appender = self.appender(instance);
        blocking(move || appender.clear()).await
    }
}

fn open(fs: &dyn FileSystem, mut appender: Appender, turn_id: String) -> Result<JsonlTurnJournal, StoreError> {
    let read = lines::read::<Record>(fs, appender.path());
    let records = read.map_err(|cause| StoreError::new("read", appender.path(), &cause))?;
    for warning in &records.warnings {
        tracing::warn!("{warning}");
    }
    let sound_until = records.sound_until;
    let mut recorded = HashMap::new();
    // A record stands on all those before it: behind one that can't be read, nothing counts.
    let sound = records.values.into_iter().take_while(|(_, place)| place.end <= sound_until);
    for (record, _) in sound.filter(|(record, _)| record.turn_id() == turn_id) {
        match record {
            Record::Intent { effect, .. } => recorded.insert(effect, None),
            Record::Outcome { effect, value, .. } => recorded.insert(effect, Some(value)),
        };
    }
    if recorded.is_empty() {
        // Nothing of this turn: what lies there is of a turn that is over.
        appender.clear()?;
    } else if !records.warnings.is_empty() {
        appender.cut(sound_until as u64)?;
    }
    Ok(JsonlTurnJournal { turn_id, recorded, appender: Arc::new(Mutex::new(appender)) })
}

/// The turn that the journal in `path` is of; `None` where it is empty.
pub(super) fn turn_in(fs: &dyn FileSystem, path: &std::path::Path) -> Option<String> {
    let records = lines::read::<Record>(fs, path).ok()?;
    records.values.first().map(|(record, _)| record.turn_id().to_owned())
}

/// One line of `journal.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Record {
    /// Something is about to be done.
    Intent {
        /// By which turn.
        turn_id: String,
        /// Unique in the turn.
        effect: String,
        /// What kind of thing it is.
        kind: EffectKind,
        /// What it is about, for people.
        intent: Value,
        /// It may be done again where nobody knows how far it came. Records of earlier versions do not say so.
        #[serde(default)]
        may_repeat: bool,
    },
    /// It is done.
    Outcome {
        /// By which turn.
        turn_id: String,
        /// The id that the intent has.
        effect: String,
        /// What came of it.
        value: Value,
    },
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
    appender: Arc<Mutex<Appender>>,
}

impl JsonlTurnJournal {
    /// Records what is about to be done. Before something that must not be done twice, the record is put on disk, and with it
    /// everything before it: not even a power failure makes the turn forget that it began.
    async fn begin(&self, effect: &Effect) -> Result<(), StoreError> {
        let record = Record::Intent {
            turn_id: self.turn_id.clone(),
            effect: effect.id.clone(),
            kind: effect.kind,
            intent: effect.intent.clone(),
            may_repeat: effect.when_interrupted == WhenInterrupted::RunAgain,
        };
        self.write(record, effect.when_interrupted != WhenInterrupted::RunAgain).await
    }

    async fn finish(&self, effect: Effect, value: &Value) -> Result<(), StoreError> {
        let record = Record::Outcome { turn_id: self.turn_id.clone(), effect: effect.id, value: value.clone() };
        self.write(record, effect.kind == EffectKind::Approval).await
    }

    /// Appends a record. Where it must be `synced`, it is on disk with everything before it.
    async fn write(&self, record: Record, synced: bool) -> Result<(), StoreError> {
        if !synced {
            return self.appender.lock().await.append(&record);
        }
        let mut appender = Arc::clone(&self.appender).lock_owned().await;
        blocking(move || {
            appender.append(&record)?;
            appender.sync()
        })
        .await
    }
}

#[async_trait]
impl TurnJournal for JsonlTurnJournal {
    async fn run(&self, effect: Effect, work: BoxFuture<'_, Value>) -> Result<Outcome, StoreError> {
        match self.recorded.get(&effect.id) {
            Some(Some(value)) => return Ok(Outcome::Done { value: value.clone(), replayed: true }),
            Some(None) if effect.when_interrupted == WhenInterrupted::Report => return Ok(Outcome::Interrupted),
            Some(None) => {}
            None => self.begin(&effect).await?,
        }
        let value = work.await;
        self.finish(effect, &value).await?;
        Ok(Outcome::Done { value, replayed: false })
    }

    fn is_resumed(&self) -> bool {
        !self.recorded.is_empty()
    }

    fn has_intent(&self, effect_id: &str) -> bool {
        self.recorded.contains_key(effect_id)
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        matches!(self.recorded.get(effect_id), Some(Some(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_of_an_earlier_version_says_nothing_about_repeating() {
        let line = r#"{"record":"intent","turnId":"t","effect":"e","kind":"toolCall","intent":null}"#;
        let Record::Intent { may_repeat, .. } = serde_json::from_str(line).unwrap() else { panic!("no intent") };
        assert!(!may_repeat);
    }
}
