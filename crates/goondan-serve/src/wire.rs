//! What goes over the wire, in both directions. Runtime events, messages and results of turns have the form that they have on
//! disk (`docs/events.md`).

mod parts;

use goondan::event::TurnResult;
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest, Covers, Offer, Scope};
use goondan::ports::tool::Attachment;
use goondan::spec::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

pub use self::parts::*;

/// The key that the id of a client's message has in the metadata of the user message, where its protocol has such ids.
pub(crate) const CLIENT_MESSAGE_ID: &str = "clientMessageId";

/// An input for an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputBody {
    /// The text.
    #[serde(default)]
    pub text: String,
    /// The agent; the swarm's entry agent by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The conversation; `main` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// The same id twice starts one turn. One is made up by default.
    #[schema(min_length = 1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Images and the like, behind the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<FileBody>)]
    pub files: Vec<Attachment>,
    /// Put behind the system prompt of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Becomes the metadata of the user message.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: JsonObject,
}

/// A file, such as an image.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileBody {
    /// Such as `image/png`.
    #[schema(pattern = "^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+$")]
    pub media_type: String,
    /// Base64.
    #[schema(pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")]
    pub data: String,
    /// A file name, where there is one.
    pub name: Option<String>,
}

/// What has become of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputState {
    /// The id of the input.
    pub id: String,
    /// The chain that begins with it. Not known any more of an input that was over before it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Who handles it. Not known any more of an input that was over before it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// In which conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Whether its turn is over.
    pub status: InputStatus,
    /// The text of the answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What came of its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<TurnResult>,
}

/// Whether the turn of an input is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputStatus {
    /// It waits, or its turn runs.
    Open,
    /// It is over.
    Over,
}

/// How an input is answered.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Waiting {
    /// Answer when the turn is over, instead of when the input is on disk.
    #[serde(default)]
    pub wait: bool,
    /// Of a stream: answer questions, too. Each comes as `approval.request`; until the stream ends, agents wait for answers.
    #[serde(default)]
    pub approvals: bool,
}

/// What somebody wants to see of what happens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Interest {
    /// Only events of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only events of conversations with this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// Only events of this chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Begin behind the event with this number (`sequence`). The header `Last-Event-ID` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Of the events that are stored, begin with so many, the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 4_294_967_295_u64)]
    pub last: Option<u32>,
    /// Answer questions, too: each comes as `approval.request`. As long as somebody does, agents wait for answers.
    #[serde(default)]
    pub approvals: bool,
}

/// Who the swarm is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SwarmBody {
    /// The name of the Swarm resource.
    pub name: String,
    /// Who gets inputs that name no agent.
    pub entry_agent: String,
    /// All agents, sorted.
    pub agents: Vec<String>,
    /// The number of the generation that serves.
    pub generation: u64,
    /// The version of `gdn`.
    pub version: String,
}

/// A question that nobody has answered yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionBody {
    /// What an answer names.
    pub id: String,
    /// Whose call it is.
    pub agent_name: String,
    /// In which conversation.
    pub instance_key: String,
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    #[schema(value_type = Object)]
    pub arguments: JsonObject,
    /// What the call would do, as the tool tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Why it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What an answer that holds on may cover; nothing where it can't be remembered.
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
            // Of no use to who only answers.
            trace_id: String::new(),
            tool_call_id: body.tool_call_id,
            tool_name: body.tool_name,
            arguments: body.arguments,
            preview: body.preview,
            reason: body.reason,
            offers: body
                .offers
                .into_iter()
                .map(|offer| Offer {
                    covers: offer.covers.into(),
                    commands: offer.commands,
                })
                .collect(),
        }
    }
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerBody {
    /// What is allowed.
    pub answer: Answer,
    /// For what an answer holds that holds on: one of the question's `offers`.
    #[serde(default)]
    pub covers: Cover,
}

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// This call.
    Once,
    /// Calls like this one, in this conversation.
    Conversation,
    /// Calls like this one, until somebody takes that back.
    Always,
    /// Nothing.
    Deny,
}

/// For what an answer holds that holds on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cover {
    /// The same arguments.
    #[default]
    Call,
    /// Command lines of the same programs.
    Program,
    /// All calls of the tool.
    Tool,
}

impl From<Covers> for Cover {
    fn from(covers: Covers) -> Self {
        match covers {
            Covers::Call => Cover::Call,
            Covers::Program => Cover::Program,
            Covers::Tool => Cover::Tool,
        }
    }
}

impl From<Cover> for Covers {
    fn from(cover: Cover) -> Self {
        match cover {
            Cover::Call => Covers::Call,
            Cover::Program => Covers::Program,
            Cover::Tool => Covers::Tool,
        }
    }
}

/// Something that an answer may cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferBody {
    /// How much.
    pub covers: Cover,
    /// The forms of the commands, where it covers commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

impl AnswerBody {
    /// What it means to the asker.
    pub fn meaning(self) -> ApprovalAnswer {
        let allow = |scope| ApprovalAnswer::Allow {
            scope,
            covers: self.covers.into(),
        };
        match self.answer {
            Answer::Once => ApprovalAnswer::ONCE,
            Answer::Conversation => allow(Scope::Conversation),
            Answer::Always => allow(Scope::Always),
            Answer::Deny => ApprovalAnswer::Deny,
        }
    }

    /// The answer that means that; `None` where there is nobody to give one.
    pub fn of(answer: ApprovalAnswer) -> Option<Self> {
        let (answer, covers) = match answer {
            ApprovalAnswer::Allow {
                scope: Scope::Once, ..
            } => (Answer::Once, Covers::Call),
            ApprovalAnswer::Allow {
                scope: Scope::Conversation,
                covers,
            } => (Answer::Conversation, covers),
            ApprovalAnswer::Allow {
                scope: Scope::Always,
                covers,
            } => (Answer::Always, covers),
            ApprovalAnswer::Deny => (Answer::Deny, Covers::Call),
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
    /// The agent whose tool it is; the swarm's entry agent by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The conversation; `main` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_key: Option<String>,
    /// The arguments.
    #[serde(default)]
    pub arguments: Value,
}

/// What came of a reload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadBody {
    /// The number of the generation that serves now.
    pub generation: u64,
    /// Whether the project was taken.
    pub ok: bool,
    /// Errors that kept the old generation in place, or warnings.
    #[schema(value_type = Vec<Object>)]
    pub diagnostics: Vec<Value>,
}

/// The messages of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessagesBody {
    /// Oldest first.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Message>,
}

/// The conversations of a swarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstancesBody {
    /// Oldest first.
    #[schema(value_type = Vec<Object>)]
    pub instances: Vec<Value>,
}

/// Which failed event is started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryBody {
    /// The id of the event.
    pub event_id: String,
}

/// How an input is followed.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Following {
    /// Answer questions, too: each comes as `approval.request`. As long as somebody does, agents wait for answers.
    #[serde(default)]
    pub approvals: bool,
}

/// Which conversations are listed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InstanceFilter {
    /// Only those of this agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// At most that many, the latest.
    #[serde(default)]
    #[param(maximum = 4_294_967_295_u64)]
    pub limit: Option<u32>,
}

/// An error, in the body of each response that tells of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// What went wrong.
    pub error: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Stable; `docs/errors.md` explains it.
    pub code: String,
    /// A sentence that stands alone.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help_url: Option<String>,
}
