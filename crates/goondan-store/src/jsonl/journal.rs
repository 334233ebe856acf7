//! The journal of a running turn, stored next to its conversation.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;

use super::appender::FileAppender;
use super::synced_disk::SyncedDisk;
use super::{layout, lines};
use crate::fs::FileSystem;
use goondan_core::ids::InstanceId;
use goondan_core::ports::journal::{
    EffectKind, EffectOutcome, InterruptionPolicy, JournalProgress, TurnEffect, TurnJournal,
};
use goondan_core::ports::store::StoreError;
use goondan_core::ports::store::blocking;

/// Maximum number of remembered empty journals.
const MAX_EMPTY_JOURNALS: usize = 64;

/// Size in bytes above which held records are written at once.
const MAX_HELD_BYTES: usize = 64 * 1024;

pub(super) struct JournalFiles {
    disk: Arc<SyncedDisk>,
    workspace: PathBuf,
    running: std::sync::Mutex<HashMap<InstanceId, Arc<Mutex<FileAppender>>>>,
    /// Journals of finished turns. They are empty and need not be read again. None keeps its file
    /// open.
    empty: std::sync::Mutex<HashMap<InstanceId, FileAppender>>,
}

impl JournalFiles {
    pub(super) fn new(disk: Arc<SyncedDisk>, workspace: PathBuf) -> Self {
        JournalFiles {
            disk,
            workspace,
            running: Default::default(),
            empty: Default::default(),
        }
    }

    /// Creates an appender for the journal file of an instance; does not open the file.
    fn appender(&self, instance: &InstanceId) -> FileAppender {
        let path = layout::instance_dir(&self.workspace, instance).join(layout::JOURNAL);
        FileAppender::new(Arc::clone(&self.disk), path, layout::INSTANCE_FILE_DEPTH)
    }

    /// Takes the kept appender of an empty journal; `None` if there is none.
    fn take_empty(&self, instance: &InstanceId) -> Option<FileAppender> {
        self.empty
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(instance)
    }

    /// Keeps the appender of an empty journal for the next turn of the instance.
    fn keep_empty(&self, instance: &InstanceId, appender: FileAppender) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if empty.len() >= MAX_EMPTY_JOURNALS {
            empty.clear();
        }
        empty.insert(instance.clone(), appender);
    }

    /// Registers the journal as the running journal of its instance.
    fn begin(&self, instance: &InstanceId, journal: JsonlTurnJournal) -> Arc<dyn TurnJournal> {
        self.lock_running()
            .insert(instance.clone(), Arc::clone(&journal.appender));
        Arc::new(journal)
    }

    /// Locks the appenders of the running turns.
    fn lock_running(&self) -> MutexGuard<'_, HashMap<InstanceId, Arc<Mutex<FileAppender>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalFiles {
    /// Opens the journal of a new or resumed turn.
    pub(super) async fn open(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError> {
        let (appender, is_empty) = match self.take_empty(instance) {
            Some(appender) => (appender, true),
            None => {
                let appender = self.appender(instance);
                let is_empty = !self.disk.exists(appender.path());
                (appender, is_empty)
            }
        };
        let (disk, turn_id) = (Arc::clone(&self.disk), turn_id.to_owned());
        let (recorded, appender) = if is_empty {
            (RecordedEffects::default(), appender)
        } else {
            let (disk, turn_id) = (Arc::clone(&disk), turn_id.clone());
            blocking(move || read_effects(&disk, appender, &turn_id)).await?
        };
        let held = recorded.effects.is_empty().then(Vec::new);
        let appender = Arc::new(Mutex::new(appender));
        Ok(self.begin(
            instance,
            JsonlTurnJournal {
                disk,
                turn_id,
                recorded,
                held: held.into(),
                appender,
            },
        ))
    }

    /// Clears the journal of an instance after its turn.
    pub(super) fn close(&self, instance: &InstanceId) -> Result<(), StoreError> {
        let running = self.lock_running().remove(instance);
        let Some(mut appender) =
            running.and_then(|running| Some(Arc::into_inner(running)?.into_inner()))
        else {
            return self.appender(instance).clear();
        };
        appender.clear()?;
        appender.close();
        self.keep_empty(instance, appender);
        Ok(())
    }
}

