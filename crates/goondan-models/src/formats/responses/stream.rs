//! Decodes streamed answers in OpenAI's responses format.

use goondan_core::JsonObject;
use goondan_core::json_text;
use goondan_core::ports::model::TokenUsage;
use serde_json::{Value, json};

use super::items::{ItemKind, ItemName, ItemTable};
use crate::answer::AnswerBuilder;
use crate::errors::{ProviderError, ReportedError, find_error, read_error_body};
use crate::formats::finish::ending_of;
use crate::formats::tool_calls::CallPiece;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};

/// Data of the last event of some servers.
const DONE: &str = "[DONE]";

/// Text between the parts of a reasoning summary.
const PART_SEPARATOR: &str = "\n\n";

/// Error code of a content filter.
const FILTER_CODE: &str = "content_filter";

/// Decoder of one answer.
#[derive(Default)]
pub(super) struct ResponsesDecoder {
    items: ItemTable,
}

impl StreamDecoder for ResponsesDecoder {
    fn decode(
        &mut self,
        event: WireEvent<'_>,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError> {
        if event.data == DONE {
            return Ok(AnswerProgress::Done);
        }
        let data: Value = json_text::parse(event.data)?;
        if event.name == Some("error") {
            return Err(reported_failure(read_error_body(&data)));
        }
        let kind = data["type"].as_str().or(event.name).unwrap_or_default();
        match kind.strip_prefix("response.").unwrap_or(kind) {
            "error" => return Err(reported_failure(read_error_body(&data))),
            "output_item.added" => self.begin_item(&data, answer),
            "output_item.done" => {
                let item = &data["item"];
                let kind = ItemKind::from_item(item);
                let item_index = self.items.item_of_event(kind, ItemName::from_event(&data));
                self.complete_item(item_index, kind, item, answer);
            }
            "output_text.delta" => self.add_text(&data, text(&data["delta"]), false, answer),
            "output_text.done" => self.add_text(&data, text(&data["text"]), true, answer),
            "content_part.done" if data["part"]["type"] == "output_text" => {
                self.add_text(&data, text(&data["part"]["text"]), true, answer);
            }
            "refusal.delta" => self.add_refusal(&data, text(&data["delta"]), false, answer),
            "refusal.done" => self.add_refusal(&data, text(&data["refusal"]), true, answer),
            "reasoning_summary_text.delta" | "reasoning_text.delta" | "reasoning.delta" => {
                self.add_reasoning(&data, answer);
            }
            "function_call_arguments.delta" => {
                self.add_arguments(&data, &arguments_text(&data["delta"]), false, answer);
            }
            "function_call_arguments.done" => {
                self.add_arguments(&data, &arguments_text(&data["arguments"]), true, answer);
            }
            end @ ("completed" | "done" | "incomplete" | "failed" | "cancelled") => {
                return self.end(end, &data, answer);
            }
            _ if data["object"] == "response" => return self.end("completed", &data, answer),
            _ if data.get("type").is_none() => {
                return find_error(&data).map_or(Ok(AnswerProgress::More), |error| {
                    Err(reported_failure(error))
                });
            }
            _ => {}
        }
        Ok(AnswerProgress::More)
    }
}

impl ResponsesDecoder {
    /// Begins the output item of `event`.
    fn begin_item(&mut self, event: &Value, answer: &mut AnswerBuilder) {
        let item = &event["item"];
        let kind = ItemKind::from_item(item);
        let item_index = self.items.begin(kind, ItemName::from_event(event));
        match kind {
            ItemKind::Reasoning => answer.add_reasoning(self.items.get(item_index).key, ""),
            ItemKind::Call => self.add_call_piece(item_index, text(&item["name"]), "", answer),
            ItemKind::Message | ItemKind::Other => {}
        }
    }

    /// Adds the text of an event. If `is_whole`, `text` is the complete text, and only the part
    /// that did not already arrive in pieces is added.
    fn add_text(&mut self, event: &Value, text: &str, is_whole: bool, answer: &mut AnswerBuilder) {
        let item_index = self
            .items
            .item_of_event(ItemKind::Message, ItemName::from_event(event));
        let item = self.items.get(item_index);
        let text = if is_whole {
            item.unstreamed_rest(text)
        } else {
            text
        };
        answer.add_text(item.key, text);
        item.streamed.push_str(text);
    }

    /// Adds the words with which the model refuses. If `is_whole`, `words` is the complete text,
    /// which is ignored if pieces of it arrived.
    fn add_refusal(
        &mut self,
        event: &Value,
        words: &str,
        is_whole: bool,
        answer: &mut AnswerBuilder,
    ) {
        let item_index = self
            .items
            .item_of_event(ItemKind::Message, ItemName::from_event(event));
        let item = self.items.get(item_index);
        if !(is_whole && item.has_refusal) {
            answer.add_refusal(words);
        }
        item.has_refusal = true;
    }

