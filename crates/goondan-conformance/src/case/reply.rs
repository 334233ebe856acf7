//! Schema of a scripted reply. The scripted model client parses replies itself.

use goondan::spec::DurationText;
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// A scripted reply: text, calls (with or without text), rawCalls (likewise), or an error. Text and
/// strings in `args` are templates with `{{ input }}` and `{{ results.CALL_ID.output }}`.
#[derive(JsonSchema)]
#[schemars(rename = "Reply", rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "only used to derive the schema")]
pub(super) struct ReplyShape {
    /// Text of the answer.
    text: Option<String>,
    /// Reasoning that precedes the text.
    reasoning: Option<String>,
    /// The reason why the answer ends. Default: `stop`, or `toolCalls` if there are calls.
    finish_reason: Option<FinishReasonShape>,
    /// Tool calls.
    calls: Option<Vec<CallShape>>,
    /// Tool calls with unparsed arguments, which may be invalid JSON.
    raw_calls: Option<Vec<RawCallShape>>,
    /// Error of the provider.
    error: Option<ReplyErrorShape>,
    /// Delay of the answer. Default: none.
    delay: Option<DurationText>,
    /// Older name of `delay`, with a number of milliseconds.
    #[schemars(extend("deprecated" = true))]
    delay_ms: Option<u64>,
    /// Token usage of the call.
    usage: Option<UsageShape>,
    /// Number of chunks in which the text is streamed.
    chunks: Option<usize>,
    /// Number of chunks after which the stream breaks.
    break_after: Option<usize>,
}

/// The reason why an answer ends.
#[derive(JsonSchema)]
#[schemars(rename = "ModelFinishReason", rename_all = "camelCase")]
#[allow(dead_code, reason = "only used to derive the schema")]
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
#[allow(dead_code, reason = "only used to derive the schema")]
struct CallShape {
    /// Call id. Default: a generated id.
    #[schemars(default)]
    id: String,
    /// Tool name, as `resource__export`.
    tool: String,
    /// Arguments.
    #[schemars(default)]
    args: Map<String, Value>,
}

/// A tool call with arguments that may be invalid JSON.
#[derive(JsonSchema)]
#[schemars(rename = "RawCall", deny_unknown_fields)]
#[allow(dead_code, reason = "only used to derive the schema")]
struct RawCallShape {
    /// Call id. Default: a generated id.
    #[schemars(default)]
    id: String,
    /// Tool name, as `resource__export`.
    tool: String,
    /// Arguments, exactly as the model wrote them.
    args: String,
}

/// Error of a provider.
#[derive(JsonSchema)]
#[schemars(rename = "ReplyError", rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "only used to derive the schema")]
struct ReplyErrorShape {
    /// HTTP status.
    status: u16,
    /// Message of the provider.
    message: String,
    /// Requested delay before a retry.
    retry_after: Option<DurationText>,
    /// Older name of `retryAfter`, with a number of milliseconds.
    #[schemars(extend("deprecated" = true))]
    retry_after_ms: Option<u64>,
}

/// Token usage of a call.
#[derive(JsonSchema)]
#[schemars(rename = "Usage", rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "only used to derive the schema")]
struct UsageShape {
    /// Input tokens.
    #[schemars(default)]
    prompt_tokens: u64,
    /// Output tokens.
    #[schemars(default)]
    completion_tokens: u64,
    /// Input tokens that came from the provider's cache.
    #[schemars(default)]
    cached_tokens: u64,
    /// Input tokens that the provider wrote to its cache.
    #[schemars(default)]
    cache_write_tokens: u64,
}
