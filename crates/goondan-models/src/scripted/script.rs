//! The format of a script: its types, as in YAML.

use std::collections::BTreeMap;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use goondan_spec::{DurationText, pattern_fault};
use regex::Regex;
use serde::{Deserialize, Deserializer};

/// A script. A reply comes from the agent's list, else from the rules, else it is the default.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelScript {
    /// Replies by agent, or by instance (`agent:key`), in the order of the model calls.
    #[serde(default)]
    pub agents: BTreeMap<String, Vec<ScriptReply>>,
    /// Replies with conditions on the request; the first rule that applies is used.
    #[serde(default)]
    pub rules: Vec<ScriptRule>,
    /// The reply if the list has ended and no rule applies.
    #[serde(default)]
    pub default: Option<ScriptReply>,
}

/// A reply with the condition under which it is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptRule {
    /// Conditions, all of which must hold.
    #[serde(default)]
    pub when: RuleCondition,
    /// The reply.
    pub reply: ScriptReply,
}

/// Conditions on the calling agent and on the last message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleCondition {
    /// The calling agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// The role of the last message.
    #[serde(default)]
    pub role: Option<LastRole>,
    /// A string that the last message's text contains.
    #[serde(default)]
    pub contains: Option<String>,
    /// A regular expression that matches somewhere in the last message's text.
    #[serde(default)]
    pub matches: Option<ScriptPattern>,
}

/// Role of the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LastRole {
    /// The user, or another agent.
    User,
    /// Tools, with their results.
    Tool,
}

/// A regular expression, checked when the script is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct ScriptPattern(Regex);

impl ScriptPattern {
    /// Returns true if the expression matches somewhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for ScriptPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl TryFrom<String> for ScriptPattern {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        let fault = |error| {
            format!(
                "`{pattern}` is not a regular expression: {}.",
                pattern_fault(&error)
            )
        };
        Regex::new(&pattern).map(ScriptPattern).map_err(fault)
    }
}

/// One answer of the scripted model: text, calls or raw calls, both optionally with text, or an
/// error.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptReply {
    /// The text, a template.
    pub text: Option<String>,
    /// Tool calls; every string in their arguments is a template.
    pub calls: Vec<ScriptedCall>,
    /// Tool calls whose arguments are unchanged text, which need not be JSON.
    pub raw_calls: Vec<RawToolCall>,
    /// Reasoning that precedes the text, a template.
    pub reasoning: Option<String>,
    /// The reason why the answer ends. Default: `stop`, or `toolCalls` if there are calls.
    pub finish_reason: Option<ModelFinishReason>,
    /// The error that the provider returns.
    pub error: Option<ReplyError>,
    /// Delay before the answer.
    pub delay: Option<Duration>,
    /// The token counts of the call.
    pub usage: Option<TokenUsage>,
    /// Number of pieces into which the text is cut. Default: pieces of a few words.
    pub chunks: Option<usize>,
    /// Number of pieces after which the stream breaks off.
    pub break_after: Option<usize>,
}

/// A tool call in a script.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedCall {
    /// Id of the tool call; generated if the script has none.
    #[serde(default)]
    pub id: String,
    /// `resource__export`.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub args: JsonObject,
}

/// A tool call with arguments that need not be JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RawToolCall {
    /// Id of the tool call; generated if the script has none.
    #[serde(default)]
    pub id: String,
    /// `resource__export`.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub args: String,
}

/// An error of the provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplyError {
    /// The HTTP status.
    pub status: u16,
    /// The provider's message.
    pub message: String,
    /// The provider's `Retry-After`.
    #[serde(default)]
    pub retry_after: Option<DurationText>,
    /// Older name of `retry_after`, with a number of milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

impl ReplyError {
    /// Returns the delay that the provider asks for. Fails if both names are given.
    pub fn retry_delay(&self) -> Result<Option<Duration>, String> {
        DurationText::one_of(self.retry_after, self.retry_after_ms, "retryAfter")
    }
}

impl ScriptReply {
    /// Creates a reply with only text.
    pub fn text(text: impl Into<String>) -> Self {
        ScriptReply {
            text: Some(text.into()),
            ..ScriptReply::empty()
        }
    }

    /// Creates a reply without content.
    fn empty() -> Self {
        ScriptReply {
            text: None,
            reasoning: None,
            finish_reason: None,
            calls: Vec::new(),
            raw_calls: Vec::new(),
            error: None,
            delay: None,
            usage: None,
            chunks: None,
            break_after: None,
        }
    }
}

