//! Request and error bodies for `/openapi.json`. The handlers read the fields one by one, and
//! accept more fields than these.

use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

/// A chat completion request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) struct ChatBody {
    /// Name of an agent, or of the swarm for its entry agent.
    model: String,
    /// Messages of the conversation, the last one from the user.
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    /// Stream the answer.
    #[schema(nullable = false)]
    stream: Option<bool>,
}

/// A message of a chat.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) struct ChatMessage {
    /// Sender of the message.
    role: ChatRole,
    /// A string, or a list of texts and images.
    content: Value,
}

/// Sender of a chat message.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) enum ChatRole {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// Instructions.
    System,
    /// Instructions.
    Developer,
}

/// A response request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) struct ResponseBody {
    /// Name of an agent, or of the swarm for its entry agent.
    model: String,
    /// A string, or a list of messages.
    input: Value,
    /// Id of the response to continue.
    previous_response_id: Option<String>,
    /// Stream the answer.
    #[schema(nullable = false)]
    stream: Option<bool>,
}

/// An error in OpenAI's form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) struct RefusalBody {
    /// The fields `message`, `type`, `param` and `code`.
    #[schema(value_type = Object)]
    error: Value,
}

/// Error responses.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) enum OpenAiErrorResponses {
    /// The request is invalid or needs an unsupported feature.
    #[response(status = 400)]
    Request(RefusalBody),
    /// The API key is not the server token.
    #[response(status = 401)]
    Key(RefusalBody),
    /// The host or the origin is not allowed.
    #[response(status = 403)]
    Origin(RefusalBody),
    /// The model or the response does not exist.
    #[response(status = 404)]
    NotFound(RefusalBody),
    /// The request body is too large.
    #[response(status = 413)]
    TooLarge(RefusalBody),
    /// There are too many requests, here or at the model provider.
    #[response(status = 429)]
    TooMany(RefusalBody),
    /// The turn failed.
    #[response(status = 500)]
    Failed(RefusalBody),
    /// The model provider failed.
    #[response(status = 502)]
    Provider(RefusalBody),
    /// The server is stopping.
    #[response(status = 503)]
    Unavailable(RefusalBody),
}
