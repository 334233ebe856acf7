//! What `/openapi.json` says of bodies. They are read elsewhere, field by field, and have more fields than are told here.

use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

/// A chat that is to be answered.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document is made of it")]
pub(crate) struct ChatBody {
    /// The name of an agent, or of the swarm for its entry agent.
    model: String,
    /// What was said, the last message by the user.
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    /// Whether the answer comes in pieces.
    #[schema(nullable = false)]
    stream: Option<bool>,
}

/// A message of a chat.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document is made of it")]
pub(crate) struct ChatMessage {
    /// Who speaks.
    role: ChatRole,
    /// A text, or a list of texts and images.
    content: Value,
}

/// Who speaks in a chat.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the document is made of it")]
pub(crate) enum ChatRole {
    /// The one who asks.
    User,
    /// The agent.
    Assistant,
    /// Instructions.
    System,
    /// Instructions.
    Developer,
}

/// An input that is to be answered.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document is made of it")]
pub(crate) struct ResponseBody {
    /// The name of an agent, or of the swarm for its entry agent.
    model: String,
    /// A text, or a list of messages.
    input: Value,
    /// The response that this one goes on from.
    previous_response_id: Option<String>,
    /// Whether the answer comes in pieces.
    #[schema(nullable = false)]
    stream: Option<bool>,
}

/// An error in OpenAI's form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document is made of it")]
pub(crate) struct RefusalBody {
    /// Its `message`, `type`, `param` and `code`.
    #[schema(value_type = Object)]
    error: Value,
}

/// Which answers tell of errors.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "the document is made of it")]
pub(crate) enum Refusals {
    /// The request makes no sense, or asks for what agents do not have.
    #[response(status = 400)]
    Request(RefusalBody),
    /// The key is not the token of the server.
    #[response(status = 401)]
    Key(RefusalBody),
    /// The host or the origin is not allowed.
    #[response(status = 403)]
    Origin(RefusalBody),
    /// There is no such model or response.
    #[response(status = 404)]
    NotFound(RefusalBody),
    /// It is too large.
    #[response(status = 413)]
    TooLarge(RefusalBody),
    /// There is too much of it, or the provider of the model says so.
    #[response(status = 429)]
    TooMany(RefusalBody),
    /// The turn has failed.
    #[response(status = 500)]
    Failed(RefusalBody),
    /// The provider of the model has failed.
    #[response(status = 502)]
    Provider(RefusalBody),
    /// The server is stopping.
    #[response(status = 503)]
    Unavailable(RefusalBody),
}
