//! Tool calls and reasoning that local models write as text (decision M4).
//!
//! | style | example |
//! |---|---|
//! | Hermes, Qwen | `<tool_call>{"name": "a__b", "arguments": {}}</tool_call>` |
//! | Qwen coder | `<function=a__b><parameter=key>value</parameter></function>` |
//! | Claude, MiniMax | `<invoke name="a__b"><parameter name="key">value</parameter></invoke>` |
//! | Mistral | `[TOOL_CALLS]a__b[ARGS]{}` or `[TOOL_CALLS][{"name": "a__b", "arguments": {}}]` |
//! | Llama | `<\|python_tag\|>{"name": "a__b", "parameters": {}}` |
//! | reasoning | `<think>…</think>` at the beginning |
//!
//! Only tools of the request count. Everything else stays text, and so does everything in a Markdown code block.

mod blocks;
mod code;
mod cursor;
mod filter;
mod opening;
mod thinking;
mod values;

#[cfg(test)]
mod tests;

use goondan_core::message::{MessagePart, ProviderMetadata, ToolCall};
use goondan_core::ports::model::{CompletedAnswer, ModelFinishReason, ToolDefinition};
use memchr::memchr2;
use serde_json::Value;

use super::call_ids::CallIds;
use code::CodePosition;
use opening::OpeningMatch;

pub(crate) use filter::TextCallFilter;

/// Limit on beginnings of calls that turn out to be text, which bounds the time for one answer.
const MAX_FALSE_OPENINGS: usize = 100;

/// A call that was found in text.
#[derive(Debug, Clone, PartialEq)]
struct TextCall {
    name: String,
    arguments: Value,
}

/// A piece of a text with calls.
#[derive(Debug, Clone, PartialEq)]
enum TextPiece<'t> {
    Text(&'t str),
    Call(TextCall),
}

/// Returns `answer` with the calls and the reasoning that are in its text. An answer with structured calls only loses
/// its reasoning from the text.
pub(crate) fn extract_calls(
    mut answer: CompletedAnswer,
    tools: &[ToolDefinition],
    ids: &mut CallIds<'_>,
) -> CompletedAnswer {
    answer.parts = thinking::separate_reasoning(answer.parts);
    if has_structured_calls(&answer) {
        return answer;
    }
    let parts = std::mem::take(&mut answer.parts);
    answer.parts = parts
        .into_iter()
        .flat_map(|part| with_calls(part, tools, ids))
        .collect();
    if answer.finish_reason == ModelFinishReason::Stop && has_structured_calls(&answer) {
        answer.finish_reason = ModelFinishReason::ToolCalls;
    }
    answer
}

/// Returns true if a part of the answer is a tool call. A call in a text does not count.
fn has_structured_calls(answer: &CompletedAnswer) -> bool {
    answer
        .parts
        .iter()
        .any(|part| matches!(part, MessagePart::ToolCall(_)))
}

/// Splits a text part into text and the calls of `tools` in it. Other parts are unchanged.
fn with_calls(
    part: MessagePart,
    tools: &[ToolDefinition],
    ids: &mut CallIds<'_>,
) -> Vec<MessagePart> {
    let MessagePart::Text {
        text,
        provider_metadata,
    } = part
    else {
        return vec![part];
    };
    let pieces = split_pieces(&text, tools);
    if !pieces
        .iter()
        .any(|piece| matches!(piece, TextPiece::Call(_)))
    {
        return vec![MessagePart::Text {
            text,
            provider_metadata,
        }];
    }
    let mut metadata = Some(provider_metadata);
    let part = |piece| match piece {
        TextPiece::Text(text) => MessagePart::Text {
            text: text.to_owned(),
            provider_metadata: metadata.take().unwrap_or_default(),
        },
        TextPiece::Call(call) => MessagePart::ToolCall(ToolCall {
            tool_call_id: ids.unique_id(""),
            tool_name: call.name,
            input: call.arguments,
            provider_metadata: ProviderMetadata::new(),
        }),
    };
    pieces.into_iter().map(part).collect()
}

/// Splits `text` into text and calls. Omits white space before a call and blank text after a call.
fn split_pieces<'t>(text: &'t str, tools: &[ToolDefinition]) -> Vec<TextPiece<'t>> {
    let mut pieces = Vec::new();
    let mut code = CodePosition::default();
    let mut begin = 0;
    let mut at = 0;
    let mut false_openings = 0;
    while let Some(found) = memchr2(b'<', b'[', &text.as_bytes()[at..]) {
        let start = at + found;
        code.advance(&text[at..start]);
        let is_opening =
            !code.is_inside() && opening::match_opening(&text[start..], tools) == OpeningMatch::Yes;
        match is_opening
            .then(|| blocks::calls_at(&text[start..], tools))
            .flatten()
        {
            Some((calls, length)) => {
                push_text(&mut pieces, text[begin..start].trim_end());
                pieces.extend(calls.into_iter().map(TextPiece::Call));
                code.leave_line_start();
                (begin, at) = (start + length, start + length);
            }
            None => {
                code.leave_line_start();
                at = start + 1;
                false_openings += usize::from(is_opening);
                if false_openings == MAX_FALSE_OPENINGS {
                    break;
                }
            }
        }
    }
    push_text(&mut pieces, &text[begin..]);
    pieces
}

/// Appends `text`, unless it is blank.
fn push_text<'t>(pieces: &mut Vec<TextPiece<'t>>, text: &'t str) {
    if !text.trim().is_empty() {
        pieces.push(TextPiece::Text(text));
    }
}
