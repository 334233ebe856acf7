//! One event of an answer, as servers send it.

use goondan_core::ports::model::TokenUsage;
use serde::Deserialize;
use serde_json::Value;

/// What an event holds, as far as it matters here.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Chunk {
    pub(crate) choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    x_groq: Option<Groq>,
    /// Why the answer ends here; its shape is the server's.
    pub(crate) error: Option<Value>,
}

/// One of the answers; we ask for one only.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Choice {
    pub(crate) delta: Option<Delta>,
    pub(crate) finish_reason: Option<String>,
}

/// What is new.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Delta {
    pub(crate) content: Option<String>,
    pub(crate) reasoning_content: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) tool_calls: Option<Vec<CallPiece>>,
}

/// A piece of a tool call.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CallPiece {
    pub(crate) index: Option<u32>,
    pub(crate) id: Option<String>,
    pub(crate) function: Option<FunctionPiece>,
}

/// What is called, and with what.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FunctionPiece {
    pub(crate) name: Option<String>,
    pub(crate) arguments: Option<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<i64>,
    completion_tokens: Option<i64>,
    total_tokens: Option<i64>,
    completion_tokens_details: Option<Details>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's word for the tokens that it had in its cache.
    prompt_cache_hit_tokens: Option<i64>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<i64>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Details {
    reasoning_tokens: Option<i64>,
}

/// Where Groq puts what an answer cost.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Groq {
    usage: Option<Usage>,
}

impl Chunk {
    /// Reads the data of an event. JSON of another shape is read as far as it goes: what is not where it belongs counts as not
    /// being there. An error means that it is no JSON.
    pub(crate) fn read(data: &str) -> Result<Self, serde_json::Error> {
        match serde_json::from_str(data) {
            Err(error) if error.is_data() => Ok(lenient::chunk(&serde_json::from_str(data)?)),
            read => read,
        }
    }

    /// What the answer cost, where this event says so. Some servers leave reasoning out of what was written; `xai` is one.
    pub(crate) fn usage(&self, leaves_reasoning_out: bool) -> Option<TokenUsage> {
        let groq = self.x_groq.as_ref().and_then(|groq| groq.usage.as_ref());
        let usage = self.usage.as_ref().or(groq)?;
        let count = |tokens: Option<i64>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
        let (prompt, mut completion) = (count(usage.prompt_tokens), count(usage.completion_tokens));
        if leaves_reasoning_out {
            let reasoning = usage
                .completion_tokens_details
                .as_ref()
                .and_then(|details| count(details.reasoning_tokens));
            completion = reasoning
                .map(|reasoning| completion.unwrap_or(0).saturating_add(reasoning))
                .or(completion);
        }
        let total = count(usage.total_tokens);
        if prompt.is_none() && completion.is_none() && total.is_none() {
            return None;
        }
        let (prompt_tokens, completion_tokens) = (prompt.unwrap_or(0), completion.unwrap_or(0));
        let total_tokens = total.unwrap_or(prompt_tokens.saturating_add(completion_tokens));
        let cached_tokens = usage
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| count(details.cached_tokens));
        let cached_tokens = cached_tokens
            .or(count(usage.prompt_cache_hit_tokens))
            .unwrap_or(0);
        Some(TokenUsage {
            prompt_tokens,
            completion_tokens,
            total_tokens,
            cached_tokens,
        })
    }
}

/// For JSON that is not in the usual shape.
mod lenient {
    use super::*;

    pub(super) fn chunk(value: &Value) -> Chunk {
        Chunk {
            choices: value
                .get("choices")
                .and_then(|choices| choices.get(0))
                .map(|first| vec![choice(first)]),
            usage: value.get("usage").map(usage),
            x_groq: value.pointer("/x_groq/usage").map(|value| Groq {
                usage: Some(usage(value)),
            }),
            error: value.get("error").filter(|error| !error.is_null()).cloned(),
        }
    }

    fn choice(value: &Value) -> Choice {
        let delta = value
            .get("delta")
            .filter(|delta| delta.is_object())
            .map(|delta| {
                let (content, thoughts) = content(&delta["content"]);
                let calls = delta.get("tool_calls").and_then(Value::as_array);
                Delta {
                    content,
                    reasoning_content: thoughts.or_else(|| text(delta, "reasoning_content")),
                    reasoning: text(delta, "reasoning"),
                    tool_calls: calls.map(|calls| calls.iter().map(call).collect()),
                }
            });
        Choice {
            delta,
            finish_reason: text(value, "finish_reason"),
        }
    }

