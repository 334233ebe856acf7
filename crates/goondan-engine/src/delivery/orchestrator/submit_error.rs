//! Reasons to refuse an event or a spawn (rules A1, A4, A8).

use goondan_spec::Code;

use super::pending;
use goondan_core::ids::InstanceId;
use goondan_core::ports::model::ModelError;
use goondan_core::ports::store::StoreError;
use goondan_core::ports::tool::HandlerError;

/// Limit of queued events per instance.
pub(super) const MAX_QUEUED_EVENTS: usize = 10_000;

/// Length limit of an instance key, in bytes. With the file store, the keys of all instances stay
/// in memory.
pub(super) const MAX_KEY_BYTES: usize = 1_024;

/// Reason why an event or a spawn is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    /// The swarm is shutting down.
    #[error("the swarm is stopping")]
    Stopping,
    /// The orchestrator has ended.
    #[error("the swarm has ended")]
    Ended,
    /// The swarm has no agent of that name.
    #[error("Swarm `{swarm}` has no agent `{agent}`.")]
    NoSuchAgent {
        /// Swarm name.
        swarm: String,
        /// Requested agent name.
        agent: String,
        /// Names of the existing agents.
        known: Vec<String>,
    },
    /// The bundle has no Model resource of that name.
    #[error("there is no Model resource `{model}`")]
    NoSuchModel {
        /// Requested model name.
        model: String,
        /// Names of the existing models.
        known: Vec<String>,
    },
    /// The Model resource cannot be used.
    #[error("Model/{model} cannot be used: {cause}")]
    ModelUnavailable {
        /// Model name.
        model: String,
        /// Error of the model provider.
        #[source]
        cause: ModelError,
    },
    /// The instance has no failed event of that id.
    #[error("{instance} has no failed event `{event}`")]
    NoSuchEvent {
        /// Instance searched.
        instance: InstanceId,
        /// Event id.
        event: String,
    },
    /// The chain of agent calls is too long.
    #[error("agent calls are nested {depth} deep, and `policy.maxCallDepth` is {most}")]
    TooDeep {
        /// Depth of the refused call.
        depth: usize,
        /// Limit.
        most: u32,
    },
    /// The queue of the instance is full.
    #[error("{0} already has {MAX_QUEUED_EVENTS} queued events")]
    QueueFull(InstanceId),
    /// A turn of the instance runs or waits, so its last turn cannot be taken back.
    #[error("A turn of {0} runs or waits, so its last turn cannot be taken back.")]
    TurnRunning(InstanceId),
    /// A turn of the instance runs or waits, so the instance cannot be deleted.
    #[error("A turn of {0} runs or waits, so the conversation cannot be deleted.")]
    InUse(InstanceId),
    /// All queued events together reach the memory limit, in bytes.
    #[error("the queued events of this swarm take {0} bytes, which is the limit")]
    TooManyBytes(usize),
    /// The event is too large, in bytes.
    #[error("the event has {0} bytes; the limit is {largest}", largest = pending::MAX_EVENT_BYTES)]
    TooLarge(usize),
    /// The metadata of the event is too large, in bytes.
    #[error("the metadata of the event has {0} bytes; the limit is {largest}", largest = pending::MAX_METADATA_BYTES)]
    MetadataTooLarge(usize),
    /// The swarm has reached its instance limit.
    #[error("the swarm has {0} instances, the limit of `policy.maxInstances`")]
    TooManyInstances(usize),
    /// The instance key is too long, in bytes.
    #[error("the instance key has {0} bytes; the limit is {MAX_KEY_BYTES}")]
    KeyTooLong(usize),
    /// The request would close a circle of waiting instances. The first instance is repeated at the
    /// end.
    #[error("the request would wait for itself: {}", .0.iter().map(InstanceId::to_string).collect::<Vec<_>>().join(" → "))]
    Circular(Vec<InstanceId>),
    /// A user has taken over a conversation of the chain of callers since the chain began.
    #[error(
        "the user of `{0}` has taken it over, which ended the access of the agent that started it"
    )]
    AccessEnded(InstanceId),
    /// The event uses a name reserved for the engine.
    #[error(transparent)]
    Reserved(HandlerError),
    /// The leader node refused the event.
    #[error("{message}")]
    Elsewhere {
        /// Error code.
        code: Code,
        /// Error message.
        message: String,
        /// Suggested fix.
        suggestion: Option<String>,
    },
    /// The event could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SubmitError {
    /// Returns the stable error code.
    pub fn code(&self) -> Code {
        match self {
            SubmitError::Stopping => Code::SWARM_STOPPING,
            SubmitError::Ended => Code::SWARM_STOPPED,
            SubmitError::NoSuchAgent { .. } => Code::AGENT_NOT_FOUND,
            SubmitError::NoSuchModel { .. } => Code::MODEL_NOT_FOUND,
            SubmitError::ModelUnavailable { .. } => Code::MODEL_UNAVAILABLE,
            SubmitError::NoSuchEvent { .. } => Code::EVENT_NOT_FOUND,
            SubmitError::TooDeep { .. } => Code::AGENT_CALL_DEPTH_EXCEEDED,
            SubmitError::QueueFull(_) | SubmitError::TooManyBytes(_) => Code::AGENT_QUEUE_FULL,
            SubmitError::TurnRunning(_) | SubmitError::InUse(_) => Code::AGENT_TURN_RUNNING,
            SubmitError::TooLarge(_) | SubmitError::MetadataTooLarge(_) => {
                Code::AGENT_EVENT_TOO_LARGE
            }
            SubmitError::TooManyInstances(_) => Code::AGENT_INSTANCE_LIMIT,
            SubmitError::KeyTooLong(_) => Code::AGENT_KEY_TOO_LONG,
            SubmitError::Circular(_) => Code::CIRCULAR_CALL_DETECTED,
            SubmitError::AccessEnded(_) => Code::TOOL_DENIED,
            SubmitError::Reserved(_) => Code::AGENT_EVENT_RESERVED,
            SubmitError::Elsewhere { code, .. } => *code,
            SubmitError::Store(_) => Code::STORE,
        }
    }

    /// Returns a suggested fix.
    pub fn suggestion(&self) -> Option<String> {
        let fixed = match self {
            SubmitError::NoSuchAgent { known, .. } => {
                return Some(format!("Use one of: {}.", known.join(", ")));
            }
            SubmitError::NoSuchModel { known, .. } => {
                return Some(format!("The models are: {}.", known.join(", ")));
            }
            SubmitError::ModelUnavailable { cause, .. } => return cause.suggestion.clone(),
            SubmitError::Reserved(error) => return error.suggestion.clone(),
            SubmitError::Elsewhere { suggestion, .. } => return suggestion.clone(),
            SubmitError::Ended => return None,
            SubmitError::Stopping => "Send it again when the swarm runs.",
            SubmitError::NoSuchEvent { .. } => {
                "List its failed events with `gdn conversation show`."
            }
            SubmitError::TooDeep { .. } => "Answer with what you know.",
            SubmitError::QueueFull(_) | SubmitError::TooManyBytes(_) => "Send it again later.",
            SubmitError::TurnRunning(_) | SubmitError::InUse(_) => {
                "Wait for the end of the turn, or cancel it."
            }
            SubmitError::TooLarge(_) | SubmitError::MetadataTooLarge(_) => {
                "Save it to a file and send the path."
            }
            SubmitError::TooManyInstances(_) => {
                "Set `policy.lifecycle` of the Swarm, which retires idle conversations, or raise \
                    `policy.maxInstances`. Existing conversations can be used."
            }
            SubmitError::KeyTooLong(_) => "Use a shorter key, such as a hash of this one.",
            SubmitError::AccessEnded(_) => "Use another conversation.",
            SubmitError::Circular(_) => {
                "Answer without this request, use agents__send, or use another instanceKey."
            }
            SubmitError::Store(_) => {
                "Free disk space or fix the permissions of the state directory, then send it \
                    again."
            }
        };
        Some(fixed.to_owned())
    }
}
