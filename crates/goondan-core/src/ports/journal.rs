//! Records the side effects of a turn, so that a resumed turn does not repeat them (rule C2b).
//!
//! A turn is a deterministic program over its journal. Its effects on the world, and all input from
//! it, go through [`TurnJournal::run`](trait.TurnJournal.html#method.run). A resumed turn runs
//! again from its start and gets the recorded outcomes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::store::StoreError;
use crate::ids::InstanceId;

/// Storage of turn journals. The embedded implementation serves one machine; a durable-execution
/// engine can implement it as well.
#[async_trait]
pub trait TurnJournalStore: Send + Sync {
    /// Opens the journal of a turn, with its recorded effects.
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError>;
    /// Deletes the journal of a turn that ended.
    async fn close_journal(&self, instance: &InstanceId, turn_id: &str) -> Result<(), StoreError>;
    /// Returns true if records can be lost while the conversation stays, as with damaged files.
    fn may_lose_records(&self) -> bool {
        false
    }
    /// Drops cached data of an instance's journal, because another node wrote to it.
    fn doubt_journal(&self, _instance: &InstanceId) {}
}

/// Journal of one turn.
#[async_trait]
pub trait TurnJournal: Send + Sync {
    /// Records the intent, does the work and records the outcome. Returns the recorded outcome
    /// instead, if there is one.
    async fn run_value(
        &self,
        effect: TurnEffect,
        work: BoxFuture<'_, Value>,
    ) -> Result<EffectOutcome<Arc<Value>>, StoreError>;
    /// Returns the progress that was recorded before the turn was resumed.
    fn progress(&self) -> JournalProgress;
    /// Returns true if the beginning of the effect is recorded.
    fn has_intent(&self, effect_id: &str) -> bool;
    /// Returns true if the outcome of the effect is recorded.
    fn has_outcome(&self, effect_id: &str) -> bool;
}

impl dyn TurnJournal {
    /// Runs an effect like [`TurnJournal::run_value`], with a typed outcome.
    ///
    /// # Errors
    /// A recorded outcome can't be decoded. The work is not repeated in this case, because it was
    /// done already.
    pub async fn run<T: Serialize + DeserializeOwned + Send>(
        &self,
        effect: TurnEffect,
        work: BoxFuture<'_, T>,
    ) -> Result<EffectOutcome<T>, StoreError> {
        let id = effect.id.clone();
        let damaged_error = |cause: serde_json::Error| StoreError::Damaged {
            what: format!("the outcome of `{id}`"),
            cause: Arc::new(cause),
        };
        let mut done = None;
        let value_slot = &mut done;
        let encoded = async {
            let value = work.await;
            let encoded =
                serde_json::to_value(&value).expect("every outcome can be written as JSON");
            *value_slot = Some(value);
            encoded
        };
        let outcome = self.run_value(effect, Box::pin(encoded)).await?;
        match (outcome, done) {
            (EffectOutcome::Interrupted, _) => Ok(EffectOutcome::Interrupted),
            (EffectOutcome::Done { replayed, .. }, Some(value)) => {
                Ok(EffectOutcome::Done { value, replayed })
            }
            (EffectOutcome::Done { value, replayed }, None) => {
                let value =
                    serde_json::from_value(Arc::unwrap_or_clone(value)).map_err(damaged_error)?;
                Ok(EffectOutcome::Done { value, replayed })
            }
        }
    }
}

/// Progress of an interrupted turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalProgress {
    /// Number of recorded outcomes, including those of [`EffectKind::Start`].
    pub outcomes: usize,
    /// Number of tool calls whose beginning is recorded.
    pub tool_calls: usize,
    /// Kinds of the effects that began, have no outcome, and run again in the resumed turn.
    pub repeated: Vec<EffectKind>,
}

impl JournalProgress {
    /// Returns the progress of a turn with these recorded effects.
    pub fn of<'a>(effects: impl IntoIterator<Item = &'a JournalEffect>) -> JournalProgress {
        let mut progress = JournalProgress::default();
        for effect in effects {
            progress.tool_calls += usize::from(effect.kind.is_tool_call());
            if effect.outcome.is_some() {
                progress.outcomes += 1;
            } else if effect.may_repeat {
                progress.repeated.push(effect.kind);
            }
        }
        progress
    }
}

/// An effect in a journal.
#[derive(Debug, Clone)]
pub struct JournalEffect {
    /// Kind of the effect.
    pub kind: EffectKind,
    /// A resumed turn repeats the effect if it has no outcome.
    pub may_repeat: bool,
    /// Outcome; `None` if only the beginning is recorded.
    pub outcome: Option<Arc<Value>>,
}

impl JournalEffect {
    /// Creates the record of `effect`.
    pub fn new(effect: &TurnEffect, outcome: Option<Arc<Value>>) -> JournalEffect {
        JournalEffect {
            kind: effect.kind,
            may_repeat: effect.when_interrupted == InterruptionPolicy::RunAgain,
            outcome,
        }
    }
}

/// A side effect of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEffect {
    /// Id, unique in the turn and identical when the turn is resumed.
    pub id: String,
    /// Kind of the effect.
    pub kind: EffectKind,
    /// Data of the effect, to help users to analyze an interrupted turn.
    pub intent: Value,
    /// Handling in a resumed turn, if the intent is recorded and the outcome is not.
    pub when_interrupted: InterruptionPolicy,
}

/// Kind of a side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// Calls the model.
    ModelCall,
    /// Runs a tool.
    ToolCall,
    /// Runs the tool that waits for the answer of another agent.
    AgentRequest,
    /// Requests approval for a tool call. The outcome is on disk before
    /// [`TurnJournal::run`](trait.TurnJournal.html#method.run) returns, because the approved call
    /// can start immediately.
    Approval,
    /// Receives the events that arrived during the turn.
    Inbox,
    /// Reads the instructions of a directory that a tool has worked in.
    Instructions,
    /// Reads or writes the state of an extension for the instance.
    ExtensionState,
    /// Sends a request or a message of an extension to another agent.
    ExtensionQuestion,
    /// Starts the turn again after the process ended during the turn. The outcome is the number of
    /// recorded outcomes at that time.
    Start,
}

impl EffectKind {
    /// Returns true for every kind of tool call.
    pub fn is_tool_call(self) -> bool {
        matches!(self, EffectKind::ToolCall | EffectKind::AgentRequest)
    }
}

/// Handling of an effect that began and has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptionPolicy {
    /// Repeats the effect, which is safe.
    RunAgain,
    /// Reports that the effect was interrupted and its progress is unknown.
    Report,
}

/// Outcome of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectOutcome<T> {
    /// The effect was done, in this run or before the turn was resumed.
    Done {
        /// The recorded value.
        value: T,
        /// The effect was done before the turn was resumed.
        replayed: bool,
    },
    /// The effect began before the turn was resumed, and its progress is unknown.
    Interrupted,
}
