//! Commands to the orchestrator.

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::submit_error::SubmitError;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, StoreError};
use goondan_core::tool_allowlist::ToolAllowlist;

/// Kind of acceptance of a submitted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptanceKind {
    /// The event is new.
    New,
    /// An event with the same id was submitted before.
    Repeated,
}

/// Message to the orchestrator.
pub enum OrchestratorCommand {
    /// Handles an event. `accepted` is answered once the event is durable, `waiter` once its turn
    /// has ended.
    Submit {
        /// Event to handle.
        event: Box<AgentEvent>,
        /// Receives the result.
        waiter: Option<oneshot::Sender<TurnResult>>,
        /// Receives the acceptance or the refusal.
        accepted: oneshot::Sender<Result<AcceptanceKind, SubmitError>>,
    },
    /// Withdraws an event after its caller stopped waiting.
    Abandon {
        /// Event id.
        event_id: String,
        /// Reason, for the log record.
        reason: String,
    },
    /// Cancels the running turn of an instance.
    Cancel {
        /// Instance to cancel.
        instance: InstanceId,
        /// Receives `true` if a turn was running.
        answer: oneshot::Sender<bool>,
    },
    /// Cancels an event: the running turn if it has begun, otherwise the queued event.
    CancelEvent {
        /// Event id.
        event_id: String,
        /// Receives `true` if there was something to cancel.
        answer: oneshot::Sender<bool>,
    },
    /// Returns the state of an event.
    Find {
        /// Event id.
        event_id: String,
        /// Receives the state.
        answer: oneshot::Sender<Option<EventState>>,
    },
    /// Creates an instance.
    Spawn {
        /// Instance to create.
        request: InstanceSpawnRequest,
        /// Receives `true` if the instance is new.
        answer: oneshot::Sender<Result<bool, SubmitError>>,
    },
    /// Lists the instances, oldest first.
    List {
        /// Receives the list.
        answer: oneshot::Sender<Vec<InstanceMeta>>,
    },
    /// Checks that an instance exists.
    Has {
        /// Instance to check.
        instance: InstanceId,
        /// Receives `true` if the instance exists.
        answer: oneshot::Sender<bool>,
    },
    /// Deletes an idle instance with all its data.
    Delete {
        /// Instance to delete.
        instance: InstanceId,
        /// Receives `false` if the instance does not exist.
        answer: oneshot::Sender<Result<bool, SubmitError>>,
    },
    /// Waits until a causal chain has no events left.
    Settled {
        /// Trace id of the chain.
        trace_id: String,
        /// Notified when the chain is empty.
        answer: oneshot::Sender<()>,
    },
    /// Checks for free turn slots: a turn began to wait for an approval, or a node joined or left.
    Room,
    /// Result of a scan of all stored instances.
    Looked(InstanceScan),
    /// Another generation is active.
    Swapped,
    /// Store work on an instance is done.
    Tended {
        /// Instance concerned.
        instance: InstanceId,
        /// Result of the work.
        done: StoreWorkResult,
    },
    /// Refuses new inputs, waits for running turns within the grace period, then ends.
    Shutdown {
        /// Grace period.
        grace: std::time::Duration,
    },
}

/// Instance to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpawnRequest {
    /// Agent and key of the instance.
    pub id: InstanceId,
    /// Instance that requests the new instance; `None` if the instance itself does.
    pub owner: Option<InstanceId>,
    /// Working directory of the instance's tools.
    pub cwd: Option<String>,
    /// The only tools allowed in the instance's turns.
    pub narrowing: Option<ToolAllowlist>,
}

/// State of an event.
pub enum EventState {
    /// The turn has ended.
    Over(Box<TurnResult>),
    /// The event is queued, or its turn is running.
    Open {
        /// Instance that handles the event.
        target: InstanceId,
        /// Trace id of the causal chain.
        trace_id: String,
        /// Receives the result when the turn ends.
        result: oneshot::Receiver<TurnResult>,
    },
}

/// Result of a scan of all stored instances.
pub enum InstanceScan {
    /// All stored instances.
    All {
        /// Their metadata.
        stored: Vec<InstanceMeta>,
        /// Receives the complete list.
        answer: oneshot::Sender<Vec<InstanceMeta>>,
    },
    /// Instances to retire or delete; `None` if the store failed.
    Due(Option<Vec<InstanceId>>),
}

/// Result of store work on an instance.
pub enum StoreWorkResult {
    /// The instance is retired.
    Retired,
    /// The instance is deleted.
    Deleted,
    /// The store has the current metadata.
    Kept,
    /// A caller waits for the metadata to be written.
    Put {
        /// The instance was not in the store before.
        is_new: bool,
        /// Result of the write.
        written: Result<(), StoreError>,
        /// Receives `true` if the instance is new.
        answer: oneshot::Sender<Result<bool, SubmitError>>,
    },
    /// A user waits for the instance to be deleted.
    DeletedOnRequest {
        /// Result of the deletion.
        deleted: Result<(), StoreError>,
        /// Receives `true` after the deletion.
        answer: oneshot::Sender<Result<bool, SubmitError>>,
    },
    /// The store failed. The work is retried later.
    Failed,
}
