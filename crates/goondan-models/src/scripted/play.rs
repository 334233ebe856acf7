//! Turns a reply into a stream of chunks.

use std::collections::HashSet;

use futures::StreamExt;
use goondan_core::message::{MessagePart, ToolCall};
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelError, ModelErrorKind, ModelRequest, ModelStream,
};
use serde_json::Value;

use super::script::{ReplyError, ScriptReply};
use super::template::ReplyContext;
use crate::errors::connection_error;

/// Default size of a piece of streamed text, in bytes. A piece ends at the first word end after it.
const MAX_PIECE_BYTES: usize = 16;

/// Converts `reply` to a stream. With `renumbers_ids`, appends a number to call ids that the
/// conversation already contains.
///
/// # Errors
/// Fails with the error in the reply, with the refusal of a declined answer, or if a template
/// cannot be rendered.
pub(crate) async fn play_reply(
    reply: &ScriptReply,
    context: &ReplyContext<'_>,
    request: &ModelRequest,
    renumbers_ids: bool,
) -> Result<ModelStream, ModelError> {
    // Rendered before the delay, but the error in the reply has precedence over its failure.
    let rendered_answer = render_answer(reply, context, request, renumbers_ids);
    if let Some(delay) = reply.delay {
        tokio::time::sleep(delay).await;
    }
    if let Some(error) = &reply.error {
        return Err(status_error(error));
    }
    let answer = rendered_answer?;
    if let Some(error) = declined_error(&answer) {
        return Err(error);
    }
    let mut items: Vec<_> = split_deltas(&answer, reply.chunks)
        .into_iter()
        .map(Ok)
        .collect();
    match reply.break_after {
        Some(count) => {
            items.truncate(count);
            items.push(Err(connection_error(
                "the stream broke off (`breakAfter` in the script)",
            )));
        }
        None => items.push(Ok(ModelChunk::Finish(Box::new(answer)))),
    }
    Ok(futures::stream::iter(items).boxed())
}

/// Returns the error of a reply with an HTTP status.
fn status_error(error: &ReplyError) -> ModelError {
    let kind = match error.status {
        400 | 413 if ModelError::is_overflow_message(&error.message) => {
            ModelErrorKind::ContextOverflow(error.status)
        }
        status => ModelErrorKind::Status(status),
    };
    let mut refusal = ModelError::new(kind, format!("{} {}", error.status, error.message));
    refusal.retry_after = error.retry_delay().ok().flatten();
    refusal
}

/// Renders the templates of `reply` and returns the complete answer.
fn render_answer(
    reply: &ScriptReply,
    context: &ReplyContext<'_>,
    request: &ModelRequest,
    renumbers_ids: bool,
) -> Result<CompletedAnswer, ModelError> {
    let template = |template: &Option<String>| -> Result<Option<String>, ModelError> {
        let text = template
            .as_deref()
            .map(|template| context.text(template))
            .transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    };
    let mut parts: Vec<MessagePart> = template(&reply.reasoning)?
        .map(MessagePart::reasoning)
        .into_iter()
        .collect();
    parts.extend(template(&reply.text)?.map(MessagePart::text));
    let mut ids = CallIdSource::new(request, renumbers_ids);
    for call in &reply.calls {
        let arguments = Value::Object(context.render_arguments(&call.args)?);
        parts.push(MessagePart::ToolCall(ToolCall::new(
            ids.pick_id(&call.id),
            &call.tool,
            arguments,
        )));
    }
    for call in &reply.raw_calls {
        let arguments =
            serde_json::from_str(&call.args).unwrap_or_else(|_| Value::String(call.args.clone()));
        parts.push(MessagePart::ToolCall(ToolCall::new(
            ids.pick_id(&call.id),
            &call.tool,
            arguments,
        )));
    }
    let mut answer = CompletedAnswer::of_parts(parts, reply.usage);
    if let Some(reason) = &reply.finish_reason {
        answer.finish_reason = reason.clone();
    }
    Ok(answer)
}

