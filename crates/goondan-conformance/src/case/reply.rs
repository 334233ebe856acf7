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
}
