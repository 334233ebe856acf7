//! Event stream of a response.

use std::collections::VecDeque;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer_stream::{
    AnswerSubscriber, AnswerUpdate, FinishedAnswer, StreamedItem, TrackEnd,
};
use super::conversation_index::AttemptReader;
use super::error::OpenAiError;
use super::responses::{OpenAiResponseStatus, ResponseHead, encode_part};

pub(super) struct ResponseStream {
    head: ResponseHead,
    reader: AnswerSubscriber,
    /// Released with the last event.
    reading: Option<AttemptReader>,
    /// Items in the order in which they began.
    items: Vec<StreamedItem>,
    /// Index of the text that is not complete.
    open_text: Option<usize>,
    /// Index of the reasoning that is not complete, and of its entry.
    open_reasoning: Option<(usize, usize)>,
    is_begun: bool,
    number: u64,
    ready: VecDeque<Event>,
}

impl ResponseStream {
    /// Creates the events of a response.
    pub(super) fn new(
        head: ResponseHead,
        reader: AnswerSubscriber,
        reading: AttemptReader,
    ) -> Self {
        ResponseStream {
            head,
            reader,
            reading: Some(reading),
            items: Vec::new(),
            open_text: None,
            open_reasoning: None,
            is_begun: false,
            number: 0,
            ready: VecDeque::new(),
        }
    }

    /// Returns the response stream.
    pub(super) fn respond(self) -> Response {
        let stream = futures::stream::unfold(self, |mut events| async move {
            while events.ready.is_empty() {
                events.reading.as_ref()?;
                events.queue_next_update().await;
            }
            let event = events.ready.pop_front()?;
            Some((Ok::<_, std::convert::Infallible>(event), events))
        });
        Sse::new(stream)
            .keep_alive(KeepAlive::default())
            .into_response()
    }