/// Effects of an earlier attempt at a turn.
#[derive(Default)]
struct RecordedEffects {
    /// Outcomes by effect; `None` without an outcome.
    effects: HashMap<String, Option<Value>>,
    /// Kinds of the unfinished effects that may run again, by effect.
    repeated: HashMap<String, EffectKind>,
    /// Number of tool calls that began.
    tool_calls: usize,
}

impl RecordedEffects {
    /// Adds a record. A later record of the same effect counts.
    fn add(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Intent {
                effect,
                kind,
                may_repeat,
                ..
            } => {
                self.tool_calls += usize::from(kind.is_tool_call());
                if may_repeat {
                    self.repeated.insert(effect.clone(), kind);
                }
                self.effects.insert(effect, None);
            }
            JournalRecord::Outcome { effect, value, .. } => {
                self.repeated.remove(&effect);
                self.effects.insert(effect, Some(value));
            }
        }
    }
}

/// Reads the effects of an earlier attempt at the turn from the file of `appender`. Removes the
/// records of other turns and damaged records from the file. Returns the appender again.
fn read_effects(
    disk: &SyncedDisk,
    mut appender: FileAppender,
    turn_id: &str,
) -> Result<(RecordedEffects, FileAppender), StoreError> {
    let read = lines::read::<JournalRecord>(&**disk, appender.path());
    let records = read.map_err(|cause| StoreError::file("read", appender.path(), cause))?;
    for warning in &records.warnings {
        tracing::warn!("{warning}");
    }
    // Each record builds on the ones before it. Everything after an unreadable record is ignored.
    let sound_until = records.sound_until;
    let mut recorded = RecordedEffects::default();
    for (record, byte_range) in records.values {
        if byte_range.end > sound_until {
            break;
        }
        if record.turn_id() == turn_id {
            recorded.add(record);
        }
    }
    if recorded.effects.is_empty() {
        // The file contains only records of a finished turn.
        appender.clear()?;
    } else if !records.warnings.is_empty() {
        appender.truncate_at(sound_until as u64)?;
    }
    Ok((recorded, appender))
}

/// Returns the turn whose records are in the journal at `path`; `None` if the journal is empty.
pub(super) fn turn_in(fs: &dyn FileSystem, path: &std::path::Path) -> Option<String> {
    let records = lines::read::<JournalRecord>(fs, path).ok()?;
    records
        .values
        .first()
        .map(|(record, _)| record.turn_id().to_owned())
}

/// One line of `journal.jsonl`. Generic so that writing can borrow the contents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "record",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum JournalRecord<S = String, V = Value> {
    /// An effect is about to start.
    Intent {
        turn_id: S,
        /// Unique within the turn.
        effect: S,
        kind: EffectKind,
        /// Human-readable description of the effect.
        intent: V,
        /// True if the effect may run again after an interruption with an unknown outcome. Records
        /// of earlier versions lack this field.
        #[serde(default)]
        may_repeat: bool,
    },
    /// An effect has finished.
    Outcome {
        turn_id: S,
        /// The `effect` of the intent.
        effect: S,
        value: V,
    },
}

impl JournalRecord {
    /// Returns the turn that the record belongs to.
    pub(super) fn turn_id(&self) -> &str {
        match self {
            JournalRecord::Intent { turn_id, .. } | JournalRecord::Outcome { turn_id, .. } => {
                turn_id
            }
        }
    }
}

/// Returns true if the outcome of a model call contains tool calls.
fn has_calls(outcome: &Value) -> bool {
    let parts = outcome.pointer("/Ok/parts").and_then(Value::as_array);
    parts.is_some_and(|parts| parts.iter().any(|part| part["type"] == "tool-call"))
}