/// Returns the error of an answer that a script ends with `refusal` or `contentFilter`. Its text is the refusal.
fn declined_error(answer: &CompletedAnswer) -> Option<ModelError> {
    let reason = answer.finish_reason.as_str();
    if !matches!(reason, "refusal" | "contentFilter") {
        return None;
    }
    let words: String = answer
        .parts
        .iter()
        .filter_map(MessagePart::as_text)
        .collect();
    let message = format!("The model declined to answer ({reason}): {words}");
    Some(ModelError::new(ModelErrorKind::Declined, message))
}

/// Returns the pieces in which the reasoning and the text of `answer` arrive.
fn split_deltas(answer: &CompletedAnswer, count: Option<usize>) -> Vec<ModelChunk> {
    let cut = |text| count.map_or_else(|| words(text), |count| even_pieces(text, count));
    let mut chunks = Vec::new();
    for part in &answer.parts {
        match part {
            MessagePart::Reasoning { text, .. } => {
                chunks.extend(
                    cut(text)
                        .into_iter()
                        .map(|piece| ModelChunk::Reasoning(piece.to_owned())),
                );
            }
            MessagePart::Text { text, .. } => {
                chunks.extend(
                    cut(text)
                        .into_iter()
                        .map(|piece| ModelChunk::Text(piece.to_owned())),
                );
            }
            _ => {}
        }
    }
    chunks
}

/// Assigns call ids. Replies of lists keep their ids; a rule that applies repeatedly needs a new id
/// each time.
struct CallIdSource<'a> {
    request: &'a ModelRequest,
    /// Ids in this answer so far.
    given: Vec<String>,
    renumbers_ids: bool,
}

impl<'a> CallIdSource<'a> {
    fn new(request: &'a ModelRequest, renumbers_ids: bool) -> Self {
        CallIdSource {
            request,
            given: Vec::new(),
            renumbers_ids,
        }
    }

    /// Returns the ids in the conversation and in this answer.
    fn used_ids(&self) -> impl Iterator<Item = &str> {
        let calls = self
            .request
            .messages
            .iter()
            .flat_map(|message| message.tool_calls());
        calls
            .map(|call| call.tool_call_id.as_str())
            .chain(self.given.iter().map(String::as_str))
    }

    /// Returns the id for a call whose script has the id `scripted`, which may be empty.
    fn pick_id(&mut self, scripted: &str) -> String {
        let stem = if scripted.is_empty() {
            "call"
        } else {
            scripted
        };
        let keep = !scripted.is_empty()
            && (!self.renumbers_ids || self.used_ids().all(|id| id != scripted));
        let id = if keep {
            scripted.to_owned()
        } else {
            self.unused_id(stem)
        };
        self.given.push(id.clone());
        id
    }

    /// Returns `stem` with the first unused number appended. `stem` itself counts as number 1.
    fn unused_id(&self, stem: &str) -> String {
        let number_of = |id: &str| match id.strip_prefix(stem)? {
            "" => Some(1),
            rest => rest.strip_prefix('-')?.parse::<usize>().ok(),
        };
        let used_numbers: HashSet<usize> = self.used_ids().filter_map(number_of).collect();
        let free_number = (1..)
            .find(|number| !used_numbers.contains(number))
            .expect("numbers do not run out");
        format!("{stem}-{free_number}")
    }
}

/// Cuts `text` after words, so that it arrives in pieces.
fn words(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if character.is_whitespace() && end - start >= MAX_PIECE_BYTES {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// Cuts `text` into at most `count` pieces with about the same number of characters.
fn even_pieces(text: &str, count: usize) -> Vec<&str> {
    let length = text.chars().count();
    let count = count.clamp(1, length.max(1));
    let starts: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    let edge = |piece: usize| starts[piece * length / count];
    (0..count)
        .map(|piece| &text[edge(piece)..edge(piece + 1)])
        .filter(|piece| !piece.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_into_chunks_without_loss() {
        let text = "Früher war alles ein wenig länger und ein wenig schöner.";
        assert_eq!(words(text).concat(), text);
        assert!(words(text).len() > 2);
        for count in [0, 1, 3, 7, 1000] {
            let pieces = even_pieces(text, count);
            assert_eq!(pieces.concat(), text);
            assert_eq!(pieces.len(), count.clamp(1, text.chars().count()));
        }
        assert!(words("").is_empty() && even_pieces("", 3).is_empty());
    }
}
