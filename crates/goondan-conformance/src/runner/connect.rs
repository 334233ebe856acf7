//! Runs the file of a Connection by itself: what it hands in is noted instead of starting turns, and answers are made up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan::Swarm;
use goondan::connectors::{Bound, ConnectorDesk};
use goondan::ports::tool::{LogLevel, ToolError};
use goondan::spec::{Code, JsonObject};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::case::step::Connect;

/// What has come of the file so far: where the swarm would be.
struct Counter {
    events: Vec<String>,
    answer: Option<String>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    handed_in: Vec<Value>,
    /// Answers that the file has not taken.
    waiting: VecDeque<Value>,
    last: u64,
    /// Answers that were owed, by number, with what came of them.
    answers: Vec<(u64, Value)>,
    /// Answers of which nothing is known yet.
    open: usize,
}

/// Runs the file of a Connection until it has handed in what is wanted and has sent its answers, or has ended.
pub(super) async fn connect(swarm: &Swarm, wanted: &Connect) -> Result<Value, String> {
    let bound = bound(swarm, &wanted.connection).await?;
    let state = State {
        lines: wanted.lines.iter().cloned().collect(),
        ..State::default()
    };
    let counter = Arc::new(Counter {
        events: bound.events.clone(),
        answer: wanted.answer.clone(),
        state: Mutex::new(state),
        changed: Notify::new(),
    });
    let desk: Arc<dyn ConnectorDesk> = Arc::clone(&counter) as _;
    let ended = tokio::select! {
        biased;
        () = counter.until(wanted.events) => None,
        ended = swarm.run_connector(&bound, desk) => Some(ended),
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

async fn bound(swarm: &Swarm, name: &str) -> Result<Bound, String> {
    let connections = swarm.connections().await;
    let bound = connections
        .into_iter()
        .find_map(|connection| match connection {
            Ok(bound) if bound.name == name => Some(Ok(bound)),
            Err(unusable) if unusable.name == name => Some(Err(unusable.problem)),
            _ => None,
        });
    let bound = bound.ok_or_else(|| format!("the swarm has no Connection `{name}`"))??;
    match bound.file {
        Some(_) => Ok(bound),
        None => Err(format!(
            "the connector of `{name}` is built in: only one that is a file can be run by itself"
        )),
    }
}

impl Counter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until(&self, events: usize) {
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
impl ConnectorDesk for Counter {
    async fn emit(&self, event: Value) -> Result<(), ToolError> {
        let refused = |why: String| Err(ToolError::new(why).code(Code::CONNECTOR_EVENT));
        match event["name"].as_str() {
            Some(name) if self.events.iter().any(|known| known == name) => {}
            Some(name) => return refused(format!("the Connector declares no event `{name}`")),
            None => return refused("an event needs a `name`".to_owned()),
        }
        if !event["message"].is_string() && !event["message"].is_object() {
            return refused("an event needs a `message`".to_owned());
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
            // Nobody types any more, but the file goes on until its answers are sent.
            self.until(0).await;
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

    fn replied(&self, number: u64, error: Option<String>) {
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