struct JsonlTurnJournal {
    disk: Arc<SyncedDisk>,
    turn_id: String,
    /// Effects recorded before the turn was resumed.
    recorded: RecordedEffects,
    /// Lines of the first model call, held back until another effect is recorded. Most turns end
    /// with the first answer and need no journal. If such a turn is interrupted, it only repeats
    /// that model call.
    held: std::sync::Mutex<Option<Vec<u8>>>,
    appender: Arc<Mutex<FileAppender>>,
}

impl JsonlTurnJournal {
    /// Records an effect before it starts. If the effect must run at most once, the record and all
    /// earlier ones are synced. The turn then remembers the start even after a power failure.
    async fn begin(&self, effect: &TurnEffect) -> Result<(), StoreError> {
        let may_repeat = effect.when_interrupted == InterruptionPolicy::RunAgain;
        let (turn_id, intent) = (&*self.turn_id, &effect.intent);
        let record = JournalRecord::Intent {
            turn_id,
            effect: &*effect.id,
            kind: effect.kind,
            intent,
            may_repeat,
        };
        if effect.kind == EffectKind::ModelCall && self.hold_back(&record, |held| held.is_empty()) {
            return Ok(());
        }
        self.write(&record, !may_repeat).await
    }

    /// Records the outcome of an effect. The outcome of the first model call is written together
    /// with the next record.
    async fn finish(&self, effect: &TurnEffect, value: &Value) -> Result<(), StoreError> {
        let record = JournalRecord::Outcome {
            turn_id: &*self.turn_id,
            effect: &*effect.id,
            value,
        };
        // An answer with calls is on disk before its message. So a message with calls without an
        // answer in the journal shows that the journal is damaged.
        if effect.kind == EffectKind::ModelCall
            && !has_calls(value)
            && self.hold_back(&record, |held| !held.is_empty())
        {
            return Ok(());
        }
        self.write(&record, effect.kind == EffectKind::Approval)
            .await
    }

    /// Locks the lines that are not written yet.
    fn lock_held(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a record back, if nothing is written yet and the held records satisfy `is_fitting`.
    fn hold_back(
        &self,
        record: &JournalRecord<&str, &Value>,
        is_fitting: impl FnOnce(&Vec<u8>) -> bool,
    ) -> bool {
        let mut held = self.lock_held();
        let Some(held) = held.as_mut().filter(|held| is_fitting(held)) else {
            return false;
        };
        let before = held.len();
        // The write reports an encoding error.
        let is_held = lines::encode(held, [record]).is_ok() && held.len() <= MAX_HELD_BYTES;
        if !is_held {
            held.truncate(before);
        }
        is_held
    }

    /// Appends a record after the held ones. With `synced`, it is durable together with all earlier
    /// records.
    async fn write(
        &self,
        record: &JournalRecord<&str, &Value>,
        synced: bool,
    ) -> Result<(), StoreError> {
        let mut appender = self.appender.lock().await;
        let mut line = Vec::new();
        let encoded = lines::encode(&mut line, [record]);
        encoded.map_err(|cause| StoreError::file("encode a line of", appender.path(), cause))?;
        let held = self.lock_held().take();
        if let Err(error) =
            appender.append_lines([held.as_deref().unwrap_or_default(), &line].into_iter())
        {
            // Later records build on the held ones, so keep them.
            *self.lock_held() = held;
            return Err(error);
        }
        if !synced {
            return Ok(());
        }
        if self.disk.is_quick() {
            return appender.sync();
        }
        drop(appender);
        // The same sync also covers records that others append until then.
        let mut appender = Arc::clone(&self.appender).lock_owned().await;
        blocking(move || appender.sync()).await
    }
}

#[async_trait]
impl TurnJournal for JsonlTurnJournal {
    async fn run_value(
        &self,
        effect: TurnEffect,
        work: BoxFuture<'_, Value>,
    ) -> Result<EffectOutcome<Arc<Value>>, StoreError> {
        match self.recorded.effects.get(&effect.id) {
            Some(Some(value)) => {
                return Ok(EffectOutcome::Done {
                    value: Arc::new(value.clone()),
                    replayed: true,
                });
            }
            Some(None) if effect.when_interrupted == InterruptionPolicy::Report => {
                return Ok(EffectOutcome::Interrupted);
            }
            Some(None) => {}
            None => self.begin(&effect).await?,
        }
        let value = work.await;
        self.finish(&effect, &value).await?;
        Ok(EffectOutcome::Done {
            value: Arc::new(value),
            replayed: false,
        })
    }