    /// Adds the events of the next update to the queue. The first call adds the initial events.
    async fn queue_next_update(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) {
            for name in ["response.created", "response.in_progress"] {
                let response = self.head.body(&[], &OpenAiResponseStatus::InProgress);
                self.put(name, json!({"response": response}));
            }
            return;
        }
        match self.reader.next().await {
            AnswerUpdate::Text { delta, .. } => self.queue_text(&delta),
            AnswerUpdate::Reasoning { entry, delta } => self.queue_reasoning(entry, &delta),
            AnswerUpdate::PartOver => self.close_text(),
            AnswerUpdate::Void => self.queue_error(&OpenAiError::begun_again()),
            AnswerUpdate::End(end) => self.end(&end),
        }
    }

    /// Queues an event with the next sequence number.
    fn put(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        self.ready
            .push_back(Event::default().event(name).data(data.to_string()));
    }

    /// Writes an event about the content of an item.
    fn put_part(&mut self, index: usize, name: &str, more: &[(&str, Value)]) {
        let item_id = self.head.item_id(&self.items, index);
        let mut data = json!({"item_id": item_id, "output_index": index, "content_index": 0});
        for (key, value) in more {
            data[*key] = value.clone();
        }
        self.put(name, data);
    }

    /// Begins an item without content, and returns its index.
    fn open(&mut self, item: StreamedItem) -> usize {
        let (index, part) = (self.items.len(), encode_part(&item));
        self.items.push(item);
        let item = self
            .head
            .encode_item(&self.items, index, /* is_complete */ false);
        self.put(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        self.put_part(index, "response.content_part.added", &[("part", part)]);
        index
    }

    /// Queues an event with more text of an item.
    fn add(&mut self, index: usize, delta: &str) {
        let (name, text, more) = event_fields(&mut self.items[index]);
        text.push_str(delta);
        let delta = ("delta", Value::from(delta));
        let fields: Vec<_> = std::iter::once(delta).chain(more).collect();
        self.put_part(index, &format!("{name}.delta"), &fields);
    }

    /// Queues the events that end an item.
    fn close_item(&mut self, index: usize) {
        let (name, text, more) = event_fields(&mut self.items[index]);
        let field = if name == REFUSAL_EVENT_PREFIX {
            "refusal"
        } else {
            "text"
        };
        let text = (field, Value::from(text.as_str()));
        let fields: Vec<_> = std::iter::once(text).chain(more).collect();
        self.put_part(index, &format!("{name}.done"), &fields);
        let part = encode_part(&self.items[index]);
        self.put_part(index, "response.content_part.done", &[("part", part)]);
        let item = self
            .head
            .encode_item(&self.items, index, /* is_complete */ true);
        self.put(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    /// Queues text of the answer; begins an item if needed.
    fn queue_text(&mut self, delta: &str) {
        self.close_reasoning();
        let index = match self.open_text {
            Some(index) => index,
            None => self.open(StreamedItem::Text(String::new())),
        };
        self.open_text = Some(index);
        self.add(index, delta);
    }

    /// Queues reasoning; begins an item if needed.
    fn queue_reasoning(&mut self, entry: usize, delta: &str) {
        if self.open_reasoning.is_some_and(|(_, open)| open != entry) {
            self.close_reasoning();
        }
        let index = match self.open_reasoning {
            Some((index, _)) => index,
            None => self.open(StreamedItem::Reasoning(String::new())),
        };
        self.open_reasoning = Some((index, entry));
        self.add(index, delta);
    }

    /// Ends the open text item.
    fn close_text(&mut self) {
        if let Some(index) = self.open_text.take() {
            self.close_item(index);
        }
    }

    /// Ends the open reasoning item.
    fn close_reasoning(&mut self) {
        if let Some((index, _)) = self.open_reasoning.take() {
            self.close_item(index);
        }
    }

    /// Queues the events for the end of the turn.
    fn end(&mut self, end: &TrackEnd) {
        self.close_reasoning();
        match end {
            TrackEnd::Over(answer) => self.queue_completion(answer),
            TrackEnd::Failed(error) => {
                self.close_text();
                let response = self
                    .head
                    .body(&self.items, &OpenAiResponseStatus::Failed(error));
                self.put("response.failed", json!({"response": response}));
                self.close();
            }
        }
    }

    /// Queues the rest of the answer and the final response.
    fn queue_completion(&mut self, answer: &FinishedAnswer) {
        self.close_text();
        for item in &answer.items {
            let (empty, text) = match item {
                StreamedItem::Reasoning(_) if self.reader.has_reasoning() => continue,
                StreamedItem::Text(_) if self.reader.has_begun() => continue,
                StreamedItem::Reasoning(text) => (StreamedItem::Reasoning(String::new()), text),
                StreamedItem::Text(text) => (StreamedItem::Text(String::new()), text),
                StreamedItem::Refusal(words) => (StreamedItem::Refusal(String::new()), words),
            };
            let index = self.open(empty);
            self.add(index, text);
            self.close_item(index);
        }
        let status = OpenAiResponseStatus::Over {
            outcome: answer.outcome,
            usage: Some(answer.usage),
        };
        let response = self.head.body(&self.items, &status);
        let name = format!(
            "response.{}",
            response["status"].as_str().unwrap_or("completed")
        );
        self.put(&name, json!({"response": response}));
        self.close();
    }

    /// Ends the stream with an error, although the turn continues.
    fn queue_error(&mut self, error: &OpenAiError) {
        let body = error.body();
        self.put(
            "error",
            json!({"code": body["code"], "message": body["message"], "param": body["param"]}),
        );
        self.close();
    }

    /// Ends the stream, and records that the client received the answer.
    fn close(&mut self) {
        if let Some(mut reading) = self.reading.take() {
            reading.mark_delivered();
        }
    }
}

const REFUSAL_EVENT_PREFIX: &str = "response.refusal";

/// Returns the name that the events of an item begin with, its text, and the other fields of these
/// events.
fn event_fields(
    item: &mut StreamedItem,
) -> (&'static str, &mut String, Option<(&'static str, Value)>) {
    match item {
        StreamedItem::Text(text) => {
            let more = Some(("logprobs", json!([])));
            ("response.output_text", text, more)
        }
        StreamedItem::Reasoning(text) => ("response.reasoning_text", text, None),
        StreamedItem::Refusal(words) => (REFUSAL_EVENT_PREFIX, words, None),
    }
}
