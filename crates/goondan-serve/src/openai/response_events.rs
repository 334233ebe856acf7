//! A response, event by event.

use std::collections::VecDeque;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::error::ApiError;
use super::memory::Reading;
use super::responses::{Head, Status, part};
use super::track::{Answer, End, News, Reader};

/// A response on its way to a client.
pub(super) struct Events {
    head: Head,
    reader: Reader,
    /// It is let go with the last event.
    reading: Option<Reading>,
    /// What was said in each step.
    said: Vec<String>,
    /// The last of them is not complete.
    is_open: bool,
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
            said: Vec::new(),
            is_open: false,
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
            News::PartOver => self.close_part(),
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

    /// Where the text that is being said stands.
    fn place(&self) -> Value {
        let index = self.said.len() - 1;
        json!({"item_id": self.head.item_id(index), "output_index": index, "content_index": 0})
    }

    fn put_at_place(&mut self, name: &str, more: &[(&str, Value)]) {
        let mut data = self.place();
        for (key, value) in more {
            data[*key] = value.clone();
        }
        self.put(name, data);
    }

    fn say(&mut self, delta: &str) {
        if !std::mem::replace(&mut self.is_open, true) {
            let index = self.said.len();
            self.said.push(String::new());
            let item = self.head.item(index, None, "in_progress");
            self.put(
                "response.output_item.added",
                json!({"output_index": index, "item": item}),
            );
            self.put_at_place("response.content_part.added", &[("part", part(""))]);
        }
        if let Some(said) = self.said.last_mut() {
            said.push_str(delta);
        }
        self.put_at_place(
            "response.output_text.delta",
            &[("delta", delta.into()), ("logprobs", json!([]))],
        );
    }

    fn close_part(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let index = self.said.len() - 1;
        let text = self.said[index].clone();
        self.put_at_place(
            "response.output_text.done",
            &[("text", (&*text).into()), ("logprobs", json!([]))],
        );
        self.put_at_place("response.content_part.done", &[("part", part(&text))]);
        let item = self.head.item(index, Some(&text), "completed");
        self.put(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Over(answer) => self.complete(answer),
            End::Failed(error) => {
                self.close_part();
                let response = self.head.body(&self.said, &Status::Failed(error));
                self.put("response.failed", json!({"response": response}));
                self.close();
            }
        }
    }

    fn complete(&mut self, answer: &Answer) {
        if !self.reader.has_begun() {
            for part in &answer.parts {
                self.say(part);
                self.close_part();
            }
        }
        self.close_part();
        let status = Status::Over {
            finish: answer.finish,
            usage: Some(answer.usage),
        };
        let response = self.head.body(&self.said, &status);
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