    /// Adds a piece of reasoning. A separator precedes each further part.
    fn add_reasoning(&mut self, event: &Value, answer: &mut AnswerBuilder) {
        let item_index = self
            .items
            .item_of_event(ItemKind::Reasoning, ItemName::from_event(event));
        let item = self.items.get(item_index);
        let part = [&event["summary_index"], &event["content_index"]];
        let part = part.into_iter().find_map(Value::as_u64);
        let is_next = !item.streamed.is_empty() && part.is_some() && part != item.part;
        item.part = part.or(item.part);
        for text in [
            if is_next { PART_SEPARATOR } else { "" },
            text(&event["delta"]),
        ] {
            answer.add_reasoning(item.key, text);
            item.streamed.push_str(text);
        }
    }

    /// Adds the arguments of a call. If `is_whole`, only the part that did not already arrive in
    /// pieces is added.
    fn add_arguments(
        &mut self,
        event: &Value,
        arguments: &str,
        is_whole: bool,
        answer: &mut AnswerBuilder,
    ) {
        let item_index = self
            .items
            .item_of_event(ItemKind::Call, ItemName::from_event(event));
        let item = self.items.get(item_index);
        let arguments = if is_whole {
            item.unstreamed_rest(arguments)
        } else {
            arguments
        };
        self.add_call_piece(item_index, text(&event["name"]), arguments, answer);
    }

    /// Adds a piece to the call at `at`. Its name counts once, because a second name would begin
    /// another call.
    fn add_call_piece(
        &mut self,
        at: usize,
        name: &str,
        arguments: &str,
        answer: &mut AnswerBuilder,
    ) {
        let item = self.items.get(at);
        let name = Some(name).filter(|name| !name.is_empty() && !item.has_name);
        item.has_name |= name.is_some();
        item.streamed.push_str(arguments);
        let piece = CallPiece {
            index: Some(item.key),
            id: Some(&item.call_id),
            name,
            arguments: Some(arguments),
        };
        item.position = answer.add_call_piece(piece).or(item.position);
    }

    /// Adds what has not arrived of a complete item, and its opaque data.
    fn complete_item(
        &mut self,
        at: usize,
        kind: ItemKind,
        item: &Value,
        answer: &mut AnswerBuilder,
    ) {
        match kind {
            ItemKind::Message => self.complete_message(at, item, answer),
            ItemKind::Reasoning => self.complete_reasoning(at, item, answer),
            ItemKind::Call => self.complete_call(at, item, answer),
            ItemKind::Other if self.items.get(at).is_done => {}
            ItemKind::Other => answer.add_opaque(self.items.get(at).key, item.clone()),
        }
        self.items.get(at).is_done = true;
    }

    /// Adds the parts of a complete message that did not arrive in pieces.
    fn complete_message(&mut self, at: usize, message: &Value, answer: &mut AnswerBuilder) {
        let item = self.items.get(at);
        let parts = || message["content"].as_array().into_iter().flatten();
        let texts = parts().filter(|part| part["type"] != "refusal");
        let whole_text: String = texts
            .map(|part| text(&part["text"]))
            .chain(message["content"].as_str())
            .collect();
        let rest = item.unstreamed_rest(&whole_text);
        answer.add_text(item.key, rest);
        item.streamed.push_str(rest);
        if !item.has_refusal {
            for words in parts().map(|part| text(&part["refusal"])) {
                answer.add_refusal(words);
                item.has_refusal |= !words.is_empty();
            }
        }
        let names = ["id", "phase"].iter().filter_map(|key| {
            let value = message.get(key).filter(|value| value.is_string())?;
            Some(((*key).to_owned(), value.clone()))
        });
        let metadata: JsonObject = names.collect();
        if !metadata.is_empty() {
            answer.change_metadata(item.key, |own| *own = Value::Object(metadata));
        }
    }

    /// Adds complete reasoning that did not arrive in pieces, and keeps its item for later
    /// requests.
    fn complete_reasoning(&mut self, at: usize, reasoning: &Value, answer: &mut AnswerBuilder) {
        let item = self.items.get(at);
        if item.streamed.is_empty() {
            item.streamed = reasoning_text(reasoning);
            answer.add_reasoning(item.key, &item.streamed);
        }
        // Some servers leave out the encrypted content in one of the two copies of an item.
        let is_encrypted = |item: &Value| item["encrypted_content"].is_string();
        answer.change_metadata(item.key, |own| {
            if own.is_null() || (!is_encrypted(&own["item"]) && is_encrypted(reasoning)) {
                *own = json!({ "item": reasoning });
            }
        });
    }

