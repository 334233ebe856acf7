//! The shape of a scripted reply, for the schema alone: the model that plays it also reads it.

use schemars::JsonSchema;
use serde_json::{Map, Value};

/// A scripted reply: text, calls (with or without text), rawCalls (likewise), or an error. Texts and the strings in
/// `args` are templates that can use `{{ input }}` and `{{ results.CALL_ID.output }}`.
#[derive(JsonSchema)]
#[schemars(rename = "Reply", rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
pub(super) struct ReplyShape {
    /// The text.
    text: Option<String>,
    /// Reasoning that precedes the text.
    reasoning: Option<String>,
    /// The reason why the answer ends. Default: `stop`, or `toolCalls` if there are calls.
    finish_reason: Option<FinishReasonShape>,
    /// Tool calls.
    calls: Option<Vec<CallShape>>,
    /// Tool calls whose arguments are sent as they stand, also where they are no JSON.
    raw_calls: Option<Vec<RawCallShape>>,
    /// The provider refuses.
    error: Option<ErrorShape>,
    /// How long the model thinks before it answers, in milliseconds.
    #[schemars(default)]
    delay_ms: u64,
    /// What the call cost.
    usage: Option<UsageShape>,
    /// Into how many pieces the text is cut.
    chunks: Option<usize>,
    /// After how many pieces the stream breaks off.
    break_after: Option<usize>,
}

/// The reason why an answer ends.
#[derive(JsonSchema)]
#[schemars(rename = "ModelFinishReason", rename_all = "camelCase")]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
enum FinishReasonShape {
    /// The model was done.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The answer reached the limit of output tokens.
    Length,
    /// The conversation and the answer together reached the context window.
    ContextWindow,
    /// The provider paused a long answer; the next model call continues it.
    Pause,
    /// A reason that only the provider's documentation explains.
    Other(String),
}

/// A tool call.
#[derive(JsonSchema)]
#[schemars(rename = "ScriptedCall", deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
struct CallShape {
    /// Its id; one is made up where it is missing.
    #[schemars(default)]
    id: String,
    /// `resource__export`.
    tool: String,
    /// The arguments.
    #[schemars(default)]
    args: Map<String, Value>,
}

/// A tool call with arguments that need not be JSON.
#[derive(JsonSchema)]
#[schemars(rename = "RawCall", deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
struct RawCallShape {
    /// Its id; one is made up where it is missing.
    #[schemars(default)]
    id: String,
    /// `resource__export`.
    tool: String,
    /// The arguments as the model wrote them.
    args: String,
}

/// How a provider refuses.
#[derive(JsonSchema)]
#[schemars(rename = "ReplyError", rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
struct ErrorShape {
    /// The HTTP status.
    status: u16,
    /// The provider's words.
    message: String,
    /// How long the provider wants to be left alone, in milliseconds.
    retry_after_ms: Option<u64>,
}

/// Tokens that a call cost.
#[derive(JsonSchema)]
#[schemars(rename = "Usage", rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
struct UsageShape {
    /// Read.
    #[schemars(default)]
    prompt_tokens: u64,
    /// Written.
    #[schemars(default)]
    completion_tokens: u64,
    /// Those of the tokens read that came from the provider's cache.
    #[schemars(default)]
    cached_tokens: u64,
    /// Input tokens that the provider wrote to its cache.
    #[schemars(default)]
    cache_write_tokens: u64,
}
