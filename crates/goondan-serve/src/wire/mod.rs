//! Request and response bodies. Runtime events, messages and turn results have the same form as on
//! disk (`docs/events.md`).

mod project_bodies;
mod studio_bodies;

use std::collections::BTreeSet;

use goondan::event::{InputDelivery, TurnResult};
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalOffer, ApprovalRequest,
};
use goondan::ports::tool::Attachment;
use goondan::spec::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

pub use self::project_bodies::*;
pub use self::studio_bodies::*;

/// Metadata key of a user message for the client's message id, in protocols that have such ids.
pub(crate) const CLIENT_MESSAGE_ID: &str = "clientMessageId";

/// An input for an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputBody {
    /// Message text. `text` is the older name.
    #[serde(default, alias = "text")]
    pub input: String,
    /// Agent. Default: the swarm's entry agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Conversation key. Default: `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Input id. A repeated id starts no second turn. Default: a generated id.
    #[schema(min_length = 1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Images and other files, placed after the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<FileBody>)]
    pub files: Vec<Attachment>,
    /// Instructions appended to the system prompt of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Metadata of the user message.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: JsonObject,
    /// Handling of the input while a turn of its conversation runs. Default: `queue`.
    #[serde(default, skip_serializing_if = "InputDelivery::is_queue")]
    #[schema(value_type = DeliveryBody)]
    pub delivery: InputDelivery,
}

/// Handling of an input while a turn of its conversation runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryBody {
    /// The input starts its own turn after the running one.
    Queue,
    /// The input joins the running turn before its next step, and its result is that of the turn.
    /// Without a further step, the input starts its own turn.
    Steer,
}

/// A file, such as an image.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileBody {
    /// Media type, such as `image/png`.
    #[schema(pattern = "^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+$")]
    pub media_type: String,
    /// File content, in Base64.
    #[schema(pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")]
    pub data: String,
    /// File name, if any.
    pub name: Option<String>,
}

/// State of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputState {
    /// Input id.
    pub id: String,
    /// Trace that the input started. Absent for inputs that were over before this process first
    /// looked them up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Agent that handles the input. Absent for inputs that were over before this process first
    /// looked them up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Conversation key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Progress of the input's turn.
    pub status: InputStatus,
    /// Answer text, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Result of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<TurnResult>,
}

/// Progress of an input's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputStatus {
    /// The input waits, or its turn runs.
    Open,
    /// The turn is over.
    Over,
}

/// Response options for an input.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InputOptions {
    /// Respond when the turn is over, instead of when the input is on disk.
    #[serde(default)]
    pub wait: bool,
    /// For streams: send each approval request as `approval.request`. Agents wait for answers until
    /// the stream ends.
    #[serde(default)]
    pub approvals: bool,
}

/// Event filter of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventFilter {
    /// Only events of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only events of conversations with this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Only events of this trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Start after the event with this number (`sequence`). Same as the header `Last-Event-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Number of latest stored events to start with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 4_294_967_295_u64)]
    pub last: Option<u32>,
    /// Send each approval request as `approval.request`. Agents wait for answers while such a
    /// stream is open.
    #[serde(default)]
    pub approvals: bool,
}

/// Identity of the swarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SwarmBody {
    /// Name of the Swarm resource.
    pub name: String,
    /// Agent for inputs that name no agent.
    pub entry_agent: String,
    /// All agents, sorted.
    pub agents: Vec<String>,
    /// Number of the active generation.
    pub generation: u64,
    /// Version of `gdn`.
    pub version: String,
}

/// An open approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionBody {
    /// Request id.
    pub id: String,
    /// Agent that made the call.
    pub agent_name: String,
    /// Conversation key.
    pub instance_key: String,
    /// Tool call id.
    pub tool_call_id: String,
    /// Tool name.
    pub tool_name: String,
    /// Arguments of the call.
    #[schema(value_type = Object)]
    pub arguments: JsonObject,
    /// Names of the arguments that equal their default.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub default_arguments: BTreeSet<String>,
    /// Preview of the call's effect, from the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Rule or default that requires the approval, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Scopes that a remembered approval can have. Empty if the approval cannot be remembered.
    #[serde(default)]
    pub offers: Vec<OfferBody>,
}

impl From<&ApprovalRequest> for QuestionBody {
    fn from(request: &ApprovalRequest) -> Self {
        QuestionBody {
            id: request.id.clone(),
            agent_name: request.instance.agent.clone(),
            instance_key: request.instance.instance_key.clone(),
            tool_call_id: request.tool_call_id.clone(),
            tool_name: request.tool_name.clone(),
            arguments: request.arguments.clone(),
            default_arguments: request.default_arguments.clone(),
            preview: request.preview.clone(),
            reason: request.reason.clone(),
            offers: request
                .offers
                .iter()
                .map(|offer| OfferBody {
                    covers: offer.covers.into(),
                    commands: offer.commands.clone(),
                })
                .collect(),
        }
    }
}

impl From<QuestionBody> for ApprovalRequest {
    fn from(body: QuestionBody) -> Self {
        ApprovalRequest {
            id: body.id,
            instance: InstanceId::new(body.agent_name, body.instance_key),
            // Clients that only answer requests do not use the trace.
            trace_id: String::new(),
            tool_call_id: body.tool_call_id,
            tool_name: body.tool_name,
            arguments: body.arguments,
            default_arguments: body.default_arguments,
            preview: body.preview,
            reason: body.reason,
            offers: body
                .offers
                .into_iter()
                .map(|offer| ApprovalOffer {
                    covers: offer.covers.into(),
                    commands: offer.commands,
                })
                .collect(),
        }
    }
}

