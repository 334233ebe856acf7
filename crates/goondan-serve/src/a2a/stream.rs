//! A task as it goes on, piece by piece.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use goondan::Question;
use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult, turn_id};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Sender};

use super::dialect::{Dialect, Piece, Shape, State};
use super::rpc::RpcError;
use super::send::Begun;
use super::task::{Status, Task, TaskId, answer_of, artifact, words_of_agent};
use crate::hub::Seen;
use crate::progress;
use crate::service::Service;
use crate::watch::{News, Watch};

/// That many pieces may wait for a client that does not read.
const AHEAD: usize = 64;

/// Until when a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until the task is over, or waits for somebody's word: who has sent the message has to send another one.
    Question,
    /// Until the task is over.
    End,
}

/// A request that is answered by a stream.
pub(super) struct Asked {
    pub(super) rpc: Value,
    pub(super) dialect: Dialect,
    pub(super) until: Until,
    pub(super) history: Option<usize>,
}

/// The client is gone.
struct Gone;

struct Pump {
    service: Service,
    asked: Asked,
    id: TaskId,
    turn_id: String,
    out: Sender<Event>,
    /// The text of the step so far, as the client has it.
    said: String,
    /// The next piece of text replaces what was said before.
    is_fresh: bool,
}

/// Answers with a stream.
pub(super) async fn respond(
    service: &Service,
    begun: Begun,
    asked: Asked,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, RpcError> {
    let Begun { id, watch } = begun;
    let missing = || RpcError::task_not_found(&id.id);
    let watch = match watch {
        Some(watch) => watch,
        None => Watch::begin(service, &id.id, &id.instance).await.ok_or_else(missing)?,
    };
    let (out, mut events) = mpsc::channel(AHEAD);
    let ended = service.inner.ended.clone();
    let turn_id = turn_id(&id.id);
    let pump = Pump { service: service.clone(), asked, id, turn_id, out, said: String::new(), is_fresh: true };
    tokio::spawn(async move {
        // A client that is gone needs no word.
        ended.run_until_cancelled(pump.run(watch)).await;
    });
    let events = futures::stream::poll_fn(move |context| events.poll_recv(context).map(|event| event.map(Ok)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

impl Pump {
    async fn run(mut self, mut watch: Watch) -> Result<(), Gone> {
        let Some(task) = Task::find(&self.service, &self.id).await else { return Ok(()) };
        // Of a task that is new, everything is still to come: also where it is over meanwhile.
        let task = if watch.sees_beginning() { task.at_beginning() } else { task };
        self.send(Shape::Task, task.write(self.asked.dialect, self.asked.history, true)).await?;
        if task.is_over() {
            return Ok(());
        }
        loop {
            if let Some(running) = watch.running.take().filter(|turn| turn.turn_id == self.turn_id) {
                self.say_again(&running.text).await?;
            }
            if self.follow(&mut watch).await? {
                watch.park();
                return Ok(());
            }
            match Watch::begin(&self.service, &self.id.id, &self.id.instance).await {
                Some(again) => watch = again,
                None => return Ok(()),
            }
        }
    }

    /// Follows the task. Tells whether that is all; otherwise something was missed.
    async fn follow(&mut self, watch: &mut Watch) -> Result<bool, Gone> {
        let closed = self.out.clone();
        loop {
            let news = tokio::select! {
                news = watch.next() => news,
                () = closed.closed() => return Err(Gone),
            };
            match news {
                News::Seen(seen) => self.pass_on(&seen).await?,
                News::Asked(question) => {
                    self.ask(&question).await?;
                    if self.asked.until == Until::Question {
                        return Ok(true);
                    }
                }
                News::Answered => self.update(&Status::of(State::Working)).await?,
                News::Over(result) => {
                    self.end(&result).await?;
                    return Ok(true);
                }
                News::Missed => return Ok(false),
                News::Gone => return Ok(true),
            }
        }
    }

    async fn pass_on(&mut self, seen: &Seen) -> Result<(), Gone> {
        match &seen.event {
            SwarmEvent::Text { turn_id, delta, .. } if *turn_id == self.turn_id => self.say(delta).await,
            SwarmEvent::TextReset { turn_id, .. } if *turn_id == self.turn_id => {
                self.begin_again();
                Ok(())
            }
            SwarmEvent::Runtime(event) => {
                if matches!(&event.kind, RuntimeEventKind::StepStarted { turn_id, .. } if *turn_id == self.turn_id) {
                    self.begin_again();
                }
                let Some(words) = progress::words(event) else { return Ok(()) };
                // What comes next says more: the question itself.
                if matches!(event.kind, RuntimeEventKind::ApprovalRequested { .. }) {
                    return Ok(());
                }
                let id = format!("{}-{}", self.turn_id, event.sequence);
                let message = Some(words_of_agent(&id, words));
                let since = Some(json!(event.timestamp));
                self.update(&Status { state: State::Working, message, since }).await
            }
            _ => Ok(()),
        }
    }

    /// What was said is no part of the answer.
    fn begin_again(&mut self) {
        self.said.clear();
        self.is_fresh = true;
    }

    async fn say(&mut self, delta: &str) -> Result<(), Gone> {
        if delta.is_empty() {
            return Ok(());
        }
        self.said.push_str(delta);
        let is_fresh = std::mem::replace(&mut self.is_fresh, false);
        self.piece(&[Piece::Text(delta.to_owned())], !is_fresh, false).await
    }

    /// Says everything from the beginning of the step.
    async fn say_again(&mut self, text: &str) -> Result<(), Gone> {
        self.begin_again();
        self.say(text).await
    }

    async fn piece(&self, pieces: &[Piece], append: bool, is_last: bool) -> Result<(), Gone> {
        let update = json!({
            "taskId": self.id.id,
            "contextId": self.id.context(),
            "artifact": artifact(self.asked.dialect, pieces),
            "append": append,
            "lastChunk": is_last,
        });
        self.send(Shape::ArtifactUpdate, update).await
    }

    async fn ask(&self, question: &Question) -> Result<(), Gone> {
        self.update(&Status::asks(&self.service, &self.id, question)).await
    }

    async fn end(&self, result: &TurnResult) -> Result<(), Gone> {
        let answer = answer_of(result);
        let is_said = !self.is_fresh && answer == [Piece::Text(self.said.clone())];
        if is_said {
            self.piece(&[Piece::Text(String::new())], true, true).await?;
        } else if !answer.is_empty() {
            self.piece(&answer, false, true).await?;
        }
        self.update(&Status::ended(result)).await
    }

    async fn update(&self, status: &Status) -> Result<(), Gone> {
        let dialect = self.asked.dialect;
        let mut update = json!({
            "taskId": self.id.id,
            "contextId": self.id.context(),
            "status": status.write(&self.id, dialect),
        });
        if dialect == Dialect::V03 {
            let is_asked = status.state == State::InputRequired && self.asked.until == Until::Question;
            update["final"] = (is_asked || status.state.is_terminal()).into();
        }
        self.send(Shape::StatusUpdate, update).await
    }

    async fn send(&self, shape: Shape, value: Value) -> Result<(), Gone> {
        let result = self.asked.dialect.wrapped(shape, value);
        let response = json!({"jsonrpc": "2.0", "id": self.asked.rpc, "result": result});
        self.out.send(Event::default().data(response.to_string())).await.map_err(|_| Gone)
    }
}

#[cfg(test)]
mod tests;