    /// Text and thoughts: Mistral sends a list of both.
    fn content(value: &Value) -> (Option<String>, Option<String>) {
        if let Value::String(text) = value {
            return (Some(text.clone()), None);
        }
        let parts = || value.as_array().into_iter().flatten();
        let of_type = |wanted: &'static str| parts().filter(move |part| part["type"] == wanted);
        let said: String = of_type("text")
            .filter_map(|part| part["text"].as_str())
            .collect();
        let inner = |part: &Value| -> String {
            let inner = part["thinking"].as_array().into_iter().flatten();
            inner
                .filter_map(|part| part["text"].as_str())
                .chain(part["thinking"].as_str())
                .collect()
        };
        let thought: String = of_type("thinking").map(inner).collect();
        let some = |text: String| (!text.is_empty()).then_some(text);
        (some(said), some(thought))
    }

    fn call(value: &Value) -> CallPiece {
        let function = value
            .get("function")
            .filter(|function| function.is_object());
        CallPiece {
            index: value["index"]
                .as_u64()
                .and_then(|index| index.try_into().ok()),
            id: text(value, "id"),
            function: function.map(|function| FunctionPiece {
                name: text(function, "name"),
                arguments: text(function, "arguments").or_else(|| written(&function["arguments"])),
            }),
        }
    }

    /// Arguments that were sent as JSON and not as a text that holds JSON.
    fn written(arguments: &Value) -> Option<String> {
        arguments.is_object().then(|| arguments.to_string())
    }

    fn usage(value: &Value) -> Usage {
        let reasoning_tokens = value
            .pointer("/completion_tokens_details/reasoning_tokens")
            .and_then(Value::as_i64);
        let cached_tokens = value
            .pointer("/prompt_tokens_details/cached_tokens")
            .and_then(Value::as_i64);
        Usage {
            prompt_tokens: value["prompt_tokens"].as_i64(),
            completion_tokens: value["completion_tokens"].as_i64(),
            total_tokens: value["total_tokens"].as_i64(),
            completion_tokens_details: Some(Details { reasoning_tokens }),
            prompt_tokens_details: Some(PromptDetails { cached_tokens }),
            prompt_cache_hit_tokens: value["prompt_cache_hit_tokens"].as_i64(),
        }
    }

    fn text(value: &Value, key: &str) -> Option<String> {
        value
            .get(key)
            .and_then(Value::as_str)
            .map(|text| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(data: &str) -> Option<String> {
        let chunk = Chunk::read(data).expect("JSON");
        let delta = chunk.choices?.into_iter().next()?.delta?;
        delta.content
    }

    #[test]
    fn odd_shapes_are_read_as_far_as_they_go() {
        assert_eq!(
            said(r#"{"choices":[{"delta":{"content":"a\n"},"finish_reason":null}],"usage":null}"#)
                .as_deref(),
            Some("a\n")
        );
        assert_eq!(
            said(r#"{"choices":[{"delta":{"content":"a","tool_calls":{}}}],"usage":"none"}"#)
                .as_deref(),
            Some("a")
        );
        let mixed = r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},
            {"type":"text","text":"a"}]}}]}"#;
        assert_eq!(said(mixed).as_deref(), Some("a"));
        for none in [
            "[1,2]",
            "3",
            r#"{"choices":"x"}"#,
            r#"{"choices":[7]}"#,
            r#"{"choices":[{"delta":3}]}"#,
            "{}",
        ] {
            assert_eq!(said(none), None, "{none}");
        }
        assert!(Chunk::read("{\"choices\": [").is_err_and(|error| error.is_eof()));
    }

    #[test]
    fn what_it_cost_is_found_wherever_it_stands() {
        let cost = |data: &str, xai| {
            Chunk::read(data).expect("JSON").usage(xai).map(|usage| {
                (
                    usage.prompt_tokens,
                    usage.completion_tokens,
                    usage.total_tokens,
                )
            })
        };
        assert_eq!(
            cost(
                r#"{"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
                false
            ),
            Some((1, 2, 3))
        );
        assert_eq!(
            cost(
                r#"{"x_groq":{"usage":{"prompt_tokens":1,"total_tokens":4}}}"#,
                false
            ),
            Some((1, 0, 4))
        );
        assert_eq!(
            cost(
                r#"{"usage":{"prompt_tokens":-1,"completion_tokens":1e300}}"#,
                false
            ),
            None
        );
        let thinking = r#"{"usage":{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":5}}}"#;
        assert_eq!(
            (cost(thinking, false), cost(thinking, true)),
            (Some((0, 2, 2)), Some((0, 7, 7)))
        );
    }
}