    fn progress(&self) -> JournalProgress {
        let outcomes = self.recorded.effects.values();
        JournalProgress {
            outcomes: outcomes.filter(|outcome| outcome.is_some()).count(),
            tool_calls: self.recorded.tool_calls,
            repeated: self.recorded.repeated.values().copied().collect(),
        }
    }

    fn has_intent(&self, effect_id: &str) -> bool {
        self.recorded.effects.contains_key(effect_id)
    }

    fn has_outcome(&self, effect_id: &str) -> bool {
        matches!(self.recorded.effects.get(effect_id), Some(Some(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::fs::sim::SimFs;

    async fn run(
        journal: &dyn TurnJournal,
        kind: EffectKind,
        id: &str,
        value: Value,
    ) -> Result<(), StoreError> {
        let when_interrupted = InterruptionPolicy::RunAgain;
        let effect = TurnEffect {
            id: id.to_owned(),
            kind,
            intent: Value::Null,
            when_interrupted,
        };
        journal
            .run_value(effect, Box::pin(async { value }))
            .await
            .map(drop)
    }

    #[tokio::test]
    async fn a_turn_with_only_one_model_call_creates_no_journal_file() {
        let (fs, id) = (SimFs::new(), InstanceId::new("a", "main"));
        let journals =
            JournalFiles::new(SyncedDisk::new(Arc::new(fs.clone())), PathBuf::from("/w"));
        let path = layout::instance_dir(Path::new("/w"), &id).join(layout::JOURNAL);
        let journal = journals.open(&id, "t1").await.unwrap();
        run(
            &*journal,
            EffectKind::ModelCall,
            "step-0/model",
            json!("text"),
        )
        .await
        .unwrap();
        drop(journal);
        journals.close(&id).unwrap();
        assert!(!fs.exists(&path));
        // A later record is written together with the buffered record when the disk has space for
        // both.
        let journal = journals.open(&id, "t2").await.unwrap();
        run(
            &*journal,
            EffectKind::ModelCall,
            "step-0/model",
            json!("calls"),
        )
        .await
        .unwrap();
        fs.limit_free_space(Some(100));
        run(&*journal, EffectKind::ToolCall, "step-0/tool-0", json!(1))
            .await
            .unwrap_err();
        fs.limit_free_space(None);
        run(&*journal, EffectKind::ToolCall, "step-0/tool-1", json!(2))
            .await
            .unwrap();
        let resumed = JournalFiles::new(SyncedDisk::new(Arc::new(fs.kill())), PathBuf::from("/w"))
            .open(&id, "t2")
            .await
            .unwrap();
        let has = ["step-0/model", "step-0/tool-0", "step-0/tool-1"]
            .map(|effect| resumed.has_outcome(effect));
        assert_eq!(has, [true, false, true]);
    }

    #[test]
    fn an_intent_of_an_earlier_version_may_not_be_repeated() {
        let line =
            r#"{"record":"intent","turnId":"t","effect":"e","kind":"toolCall","intent":null}"#;
        let record: JournalRecord = serde_json::from_str(line).unwrap();
        assert!(matches!(
            record,
            JournalRecord::Intent {
                may_repeat: false,
                ..
            }
        ));
    }
}