/// An answer to an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerBody {
    /// Decision.
    pub answer: ApprovalChoice,
    /// Scope of a remembered approval: one of the `offers` of the request.
    #[serde(default)]
    pub covers: CoverageBody,
}

/// Decision about an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Answer)]
pub enum ApprovalChoice {
    /// Allow this call.
    Once,
    /// Allow matching calls in this conversation.
    Conversation,
    /// Allow matching calls until the approval is revoked.
    Always,
    /// Deny the call.
    Deny,
}

/// Scope of a remembered approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Cover)]
pub enum CoverageBody {
    /// Calls with the same arguments.
    #[default]
    Call,
    /// Command lines of the same programs.
    Program,
    /// All calls of the tool.
    Tool,
}

impl From<ApprovalCoverage> for CoverageBody {
    fn from(covers: ApprovalCoverage) -> Self {
        match covers {
            ApprovalCoverage::Call => CoverageBody::Call,
            ApprovalCoverage::Program => CoverageBody::Program,
            ApprovalCoverage::Tool => CoverageBody::Tool,
        }
    }
}

impl From<CoverageBody> for ApprovalCoverage {
    fn from(cover: CoverageBody) -> Self {
        match cover {
            CoverageBody::Call => ApprovalCoverage::Call,
            CoverageBody::Program => ApprovalCoverage::Program,
            CoverageBody::Tool => ApprovalCoverage::Tool,
        }
    }
}

/// A scope that an approval can have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferBody {
    /// Scope.
    pub covers: CoverageBody,
    /// Command patterns, if the scope is about commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

impl AnswerBody {
    /// Converts the body to an approval answer.
    pub fn to_approval_answer(self) -> ApprovalAnswer {
        let allow = |scope| ApprovalAnswer::Allow {
            scope,
            covers: self.covers.into(),
        };
        match self.answer {
            ApprovalChoice::Once => ApprovalAnswer::ONCE,
            ApprovalChoice::Conversation => allow(ApprovalDuration::Conversation),
            ApprovalChoice::Always => allow(ApprovalDuration::Always),
            ApprovalChoice::Deny => ApprovalAnswer::Deny,
        }
    }

    /// Converts an approval answer; `None` if no user is available to answer.
    pub fn of(answer: ApprovalAnswer) -> Option<Self> {
        let (answer, covers) = match answer {
            ApprovalAnswer::Allow {
                scope: ApprovalDuration::Once,
                ..
            } => (ApprovalChoice::Once, ApprovalCoverage::Call),
            ApprovalAnswer::Allow {
                scope: ApprovalDuration::Conversation,
                covers,
            } => (ApprovalChoice::Conversation, covers),
            ApprovalAnswer::Allow {
                scope: ApprovalDuration::Always,
                covers,
            } => (ApprovalChoice::Always, covers),
            ApprovalAnswer::Deny => (ApprovalChoice::Deny, ApprovalCoverage::Call),
            ApprovalAnswer::NobodyThere => return None,
        };
        Some(AnswerBody {
            answer,
            covers: covers.into(),
        })
    }
}

/// A tool call without a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallBody {
    /// Agent that has the tool. Default: the swarm's entry agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Conversation key. Default: `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Arguments of the call.
    #[serde(default)]
    pub arguments: Value,
}

/// Result of a reload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadBody {
    /// Number of the generation that is now active.
    pub generation: u64,
    /// True if the new project is active.
    pub ok: bool,
    /// Errors that kept the old generation active, or warnings.
    #[schema(value_type = Vec<Object>)]
    pub diagnostics: Vec<Value>,
}

/// Messages of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessagesBody {
    /// Oldest first.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Message>,
    /// Number of messages before the first returned one.
    pub start: usize,
    /// Number of messages in the conversation.
    pub total: usize,
}

/// Filter for the messages of a conversation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessageFilter {
    /// Maximum number of messages; the first are returned. Excludes `last`.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u64)]
    pub first: Option<u32>,
    /// Maximum number of messages; the last are returned.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u64)]
    pub last: Option<u32>,
    /// Id of a message: only the messages before it are returned.
    #[serde(default)]
    pub before: Option<String>,
}

/// Conversations of a swarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstancesBody {
    /// Oldest first. A conversation that a user gave a title has a `title`.
    #[schema(value_type = Vec<Object>)]
    pub instances: Vec<Value>,
}

/// Title of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TitleBody {
    /// Title, at most 200 characters. Empty for no title.
    #[schema(max_length = 200)]
    pub title: String,
}

/// Stored states of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatesBody {
    /// States of extensions, then states of tools. Each has `owner` (`extension` or `tool`), `name`
    /// and `value`. Secrets are masked.
    #[schema(value_type = Vec<Object>)]
    pub states: Vec<Value>,
}

/// The failed event to start again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryBody {
    /// Event id.
    pub event_id: String,
}

/// Options for following an input.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FollowOptions {
    /// Send each approval request as `approval.request`. Agents wait for answers while such a
    /// stream is open.
    #[serde(default)]
    pub approvals: bool,
}

/// Filter for the list of conversations.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InstanceFilter {
    /// Only conversations of this agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// Maximum number of conversations; the latest are listed.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u64)]
    pub limit: Option<u32>,
}

/// Body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// Error details.
    pub error: ErrorBody,
}

/// Error details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Stable error code, explained in `docs/errors.md`.
    pub code: String,
    /// Message, a complete sentence.
    pub message: String,
    /// Suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Link to the documentation of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help_url: Option<String>,
}
