//! Messages between the leader and its workers.

use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{RuntimeEvent, TurnResult, UsageCost};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::ports::approval::{ApprovalGrant, ApprovalRequest};
use goondan_core::ports::capabilities::JobRequest;
use goondan_core::ports::store::InstanceMeta;
use goondan_core::tool_allowlist::ToolAllowlist;
use goondan_spec::Code;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::delivery::orchestrator::{InstanceSpawnRequest, SubmitError};
use crate::turn::TurnInterruption;
use crate::usage_increment::UsageIncrement;

/// Identifies a turn among all turns that a leader assigns.
pub(crate) type TurnNumber = u64;
/// Identifies a call among all calls of a worker.
pub(crate) type CallNumber = u64;

/// Message from the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// The node is known; `is_fit` is true if its project matches the leader's.
    Fit { is_fit: bool },
    /// Run a turn.
    Begin(Box<TurnAssignment>),
    /// Events that join a turn.
    Join {
        turn: TurnNumber,
        events: Vec<AgentEvent>,
    },
    /// Cancel a turn.
    Cancel { turn: TurnNumber },
    /// Answer to a call.
    Answer { call: CallNumber, answer: Value },
    /// Heartbeat of the agent whose result is awaited.
    Sign { call: CallNumber, is_asked: bool },
    /// The instance was evicted or runs on another node from now on.
    PutAway { instance: InstanceId },
}

/// A turn to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TurnAssignment {
    pub(crate) turn: TurnNumber,
    pub(crate) event: AgentEvent,
    pub(crate) meta: InstanceMeta,
    pub(crate) is_new: bool,
    /// The last turn of the instance ran on that node, so its caches of the instance are valid.
    pub(crate) is_home: bool,
    /// Interruption of the turn by the end of an earlier process; `None` at the first start.
    #[serde(default)]
    pub(crate) interruption: Option<TurnInterruption>,
    pub(crate) joined: Vec<AgentEvent>,
    /// Remembered approvals.
    pub(crate) grants: Vec<ApprovalGrant>,
}

/// Message from a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLeader {
    /// A turn is over.
    Done {
        turn: TurnNumber,
        end: Box<EndOfTurn>,
    },
    /// The turn did not start because this node has another project.
    Declined { turn: TurnNumber },
    /// A turn panicked.
    Panicked { turn: TurnNumber },
    /// Request that expects an answer.
    Ask {
        call: CallNumber,
        question: Box<LeaderRequest>,
    },
    /// The answer to the call is no longer needed.
    Gone { call: CallNumber },
    /// The answer to the event is no longer needed; `calls` were waiting for it.
    Abandon {
        event_id: String,
        reason: String,
        calls: Vec<CallNumber>,
    },
    /// Runtime event of an instance.
    Happened(Box<RuntimeEvent>),
    /// Streamed text of a step.
    Text {
        instance: InstanceId,
        turn_id: String,
        delta: String,
    },
    /// Streamed reasoning of a step.
    Reasoning {
        instance: InstanceId,
        turn_id: String,
        delta: String,
    },
    /// Retracts the streamed text of a step.
    TextReset {
        instance: InstanceId,
        turn_id: String,
    },
    /// Usage to add to the budget totals.
    Spent(UsageIncrement),
    /// Usage of a model call.
    Used {
        identity: String,
        tokens: u64,
        cost: Option<UsageCost>,
    },
    /// Heartbeat of a turn, or of the whole node if `turn` is absent.
    Sign {
        turn: Option<TurnNumber>,
        is_asked: bool,
    },
}

/// End of a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndOfTurn {
    pub(crate) result: TurnResult,
    pub(crate) handled: Vec<String>,
    pub(crate) answer: Option<AgentEvent>,
    pub(crate) meta: InstanceMeta,
}

/// Request of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LeaderRequest {
    /// Accept an event. Answered with a [`LeaderReply`] when it is accepted; its result is sent under
    /// another call number.
    Submit {
        event: Box<AgentEvent>,
        result: Option<CallNumber>,
    },
    /// Prepare an instance. Answered with a [`LeaderReply`].
    Spawn(InstanceSpawnRequest),
    /// List all instances.
    List,
    /// This node leaves and must get no further turns. Answered when the leader has recorded that.
    Leave,
    /// Check the budget for another step.
    Budget,
    /// Answered when the rate limits allow a model call.
    Enter(RateLimitRequest),
    /// Request an approval from a user.
    Approve(ApprovalRequest),
    /// Store remembered approvals.
    Remember(Vec<ApprovalGrant>),
    /// List the jobs of an instance.
    Jobs(InstanceId),
    AddJob(NewJob),
    RemoveJob(InstanceId, String),
}

/// Rate-limit request for a model call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RateLimitRequest {
    /// Identity of the model: provider, name and endpoint.
    pub(crate) identity: String,
    /// Provider and name for events.
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) instance: InstanceId,
    pub(crate) trace: TraceContext,
    pub(crate) turn_id: String,
    pub(crate) step_id: Option<String>,
}

/// A job that a turn creates.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NewJob {
    pub(crate) instance: InstanceId,
    /// Position of the creating call in the turn.
    pub(crate) place: String,
    pub(crate) wanted: JobRequest,
    pub(crate) callers: Vec<InstanceId>,
    /// Time of the first call in the chain of callers. A caller that lost its access after it is
    /// refused.
    pub(crate) since: chrono::DateTime<chrono::Utc>,
    pub(crate) bound_by: std::collections::BTreeSet<String>,
    pub(crate) narrowing: Option<ToolAllowlist>,
}

/// Result of a request that may be refused.
pub(crate) type LeaderReply<T> = Result<T, SerializedRefusal>;

/// Serializable form of a [`SubmitError`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SerializedRefusal {
    code: String,
    message: String,
    suggestion: Option<String>,
}

impl From<SubmitError> for SerializedRefusal {
    fn from(refusal: SubmitError) -> Self {
        let (code, suggestion) = (refusal.code().as_str().to_owned(), refusal.suggestion());
        SerializedRefusal {
            code,
            message: refusal.to_string(),
            suggestion,
        }
    }
}

impl From<SerializedRefusal> for SubmitError {
    fn from(refused: SerializedRefusal) -> Self {
        let SerializedRefusal {
            code,
            message,
            suggestion,
        } = refused;
        SubmitError::Elsewhere {
            code: Code::find(&code).unwrap_or(Code::AGENT_REQUEST_FAILED),
            message,
            suggestion,
        }
    }
}

/// Encodes a message between nodes as JSON.
pub(crate) fn encode<T: Serialize>(message: &T) -> String {
    serde_json::to_string(message).expect("cluster messages can be written as JSON")
}

/// Decodes a message. Returns `None` and logs an error if another version of gdn sent it.
pub(crate) fn decode<T: DeserializeOwned>(message: &str) -> Option<T> {
    serde_json::from_str(message)
        .inspect_err(|error| {
            tracing::error!(%error, "can't decode a message from another node; ignoring it")
        })
        .ok()
}
