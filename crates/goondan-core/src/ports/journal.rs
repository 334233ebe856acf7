//! Records the side effects of a turn, so that a resumed turn does not repeat them (rule C2b).
//!
//! A turn is a deterministic program over its journal: what it does to the world, and what it learns from it, goes through
//! [`TurnJournal::run`](trait.TurnJournal.html#method.run). Resumed, the turn runs again from its start and is handed the recorded outcomes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::store::StoreError;
use crate::ids::InstanceId;

/// Keeps the journals of turns. The embedded one serves one machine; a durable-execution engine fits behind it too.
#[async_trait]
pub trait Journal: Send + Sync {
    /// The journal of a turn, with what is recorded of it.
    async fn open_journal(
        &self,
        instance: &InstanceId,
        turn_id: &str,
    ) -> Result<Arc<dyn TurnJournal>, StoreError>;
    /// Forgets a turn that is over.
    async fn close_journal(&self, instance: &InstanceId, turn_id: &str) -> Result<(), StoreError>;
    /// The journal of an instance was written by another node: what is remembered of it here may be out of date.
    fn doubt_journal(&self, _instance: &InstanceId) {}
}

/// The journal of one turn.
#[async_trait]
pub trait TurnJournal: Send + Sync {
    /// Records the intent, does the work, records the outcome; or gives back what is recorded.
    async fn run_value(
        &self,
        effect: Effect,
        work: BoxFuture<'_, Value>,
    ) -> Result<Outcome<Arc<Value>>, StoreError>;
    /// Whether anything is recorded: the turn was cut off and begins again.
    fn is_resumed(&self) -> bool;
    /// Whether it is recorded that the effect began.
    fn has_intent(&self, effect_id: &str) -> bool;
    /// Whether the outcome of the effect is recorded.
    fn has_outcome(&self, effect_id: &str) -> bool;
}

impl dyn TurnJournal {
    /// As [`TurnJournal::run_value`], with outcomes of a type of one's own. An outcome that is recorded and can't be read is an
    /// error: what was done must not be done again.
    pub async fn run<T: Serialize + DeserializeOwned + Send>(
        &self,
        effect: Effect,
        work: BoxFuture<'_, T>,
    ) -> Result<Outcome<T>, StoreError> {
        let id = effect.id.clone();
        let unreadable = |cause: serde_json::Error| StoreError::Damaged {
            what: format!("the outcome of `{id}`"),
            cause: Arc::new(cause),
        };
        let mut done = None;
        let kept = &mut done;
        let encoded = async {
            let value = work.await;
            let encoded = serde_json::to_value(&value).expect("every outcome has a form in JSON");
            *kept = Some(value);
            encoded
        };
        let outcome = self.run_value(effect, Box::pin(encoded)).await?;
        match (outcome, done) {
            (Outcome::Interrupted, _) => Ok(Outcome::Interrupted),
            (Outcome::Done { replayed, .. }, Some(value)) => Ok(Outcome::Done { value, replayed }),
            (Outcome::Done { value, replayed }, None) => {
                let value =
                    serde_json::from_value(Arc::unwrap_or_clone(value)).map_err(unreadable)?;
                Ok(Outcome::Done { value, replayed })
            }
        }
    }
}

/// Something that a turn is about to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Unique in its turn, and the same when the turn is resumed.
    pub id: String,
    /// What kind of thing it is.
    pub kind: EffectKind,
    /// What it is about, for people who look at an interrupted turn.
    pub intent: Value,
    /// What a resumed turn does where the intent is recorded and the outcome is not.
    pub when_interrupted: WhenInterrupted,
}

/// What kind of thing a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// Asks the model.
    ModelCall,
    /// Runs a tool.
    ToolCall,
    /// Asks somebody whether a tool may run. The outcome is on disk before [`TurnJournal::run`](trait.TurnJournal.html#method.run) returns: what was allowed
    /// may begin behind it.
    Approval,
    /// Takes in what arrived meanwhile.
    Inbox,
    /// Reads the instructions of a folder that a tool has worked in.
    Instructions,
    /// Reads, or notes, what an extension keeps for the instance.
    ExtensionState,
    /// An extension asks another agent, or tells it something.
    ExtensionQuestion,
}

/// What to do about an effect that began and has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenInterrupted {
    /// It is safe to do it again.
    RunAgain,
    /// Nobody knows how far it came; say so.
    Report,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// It was done, now or before the turn was resumed.
    Done {
        /// The recorded value.
        value: T,
        /// It was done before the turn was resumed.
        replayed: bool,
    },
    /// It began before the turn was resumed, and nobody knows how far it came.
    Interrupted,
}
