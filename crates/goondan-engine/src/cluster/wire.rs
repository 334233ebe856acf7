//! What the node that leads and one that works for it say to each other.

use goondan_core::event::{Cost, RuntimeEvent, TurnResult};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::inbound::AgentEvent;
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::approval::{ApprovalRequest, Grant};
use goondan_core::ports::powers::JobRequest;
use goondan_core::ports::store::InstanceMeta;
use goondan_spec::Code;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::delivery::orchestrator::{Refusal, SpawnRequest};
use crate::engine::Spending;

/// Tells a turn from all others that a leader hands out.
pub(crate) type TurnNumber = u64;
/// Tells a question from all others of a worker.
pub(crate) type CallNumber = u64;

/// The leader speaks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// The node is known; its project is the one that serves, or not.
    Fit { is_fit: bool },
    /// Run a turn.
    Begin(Box<Begin>),
    /// These answers join a turn.
    Join {
        turn: TurnNumber,
        events: Vec<AgentEvent>,
    },
    /// A turn is cancelled.
    Cancel { turn: TurnNumber },
    /// The answer to a question.
    Answer { call: CallNumber, answer: Value },
    /// A sign of life of the agent whose result is waited for.
    Sign { call: CallNumber, is_asked: bool },
    /// An instance was put away, or runs elsewhere from now on.
    PutAway { instance: InstanceId },
}

/// A turn to be run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) turn: TurnNumber,
    pub(crate) event: AgentEvent,
    pub(crate) meta: InstanceMeta,
    pub(crate) is_new: bool,
    /// The last turn of the instance ran on that node: what it remembers of the instance is right.
    pub(crate) is_home: bool,
    pub(crate) joined: Vec<AgentEvent>,
    /// Approvals that hold always.
    pub(crate) grants: Vec<Grant>,
}

/// A worker speaks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLeader {
    /// A turn is over.
    Done {
        turn: TurnNumber,
        end: Box<EndOfTurn>,
    },
    /// A turn was not begun: the project is another one here.
    Declined { turn: TurnNumber },
    /// A turn panicked.
    Panicked { turn: TurnNumber },
    /// A question that wants an answer.
    Ask {
        call: CallNumber,
        question: Box<Question>,
    },
    /// Nobody waits for that answer any more.
    Gone { call: CallNumber },
    /// Nobody waits any more for the answer to an event; these were the questions.
    Abandon {
        event_id: String,
        reason: String,
        calls: Vec<CallNumber>,
    },
    /// Something happened in an instance.
    Happened(Box<RuntimeEvent>),
    /// More text of a step.
    Text {
        instance: InstanceId,
        turn_id: String,
        delta: String,
    },
    /// More reasoning of a step.
    Reasoning {
        instance: InstanceId,
        turn_id: String,
        delta: String,
    },
    /// The text of a step is void.
    TextReset {
        instance: InstanceId,
        turn_id: String,
    },
    /// Something was used up.
    Spent(Spending),
    /// A model has answered, which took so many tokens.
    Used {
        identity: String,
        tokens: u64,
        cost: Option<Cost>,
    },
    /// A sign of life of a turn; of all that runs on the node where it names none.
    Sign {
        turn: Option<TurnNumber>,
        is_asked: bool,
    },
}

/// How a turn ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndOfTurn {
    pub(crate) result: TurnResult,
    pub(crate) handled: Vec<String>,
    pub(crate) answer: Option<AgentEvent>,
    pub(crate) meta: InstanceMeta,
}

/// What a worker wants to know, or to have done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Take an event; its result is wanted under another number. Answered with a [`Reply`] once it is accepted.
    Submit {
        event: Box<AgentEvent>,
        result: Option<CallNumber>,
    },
    /// Prepare an instance. Answered with a [`Reply`].
    Spawn(SpawnRequest),
    /// What instances are there?
    List,
    /// This node leaves: it shall get no more turns. Answered once that is known.
    Leave,
    /// May there be another step?
    Budget,
    /// May a model be asked? Answered once it may.
    Enter(RoomWanted),
    /// Ask somebody about a call.
    Approve(ApprovalRequest),
    /// Keep approvals that hold always.
    Remember(Vec<Grant>),
    /// The jobs of an instance.
    Jobs(InstanceId),
    /// Make a job.
    AddJob(NewJob),
    /// End a job.
    RemoveJob(InstanceId, String),
}

/// Who wants to ask a model.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RoomWanted {
    /// What tells the model from others.
    pub(crate) identity: String,
    /// What it is called.
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) instance: InstanceId,
    pub(crate) trace: TraceContext,
    pub(crate) turn_id: String,
    pub(crate) step_id: Option<String>,
}

/// A job that a turn wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NewJob {
    pub(crate) instance: InstanceId,
    /// The call that makes it.
    pub(crate) place: String,
    pub(crate) wanted: JobRequest,
    pub(crate) callers: Vec<InstanceId>,
    pub(crate) bound_by: std::collections::BTreeSet<String>,
    pub(crate) narrowing: Option<Narrowing>,
}

/// What came of something that may be refused.
pub(crate) type Reply<T> = Result<T, Refused>;

/// A refusal, in words.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    code: String,
    message: String,
    suggestion: Option<String>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let (code, suggestion) = (refusal.code().as_str().to_owned(), refusal.suggestion());
        Refused {
            code,
            message: refusal.to_string(),
            suggestion,
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let Refused {
            code,
            message,
            suggestion,
        } = refused;
        Refusal::Elsewhere {
            code: Code::find(&code).unwrap_or(Code::AGENT_REQUEST_FAILED),
            message,
            suggestion,
        }
    }
}

/// As it travels.
pub(crate) fn encode<T: Serialize>(words: &T) -> String {
    serde_json::to_string(words).expect("what is said has a form in JSON")
}

/// What was said; `None`, and a word in the log, where another version said it.
pub(crate) fn decode<T: DeserializeOwned>(words: &str) -> Option<T> {
    serde_json::from_str(words)
        .inspect_err(|error| tracing::error!(%error, "another node is not understood"))
        .ok()
}
