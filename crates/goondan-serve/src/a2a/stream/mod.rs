//! Stream of task updates.

use goondan::ApprovalHandle;
use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult, turn_id};
use serde_json::{Value, json};

use super::encoding::{ProtocolVersion, ResultType, TaskPart, TaskState, set};
use super::rpc::{self, RpcError};
use super::send::StartedTask;
use super::task::{Task, TaskId, TaskStatus, agent_message, answer_of, artifact};
use crate::hub::PublishedEvent;
use crate::progress;
use crate::service::Service;
use crate::turn_stream::{self, ClientGone, Events, StreamFlow, StreamSender, TurnEncoder};

/// End of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The task is over or waits for approval: the client answers with a new message.
    Question,
    /// The task is over.
    End,
}

/// A request whose response is a stream.
pub(super) struct StreamRequest {
    pub(super) rpc: Value,
    pub(super) dialect: ProtocolVersion,
    pub(super) until: StreamEnd,
    pub(super) history: Option<usize>,
}

/// Encoder state of a task stream.
struct TaskStream {
    service: Service,
    asked: StreamRequest,
    id: TaskId,
    turn_id: String,
    out: StreamSender,
    /// Text of the current step, as the client received it.
    said: String,
    /// The next text replaces the previous text.
    is_fresh: bool,
}

/// Returns the stream of a task.
pub(super) fn respond(service: &Service, started: StartedTask, request: StreamRequest) -> Events {
    let StartedTask { id, watch } = started;
    let (service, turn_id) = (service.clone(), turn_id(&id.id));
    turn_stream::respond(watch, |out| TaskStream {
        service,
        asked: request,
        id,
        turn_id,
        out,
        said: String::new(),
        is_fresh: true,
    })
}

impl TurnEncoder for TaskStream {
    fn turn_id(&self) -> &str {
        &self.turn_id
    }

    async fn begin(&mut self, sees_beginning: bool) -> Result<StreamFlow, ClientGone> {
        let Some(task) = Task::find(&self.service, &self.id).await else {
            return Ok(StreamFlow::Enough);
        };
        // Applies even if the task is over by now.
        let task = if sees_beginning {
            task.at_beginning()
        } else {
            task
        };
        self.send(
            ResultType::Task,
            task.write(self.asked.dialect, self.asked.history, true),
        )
        .await?;
        Ok(if task.is_over() {
            StreamFlow::Enough
        } else {
            StreamFlow::More
        })
    }

    /// Sends the text from the start of the step.
    async fn catch_up(&mut self, text: &str) -> Result<(), ClientGone> {
        self.begin_again();
        self.say(text).await
    }

    async fn event_published(
        &mut self,
        published: &PublishedEvent,
    ) -> Result<StreamFlow, ClientGone> {
        self.pass_on(published).await?;
        Ok(StreamFlow::More)
    }

    async fn approval_requested(
        &mut self,
        question: &ApprovalHandle,
    ) -> Result<StreamFlow, ClientGone> {
        self.update(&TaskStatus::asks(&self.service, &self.id, question))
            .await?;
        Ok(match self.asked.until {
            StreamEnd::Question => StreamFlow::Enough,
            StreamEnd::End => StreamFlow::More,
        })
    }

    async fn approval_closed(&mut self) -> Result<(), ClientGone> {
        self.update(&TaskStatus::of(TaskState::Working)).await
    }

    fn missed(&mut self) {}

    async fn over(&mut self, result: &TurnResult) -> Result<(), ClientGone> {
        let answer = answer_of(result);
        let is_said = !self.is_fresh && answer == [TaskPart::Text(self.said.clone())];
        // Streamed text only needs the end mark.
        if is_said {
            self.piece(
                &[TaskPart::Text(String::new())],
                /* append */ true,
                /* is_last */ true,
            )
            .await?;
        } else if !answer.is_empty() {
            self.piece(&answer, /* append */ false, /* is_last */ true)
                .await?;
        }
        self.update(&TaskStatus::ended(result)).await
    }

    async fn stopped(&mut self) -> Result<(), ClientGone> {
        self.out
            .send(&RpcError::stopped().response(&self.asked.rpc))
            .await
    }
}

impl TaskStream {
    /// Sends an event of the trace, if the protocol has a form for it.
    async fn pass_on(&mut self, published: &PublishedEvent) -> Result<(), ClientGone> {
        match &published.event {
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
                let Some(line) = progress::progress_line(event) else {
                    return Ok(());
                };
                // The next event contains the request itself.
                if matches!(event.kind, RuntimeEventKind::ApprovalRequested { .. }) {
                    return Ok(());
                }
                let id = format!("{}-{}", self.turn_id, event.sequence);
                let message = Some(agent_message(&id, line));
                let since = Some(json!(event.timestamp));
                self.update(&TaskStatus {
                    message,
                    since,
                    ..TaskStatus::of(TaskState::Working)
                })
                .await
            }
            _ => Ok(()),
        }
    }

    /// Text before this point is not a part of the answer.
    fn begin_again(&mut self) {
        self.said.clear();
        self.is_fresh = true;
    }

    /// Sends text of the answer.
    async fn say(&mut self, delta: &str) -> Result<(), ClientGone> {
        if delta.is_empty() {
            return Ok(());
        }
        self.said.push_str(delta);
        let is_fresh = std::mem::replace(&mut self.is_fresh, false);
        self.piece(
            &[TaskPart::Text(delta.to_owned())],
            !is_fresh,
            /* is_last */ false,
        )
        .await
    }

    /// Sends an artifact update. `append` adds to the text that was sent before; without `append`,
    /// the text is replaced.
    async fn piece(
        &self,
        pieces: &[TaskPart],
        append: bool,
        is_last: bool,
    ) -> Result<(), ClientGone> {
        let update = json!({
            "taskId": self.id.id,
            "contextId": self.id.context(),
            "artifact": artifact(self.asked.dialect, pieces),
            "append": append,
            "lastChunk": is_last,
        });
        self.send(ResultType::ArtifactUpdate, update).await
    }

    /// Sends a status update.
    async fn update(&self, status: &TaskStatus) -> Result<(), ClientGone> {
        let dialect = self.asked.dialect;
        let mut update = json!({
            "taskId": self.id.id,
            "contextId": self.id.context(),
            "status": status.write(&self.id, dialect),
        });
        set(&mut update, "metadata", status.metadata());
        if dialect == ProtocolVersion::V03 {
            let is_asked =
                status.state == TaskState::InputRequired && self.asked.until == StreamEnd::Question;
            update["final"] = (is_asked || status.state.is_terminal()).into();
        }
        self.send(ResultType::StatusUpdate, update).await
    }

    /// Sends a result of the stream.
    async fn send(&self, shape: ResultType, value: Value) -> Result<(), ClientGone> {
        let result = self.asked.dialect.wrapped(shape, value);
        self.out
            .send(&rpc::response(&self.asked.rpc, &result))
            .await
    }
}

#[cfg(test)]
mod tests;
