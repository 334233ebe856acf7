//! A task as it goes on, piece by piece.

use goondan::Question;
use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult, turn_id};
use serde_json::{Value, json};

use super::dialect::{Dialect, Piece, Shape, State, set};
use super::rpc::{self, RpcError};
use super::send::Begun;
use super::task::{Status, Task, TaskId, answer_of, artifact, words_of_agent};
use crate::follow::{self, Events, Flow, Gone, Out, Teller};
use crate::hub::Seen;
use crate::progress;
use crate::service::Service;

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

/// Tells of a task.
struct Telling {
    service: Service,
    asked: Asked,
    id: TaskId,
    turn_id: String,
    out: Out,
    /// The text of the step so far, as the client has it.
    said: String,
    /// The next piece of text replaces what was said before.
    is_fresh: bool,
}

/// Answers with a stream.
pub(super) fn respond(service: &Service, begun: Begun, asked: Asked) -> Events {
    let Begun { id, watch } = begun;
    let (service, turn_id) = (service.clone(), turn_id(&id.id));
    follow::respond(watch, |out| Telling {
        service,
        asked,
        id,
        turn_id,
        out,
        said: String::new(),
        is_fresh: true,
    })
}

impl Teller for Telling {
    fn turn_id(&self) -> &str {
        &self.turn_id
    }

    async fn begin(&mut self, sees_beginning: bool) -> Result<Flow, Gone> {
        let Some(task) = Task::find(&self.service, &self.id).await else {
            return Ok(Flow::Enough);
        };
        // Also where it is over meanwhile.
        let task = if sees_beginning {
            task.at_beginning()
        } else {
            task
        };
        self.send(
            Shape::Task,
            task.write(self.asked.dialect, self.asked.history, true),
        )
        .await?;
        Ok(if task.is_over() {
            Flow::Enough
        } else {
            Flow::More
        })
    }

    /// Says everything from the beginning of the step.
    async fn catch_up(&mut self, text: &str) -> Result<(), Gone> {
        self.begin_again();
        self.say(text).await
    }

    async fn seen(&mut self, seen: &Seen) -> Result<Flow, Gone> {
        self.pass_on(seen).await?;
        Ok(Flow::More)
    }

    async fn asked(&mut self, question: &Question) -> Result<Flow, Gone> {
        self.update(&Status::asks(&self.service, &self.id, question))
            .await?;
        Ok(match self.asked.until {
            Until::Question => Flow::Enough,
            Until::End => Flow::More,
        })
    }

    async fn answered(&mut self) -> Result<(), Gone> {
        self.update(&Status::of(State::Working)).await
    }

    fn missed(&mut self) {}

    async fn over(&mut self, result: &TurnResult) -> Result<(), Gone> {
        let answer = answer_of(result);
        let is_said = !self.is_fresh && answer == [Piece::Text(self.said.clone())];
        if is_said {
            self.piece(&[Piece::Text(String::new())], true, true)
                .await?;
        } else if !answer.is_empty() {
            self.piece(&answer, false, true).await?;
        }
        self.update(&Status::ended(result)).await
    }

    async fn stopped(&mut self) -> Result<(), Gone> {
        self.out
            .send(&RpcError::stopped().response(&self.asked.rpc))
            .await
    }
}

impl Telling {
    async fn pass_on(&mut self, seen: &Seen) -> Result<(), Gone> {
        match &seen.event {
            SwarmEvent::Text { turn_id, delta, .. } if *turn_id == self.turn_id => {
                self.say(delta).await
            }
            SwarmEvent::TextReset { turn_id, .. } if *turn_id == self.turn_id => {
                self.begin_again();
                Ok(())
            }
            SwarmEvent::Runtime(event) => {
                if matches!(&event.kind, RuntimeEventKind::StepStarted { turn_id, .. } if *turn_id == self.turn_id)
                {
                    self.begin_again();
                }
                let Some(words) = progress::words(event) else {
                    return Ok(());
                };
                // What comes next says more: the question itself.
                if matches!(event.kind, RuntimeEventKind::ApprovalRequested { .. }) {
                    return Ok(());
                }
                let id = format!("{}-{}", self.turn_id, event.sequence);
                let message = Some(words_of_agent(&id, words));
                let since = Some(json!(event.timestamp));
                self.update(&Status {
                    message,
                    since,
                    ..Status::of(State::Working)
                })
                .await
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
        self.piece(&[Piece::Text(delta.to_owned())], !is_fresh, false)
            .await
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

    async fn update(&self, status: &Status) -> Result<(), Gone> {
        let dialect = self.asked.dialect;
        let mut update = json!({
            "taskId": self.id.id,
            "contextId": self.id.context(),
            "status": status.write(&self.id, dialect),
        });
        set(&mut update, "metadata", status.metadata());
        if dialect == Dialect::V03 {
            let is_asked =
                status.state == State::InputRequired && self.asked.until == Until::Question;
            update["final"] = (is_asked || status.state.is_terminal()).into();
        }
        self.send(Shape::StatusUpdate, update).await
    }

    async fn send(&self, shape: Shape, value: Value) -> Result<(), Gone> {
        let result = self.asked.dialect.wrapped(shape, value);
        self.out
            .send(&rpc::response(&self.asked.rpc, &result))
            .await
    }
}

#[cfg(test)]
mod tests;
