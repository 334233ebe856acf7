//! Runs the file of a Connection without a swarm. Its events are recorded instead of starting
//! turns, and answers are generated.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan::Swarm;
use goondan::adapters::connectors::{BoundConnection, ConnectorHost};
use goondan::ports::tool::{HandlerError, LogLevel};
use goondan::spec::{Code, JsonObject};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::case::step::ConnectStep;

/// Recorder of the file's events, in place of a swarm.
struct EventRecorder {
    events: Vec<String>,
    answer: Option<String>,
    state: Mutex<ReplyRecorderState>,
    changed: Notify,
}

#[derive(Default)]
struct ReplyRecorderState {
    lines: VecDeque<String>,
    handed_in: Vec<Value>,
    /// Answers that the file did not read yet.
    waiting: VecDeque<Value>,
    last: u64,
    /// Answers by number, with their delivery results.
    answers: Vec<(u64, Value)>,
    /// Number of answers without a delivery result.
    open: usize,
}

/// Runs the file of a Connection until it has emitted the requested events and sent its answers, or
/// ends.
pub(super) async fn connect(swarm: &Swarm, step: &ConnectStep) -> Result<Value, String> {
    let bound = usable_connection(swarm, &step.connection).await?;
    let state = ReplyRecorderState {
        lines: step.lines.iter().cloned().collect(),
        ..ReplyRecorderState::default()
    };
    let counter = Arc::new(EventRecorder {
        events: bound.events.clone(),
        answer: step.answer.clone(),
        state: Mutex::new(state),
        changed: Notify::new(),
    });
    let host: Arc<dyn ConnectorHost> = Arc::clone(&counter) as _;
    let ended = tokio::select! {
        biased;
        () = counter.wait_for_events(step.events) => None,
        ended = swarm.run_connector(&bound, host) => Some(ended),
    };
    let state = counter.state();
    let error = match &ended {
        Some(Err(error)) => json!({"code": error.code, "message": error.message}),
        _ => Value::Null,
    };
    let answers: Vec<&Value> = state.answers.iter().map(|(_, answer)| answer).collect();
    Ok(
        json!({"ended": ended.is_some(), "error": error, "events": state.handed_in, "answers": answers}),
    )
}

/// Returns the Connection `name`. Fails if it is unusable or its connector is built in.
async fn usable_connection(swarm: &Swarm, name: &str) -> Result<BoundConnection, String> {
    for connection in swarm.connections().await {
        match connection {
            Ok(bound) if bound.name == name => {
                if bound.file.is_none() {
                    return Err(format!(
                        "the connector of `{name}` is built in: `connect` needs a connector that \
                        is a file"
                    ));
                }
                return Ok(bound);
            }
            Err(unusable) if unusable.name == name => return Err(unusable.problem),
            _ => {}
        }
    }
    Err(format!("the swarm has no Connection `{name}`"))
}

impl EventRecorder {
    fn state(&self) -> MutexGuard<'_, ReplyRecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the connector has emitted `events` events and all of them are handled.
    async fn wait_for_events(&self, events: usize) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state();
                if state.handed_in.len() >= events && state.open == 0 {
                    return;
                }
            }
            changed.await;
        }
    }
}

#[async_trait]
impl ConnectorHost for EventRecorder {
    async fn emit(&self, event: Value) -> Result<(), HandlerError> {
        let rejected = |why: String| Err(HandlerError::new(why).code(Code::CONNECTOR_EVENT));
        match event["name"].as_str() {
            Some(name) if self.events.iter().any(|declared| declared == name) => {}
            Some(name) => return rejected(format!("the Connector declares no event `{name}`")),
            None => return rejected("an event needs a `name`".to_owned()),
        }
        if !event["message"].is_string() && !event["message"].is_object() {
            return rejected("an event needs a `message`".to_owned());
        }
        let mut state = self.state();
        if let Some(answer) = self.answer.as_ref().filter(|_| !event["origin"].is_null()) {
            state.last += 1;
            state.open += 1;
            let reply = json!({"number": state.last, "origin": event["origin"], "text": answer});
            state.waiting.push_back(reply);
        }
        state.handed_in.push(event);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    async fn line(&self) -> Option<String> {
        let line = self.state().lines.pop_front();
        if line.is_none() {
            // After the end of the input, the file continues until its answers are sent.
            self.wait_for_events(0).await;
        }
        line
    }

    async fn reply(&self) -> Option<Value> {
        loop {
            let changed = self.changed.notified();
            if let Some(reply) = self.state().waiting.pop_front() {
                return Some(reply);
            }
            changed.await;
        }
    }

    fn report_reply(&self, number: u64, error: Option<String>) {
        let mut state = self.state();
        state.open = state.open.saturating_sub(1);
        state
            .answers
            .push((number, json!({"sent": error.is_none(), "error": error})));
        state.answers.sort_by_key(|(number, _)| *number);
        drop(state);
        self.changed.notify_waiters();
    }

    fn log(&self, _level: LogLevel, message: &str, fields: JsonObject) {
        let fields = Value::Object(fields);
        tracing::debug!(target: "gdn::connector", %fields, "{message}");
    }
}
