//! Servers that reject the same requests as real providers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use goondan_core::ports::model::ModelClient;
use serde_json::{Value, json};

use crate::common::{model, open};
use crate::mock::{MockRequest, MockResponse, MockServer};

/// A provider that requires its own opaque data in every request.
pub(super) struct Family {
    /// Prefix of the call ids.
    pub(super) name: &'static str,
    pub(super) provider: &'static str,
    pub(super) model: &'static str,
    /// JSON of the Model's options.
    pub(super) options: &'static str,
    /// Path of the base URL.
    pub(super) path: &'static str,
    /// Owner of the opaque data. Providers with one owner exchange it.
    pub(super) owner: &'static str,
    /// Text in all opaque data of this provider.
    pub(super) marker: &'static str,
    /// Error message of the real provider, which has status 400.
    pub(super) error_message: &'static str,
    /// Returns the opaque data for call number `at` of a step. The data may depend on the request.
    pub(super) data: fn(body: &Value, step: usize, at: usize) -> Value,
    /// Returns the answer with the calls of a step.
    pub(super) answer: fn(&[IssuedCall]) -> MockResponse,
    /// Returns an answer without calls.
    pub(super) end: fn(text: &str) -> MockResponse,
    /// Returns the id and the opaque data of each call in a request, in order.
    pub(super) sent: fn(&Value) -> Vec<(String, Value)>,
    /// Returns true if the provider accepts this data for calls of another provider.
    pub(super) accepts: fn(&Value) -> bool,
    /// Returns any other reason why the provider rejects a request.
    pub(super) fault: fn(&Value) -> Option<String>,
}

/// A tool call of a server, with its opaque data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IssuedCall {
    pub(super) id: String,
    pub(super) data: Value,
}

pub(super) struct StrictServer {
    pub(super) client: Arc<dyn ModelClient>,
    family: &'static Family,
    mock: MockServer,
    ends: Arc<AtomicBool>,
}

impl StrictServer {
    pub(super) async fn start(family: &'static Family) -> StrictServer {
        let issued = Mutex::new(Vec::new());
        let ends = Arc::new(AtomicBool::new(false));
        let is_end = Arc::clone(&ends);
        let handler = move |request: &MockRequest, step: usize| {
            let mut issued = issued.lock().expect("unpoisoned calls");
            if let Err(reason) = check(family, &issued, &request.body) {
                let message = format!("{}: {reason}", family.error_message);
                let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
                return MockResponse::json("400 Bad Request", error);
            }
            if is_end.load(Ordering::Relaxed) {
                return (family.end)(&text_of(family));
            }
            let calls = calls_of_step(family, &request.body, step);
            issued.extend(calls.clone());
            (family.answer)(&calls)
        };
        let mock = MockServer::with_handler(handler).await;
        let options = serde_json::from_str(family.options).expect("JSON");
        let mut model = model(family.provider, Some(mock.url(family.path)), options);
        model.spec.model = family.model.to_owned();
        StrictServer {
            client: open(&model, &Default::default()).expect("a client"),
            family,
            mock,
            ends,
        }
    }

    /// Sets whether the next answers end the turn or call a tool.
    pub(super) fn end_turn(&self, ends: bool) {
        self.ends.store(ends, Ordering::Relaxed);
    }

    /// Returns the text of answers without calls.
    pub(super) fn text(&self) -> String {
        text_of(self.family)
    }

    pub(super) fn bodies(&self) -> Vec<Value> {
        self.mock
            .requests()
            .into_iter()
            .map(|request| request.body)
            .collect()
    }
}

fn text_of(family: &Family) -> String {
    format!("{} is done.", family.name)
}

/// Returns one call, or two in every third step.
fn calls_of_step(family: &Family, body: &Value, step: usize) -> Vec<IssuedCall> {
    let count = if step % 3 == 2 { 2 } else { 1 };
    let call = |at: usize| IssuedCall {
        id: format!("{}-{step}-{at}", family.name),
        data: (family.data)(body, step, at),
    };
    (0..count).map(call).collect()
}

/// Checks the data of all calls in a request.
fn check(family: &Family, issued: &[IssuedCall], body: &Value) -> Result<(), String> {
    let sent = (family.sent)(body).into_iter();
    let (own, others): (Vec<_>, Vec<_>) = sent
        .map(|(id, data)| IssuedCall { id, data })
        .partition(|call| call.id.starts_with(&format!("{}-", family.name)));
    if own != issued {
        return Err(format!("expected {issued:#?}, but got {own:#?}"));
    }
    if let Some(other) = others.iter().find(|call| !(family.accepts)(&call.data)) {
        return Err(format!("unexpected data: {other:?}"));
    }
    (family.fault)(body).map_or(Ok(()), Err)
}
