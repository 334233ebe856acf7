//! What the orchestrator is told.

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{Found, Looked, Refusal, Tended};
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::store::InstanceMeta;

/// A message to the orchestrator.
pub enum Command {
    /// Handle an event. `accepted` is answered once it is on disk, `waiter` once its turn is over.
    Submit {
        /// The event.
        event: Box<AgentEvent>,
        /// Who waits for the result.
        waiter: Option<oneshot::Sender<TurnResult>>,
        /// Who waits for the acceptance.
        accepted: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Nobody waits any more for the answer to an event.
    Abandon {
        /// The event.
        event_id: String,
        /// Why.
        reason: String,
    },
    /// Cancel the running turn of an instance.
    Cancel {
        /// The instance.
        instance: InstanceId,
        /// Whether one ran.
        answer: oneshot::Sender<bool>,
    },
    /// Cancel an event: its turn where it runs, the event itself where it waits.
    CancelEvent {
        /// The event.
        event_id: String,
        /// Whether there was anything to cancel.
        answer: oneshot::Sender<bool>,
    },
    /// Tell what has become of an event.
    Find {
        /// The event.
        event_id: String,
        /// To whom.
        answer: oneshot::Sender<Option<Found>>,
    },
    /// Prepare an instance.
    Spawn {
        /// Which one.
        request: SpawnRequest,
        /// Whether it is new.
        answer: oneshot::Sender<Result<bool, Refusal>>,
    },
    /// Tell what instances there are, oldest first.
    List {
        /// To whom.
        answer: oneshot::Sender<Vec<InstanceMeta>>,
    },
    /// Tell whether there is that instance.
    Has {
        /// Which one.
        instance: InstanceId,
        /// To whom.
        answer: oneshot::Sender<bool>,
    },
    /// Tell when nothing is left to do in a causal chain.
    Settled {
        /// Its trace.
        trace_id: String,
        /// Who is told.
        answer: oneshot::Sender<()>,
    },
    /// There may be room for another turn: one waits for a person, or a node has come or gone.
    Room,
    /// Something was looked for among all instances that the store has.
    Looked(Looked),
    /// Another generation is in place.
    Swapped,
    /// What is known of an instance was written, or it was put away.
    Tended {
        /// Which one.
        instance: InstanceId,
        /// How.
        done: Tended,
    },
    /// Take no more inputs, wait for running turns within the grace period, then end.
    Shutdown {
        /// How long to wait.
        grace: std::time::Duration,
    },
}

/// An instance that somebody wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// Who it shall be.
    pub id: InstanceId,
    /// Who wants it; `None` for the instance itself.
    pub owner: Option<InstanceId>,
    /// Where its tools shall work.
    pub cwd: Option<String>,
    /// The only tools that may run in its turns.
    pub narrowing: Option<Narrowing>,
}