    /// Adds the arguments of a complete call that did not arrive in pieces, and the provider's own
    /// fields.
    fn complete_call(&mut self, at: usize, call: &Value, answer: &mut AnswerBuilder) {
        let item = self.items.get(at);
        if item.call_id.is_empty() {
            item.call_id.clone_from(&item.id);
        }
        let whole_arguments = arguments_text(&call["arguments"]);
        let rest = item.unstreamed_rest(&whole_arguments).to_owned();
        self.add_call_piece(at, text(&call["name"]), &rest, answer);
        let standard_fields = ["type", "status", "call_id", "name", "arguments"];
        let fields = call.as_object().into_iter().flatten();
        let own_fields: JsonObject = fields
            .filter(|(key, value)| !standard_fields.contains(&key.as_str()) && !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if let Some(position) = self.items.get(at).position
            && !own_fields.is_empty()
        {
            answer.change_call_metadata(position, |metadata| {
                *metadata = json!({ "item": own_fields })
            });
        }
    }

    /// Ends the answer with its last event, which usually contains the complete response.
    fn end(
        &mut self,
        kind: &str,
        event: &Value,
        answer: &mut AnswerBuilder,
    ) -> Result<AnswerProgress, ProviderError> {
        let response = event.get("response").unwrap_or(event);
        if let Some(usage) = usage(&response["usage"]) {
            answer.set_usage(usage);
        }
        if let Some(error) = find_error(event) {
            return Err(reported_failure(error));
        }
        self.add_missing_output(&response["output"], answer);
        let status = match kind {
            "completed" | "done" => response["status"].as_str().unwrap_or("completed"),
            other => other,
        };
        let reason = match status {
            "incomplete" => response["incomplete_details"]["reason"].as_str(),
            "failed" | "cancelled" => Some(status),
            _ => Some("completed"),
        };
        if let Some(ending) = ending_of(reason.unwrap_or(status), "") {
            answer.end(ending);
        }
        Ok(AnswerProgress::Done)
    }

    /// Adds the parts of the complete response that no earlier event contained. `output` is its
    /// list of items. If it lists every item of the stream, also sorts the answer like the list, so
    /// that reasoning precedes the item that it led to.
    fn add_missing_output(&mut self, output: &Value, answer: &mut AnswerBuilder) {
        let Some(output_items) = output.as_array() else {
            return self.sort_like_response(answer);
        };
        for (index, item) in output_items.iter().enumerate() {
            let kind = ItemKind::from_item(item);
            let table_index =
                self.items
                    .match_response_item(kind, index, ItemName::from_item(item));
            self.complete_item(table_index, kind, item, answer);
        }
        self.sort_like_response(answer);
    }

    /// Sorts the answer like the complete response, if the response lists all items.
    fn sort_like_response(&self, answer: &mut AnswerBuilder) {
        if self.items.iter().all(|item| item.final_index.is_some()) {
            answer.sort_blocks(|key, position| self.items.response_index(key, position));
        }
    }
}

/// Returns the failure that the provider reports. A filter counts as a refusal.
fn reported_failure(error: ReportedError) -> ProviderError {
    match error.code.as_deref() {
        Some(FILTER_CODE) => ProviderError::Declined {
            reason: FILTER_CODE.to_owned(),
            explanation: error.message,
        },
        _ => ProviderError::Reported(error),
    }
}

/// Returns the token counts; `None` if there are none.
fn usage(usage: &Value) -> Option<TokenUsage> {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let (input, output, total) = (
        count("/input_tokens").or_else(|| count("/prompt_tokens")),
        count("/output_tokens").or_else(|| count("/completion_tokens")),
        count("/total_tokens"),
    );
    input.or(output).or(total)?;
    let (prompt_tokens, completion_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
    Some(TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: total.unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
        cached_tokens: count("/input_tokens_details/cached_tokens").unwrap_or(0),
        cache_write_tokens: count("/input_tokens_details/cache_write_tokens").unwrap_or(0),
    })
}

/// Returns the readable text of a complete reasoning item: its summary, else its content.
fn reasoning_text(item: &Value) -> String {
    let texts = |key: &str| -> Vec<&str> {
        let parts = item[key].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).collect()
    };
    let summary = texts("summary");
    if summary.is_empty() {
        texts("content").join(PART_SEPARATOR)
    } else {
        summary.join(PART_SEPARATOR)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns arguments as text. Some servers send the object itself.
fn arguments_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => value.to_string(),
        _ => String::new(),
    }
}
