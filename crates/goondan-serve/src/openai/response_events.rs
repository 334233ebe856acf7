//! A response, event by event.

use std::collections::VecDeque;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::error::ApiError;
use super::memory::Reading;
use super::responses::{Head, Status, part};
use super::track::{Answer, End, Item, News, Reader};

/// A response on its way to a client.
pub(super) struct Events {
    head: Head,
    reader: Reader,
    /// It is let go with the last event.
    reading: Option<Reading>,
    /// Items in the order in which they began.
    items: Vec<Item>,
    /// Index of the text that is not complete.
    open_text: Option<usize>,
    /// Index of the reasoning that is not complete, and of its entry.
    open_reasoning: Option<(usize, usize)>,
    is_begun: bool,
    number: u64,
    ready: VecDeque<Event>,
}

impl Events {
    /// From the beginning.
    pub(super) fn new(head: Head, reader: Reader, reading: Reading) -> Self {
        Events {
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

    /// As a response.
    pub(super) fn respond(self) -> Response {
        let stream = futures::stream::unfold(self, |mut events| async move {
            while events.ready.is_empty() {
                events.reading.as_ref()?;
                events.advance().await;
            }
            let event = events.ready.pop_front()?;
            Some((Ok::<_, std::convert::Infallible>(event), events))
        });
        Sse::new(stream)
            .keep_alive(KeepAlive::default())
            .into_response()
    }

    async fn advance(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) {
            for name in ["response.created", "response.in_progress"] {
                let response = self.head.body(&[], &Status::InProgress);
                self.put(name, json!({"response": response}));
            }
            return;
        }
        match self.reader.next().await {
            News::Text { delta, .. } => self.say(&delta),
            News::Reasoning { entry, delta } => self.reason(entry, &delta),
            News::PartOver => self.close_text(),
            News::Void => self.fail(&ApiError::begun_again()),
            News::End(end) => self.end(&end),
        }
    }

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
    fn open(&mut self, item: Item) -> usize {
        let (index, part) = (self.items.len(), part(&item));
        self.items.push(item);
        let item = self.head.item(&self.items, index, false);
        self.put(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        self.put_part(index, "response.content_part.added", &[("part", part)]);
        index
    }

    /// Writes a piece of an item.
    fn add(&mut self, index: usize, delta: &str) {
        let (name, text, more) = shape(&mut self.items[index]);
        text.push_str(delta);
        let delta = ("delta", Value::from(delta));
        let fields: Vec<_> = std::iter::once(delta).chain(more).collect();
        self.put_part(index, &format!("{name}.delta"), &fields);
    }

    /// Ends an item.
    fn close_item(&mut self, index: usize) {
        let (name, text, more) = shape(&mut self.items[index]);
        let field = if name == REFUSAL { "refusal" } else { "text" };
        let text = (field, Value::from(text.as_str()));
        let fields: Vec<_> = std::iter::once(text).chain(more).collect();
        self.put_part(index, &format!("{name}.done"), &fields);
        let part = part(&self.items[index]);
        self.put_part(index, "response.content_part.done", &[("part", part)]);
        let item = self.head.item(&self.items, index, true);
        self.put(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    fn say(&mut self, delta: &str) {
        self.close_reasoning();
        let index = match self.open_text {
            Some(index) => index,
            None => self.open(Item::Text(String::new())),
        };
        self.open_text = Some(index);
        self.add(index, delta);
    }

    fn reason(&mut self, entry: usize, delta: &str) {
        if self.open_reasoning.is_some_and(|(_, open)| open != entry) {
            self.close_reasoning();
        }
        let index = match self.open_reasoning {
            Some((index, _)) => index,
            None => self.open(Item::Reasoning(String::new())),
        };
        self.open_reasoning = Some((index, entry));
        self.add(index, delta);
    }

    fn close_text(&mut self) {
        if let Some(index) = self.open_text.take() {
            self.close_item(index);
        }
    }

    fn close_reasoning(&mut self) {
        if let Some((index, _)) = self.open_reasoning.take() {
            self.close_item(index);
        }
    }

    fn end(&mut self, end: &End) {
        self.close_reasoning();
        match end {
            End::Over(answer) => self.complete(answer),
            End::Failed(error) => {
                self.close_text();
                let response = self.head.body(&self.items, &Status::Failed(error));
                self.put("response.failed", json!({"response": response}));
                self.close();
            }
        }
    }

    fn complete(&mut self, answer: &Answer) {
        self.close_text();
        for item in &answer.items {
            let (empty, text) = match item {
                Item::Reasoning(_) if self.reader.has_reasoning() => continue,
                Item::Text(_) if self.reader.has_begun() => continue,
                Item::Reasoning(text) => (Item::Reasoning(String::new()), text),
                Item::Text(text) => (Item::Text(String::new()), text),
                Item::Refusal(words) => (Item::Refusal(String::new()), words),
            };
            let index = self.open(empty);
            self.add(index, text);
            self.close_item(index);
        }
        let status = Status::Over {
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

    /// The stream can't go on, though the turn does.
    fn fail(&mut self, error: &ApiError) {
        let body = error.body();
        self.put(
            "error",
            json!({"code": body["code"], "message": body["message"], "param": body["param"]}),
        );
        self.close();
    }

    fn close(&mut self) {
        if let Some(mut reading) = self.reading.take() {
            reading.delivered();
        }
    }
}

const REFUSAL: &str = "response.refusal";

/// Returns the name that the events of an item begin with, its text, and the other fields of these events.
fn shape(item: &mut Item) -> (&'static str, &mut String, Option<(&'static str, Value)>) {
    match item {
        Item::Text(text) => {
            let more = Some(("logprobs", json!([])));
            ("response.output_text", text, more)
        }
        Item::Reasoning(text) => ("response.reasoning_text", text, None),
        Item::Refusal(words) => (REFUSAL, words, None),
    }
}