impl<'de> Deserialize<'de> for ScriptReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ScriptReply::try_from(ReplyFields::deserialize(deserializer)?)
            .map_err(serde::de::Error::custom)
    }
}

/// The fields of a reply before their combination is checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReplyFields {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    finish_reason: Option<ModelFinishReason>,
    #[serde(default)]
    calls: Option<Vec<ScriptedCall>>,
    #[serde(default)]
    raw_calls: Option<Vec<RawToolCall>>,
    #[serde(default)]
    error: Option<ReplyError>,
    #[serde(default)]
    delay: Option<DurationText>,
    #[serde(default)]
    delay_ms: Option<u64>,
    #[serde(default)]
    usage: Option<UsageFields>,
    #[serde(default)]
    chunks: Option<usize>,
    #[serde(default)]
    break_after: Option<usize>,
}

/// Token counts in a script. The total is computed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UsageFields {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    cached_tokens: u64,
    #[serde(default)]
    cache_write_tokens: u64,
}

impl TryFrom<ReplyFields> for ScriptReply {
    type Error = String;

    fn try_from(fields: ReplyFields) -> Result<Self, Self::Error> {
        match (
            &fields.text,
            &fields.calls,
            &fields.raw_calls,
            &fields.error,
        ) {
            (None, None, None, None) => {
                return Err("a reply needs one of: text, calls, rawCalls, error".to_owned());
            }
            (_, Some(_), Some(_), _) => {
                return Err("a reply can have either calls or rawCalls, not both".to_owned());
            }
            (None, None, None, Some(_)) | (_, _, _, None) => {}
            (_, _, _, Some(_)) => {
                return Err("a reply with an error cannot have text, calls or rawCalls".to_owned());
            }
        }
        let delay = DurationText::one_of(fields.delay, fields.delay_ms, "delay")?;
        if let Some(error) = &fields.error {
            error.retry_delay()?;
        }
        Ok(ScriptReply {
            text: fields.text,
            reasoning: fields.reasoning,
            finish_reason: fields.finish_reason,
            calls: fields.calls.unwrap_or_default(),
            raw_calls: fields.raw_calls.unwrap_or_default(),
            error: fields.error,
            delay,
            usage: fields.usage.map(TokenUsage::from),
            chunks: fields.chunks,
            break_after: fields.break_after,
        })
    }
}

impl From<UsageFields> for TokenUsage {
    fn from(fields: UsageFields) -> Self {
        TokenUsage {
            prompt_tokens: fields.prompt_tokens,
            completion_tokens: fields.completion_tokens,
            total_tokens: fields
                .prompt_tokens
                .saturating_add(fields.completion_tokens),
            cached_tokens: fields.cached_tokens,
            cache_write_tokens: fields.cache_write_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<ModelScript, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_scripted_reply_has_text_or_calls_or_an_error() {
        let refused = [
            (
                json!({}),
                "a reply needs one of: text, calls, rawCalls, error",
            ),
            (
                json!({"delayMs": 5}),
                "a reply needs one of: text, calls, rawCalls, error",
            ),
            (
                json!({"calls": [], "rawCalls": []}),
                "a reply can have either calls or rawCalls, not both",
            ),
            (
                json!({"text": "a", "error": {"status": 500, "message": "b"}}),
                "a reply with an error cannot have text, calls or rawCalls",
            ),
        ];
        for (reply, message) in refused {
            assert_eq!(
                serde_json::from_value::<ScriptReply>(reply)
                    .unwrap_err()
                    .to_string(),
                message
            );
        }
    }

    #[test]
    fn a_scripted_reply_may_combine_text_and_calls() {
        let reply: ScriptReply = serde_json::from_value(json!({
            "text": "let me look", "calls": [{"id": "c1", "tool": "a__b", "args": {"x": 1}}],
            "usage": {"promptTokens": 3, "completionTokens": 4},
        }))
        .unwrap();
        assert_eq!(reply.calls[0].tool, "a__b");
        assert_eq!(reply.usage.unwrap().total_tokens, 7);
    }

    #[test]
    fn script_errors_contain_unknown_fields_and_invalid_patterns() {
        assert!(
            read(json!({"agent": {}}))
                .unwrap_err()
                .contains("unknown field `agent`")
        );
        assert!(
            read(json!({"default": {"txt": "a"}}))
                .unwrap_err()
                .contains("unknown field `txt`")
        );
        let bad = json!({"rules": [{"when": {"matches": "("}, "reply": {"text": "a"}}]});
        assert!(read(bad).unwrap_err().contains("unclosed group"));
    }
}
