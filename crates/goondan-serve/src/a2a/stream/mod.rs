//! Stream of task updates.

use goondan::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::gateway::TurnUpdate;
use serde_json::{Value, json};

use super::encoding::{ProtocolVersion, ResultType, TaskPart, TaskState, set};
use super::rpc::{self, RpcError};
use super::send::StartedTask;
use super::task::{Task, TaskId, TaskStatus, agent_message, answer_of, encode_artifact};
use crate::progress;
use crate::service::Service;
use crate::turn_encoder::{self, ClientGone, Events, StreamFlow, StreamSender, TurnEncoder};

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
pub(super) fn stream_task(
    service: &Service,
    started: StartedTask,
    request: StreamRequest,
) -> Events {
    let StartedTask { id, turn } = started;
    let turn_id = turn.turn_id().to_owned();
    turn_encoder::stream_turn(service.gateway(), turn, |out| TaskStream {
        service: service.clone(),
        asked: request,
        id,
        turn_id,
        out,
        said: String::new(),
        is_fresh: true,
    })
}

impl TurnEncoder for TaskStream {
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

    async fn encode(&mut self, update: TurnUpdate) -> Result<StreamFlow, ClientGone> {
        match update {
            TurnUpdate::TextSoFar(running) => {
                self.restart_text();
                self.send_text(&running.text).await?;
            }
            TurnUpdate::Text(delta) => self.send_text(&delta).await?,
            TurnUpdate::Restarted => self.restart_text(),
            TurnUpdate::Event(published) => {
                if published.begins_step_of(&self.turn_id) {
                    self.restart_text();
                }
                if let SwarmEvent::Runtime(event) = &published.event {
                    self.report_progress(event).await?;
                }
            }
            TurnUpdate::ApprovalRequested(request) => {
                let status = TaskStatus::awaiting_approval(&self.service, &self.id, &request);
                self.update(&status).await?;
                if self.asked.until == StreamEnd::Question {
                    return Ok(StreamFlow::Enough);
                }
            }
            TurnUpdate::ApprovalClosed(_) => {
                self.update(&TaskStatus::from_state(TaskState::Working))
                    .await?;
            }
            TurnUpdate::Reasoning(_) | TurnUpdate::Lagged => {}
            TurnUpdate::Ended(result) => self.end(&result).await?,
            TurnUpdate::SwarmEnded => {
                let stopped = RpcError::swarm_stopped().response(&self.asked.rpc);
                self.out.send(&stopped).await?;
            }
        }
        Ok(StreamFlow::More)
    }
}

impl TaskStream {
    /// Sends the answer and the final status.
    async fn end(&mut self, result: &TurnResult) -> Result<(), ClientGone> {
        let answer = answer_of(result);
        let is_said = !self.is_fresh && answer == [TaskPart::Text(self.said.clone())];
        // Streamed text only needs the end mark.
        if is_said {
            self.send_artifact_update(
                &[TaskPart::Text(String::new())],
                /* append */ true,
                /* is_last */ true,
            )
            .await?;
        } else if !answer.is_empty() {
            self.send_artifact_update(&answer, /* append */ false, /* is_last */ true)
                .await?;
        }
        self.update(&TaskStatus::from_result(result)).await
    }

    /// Sends the progress line of an event, if any, as a status message.
    async fn report_progress(&mut self, event: &RuntimeEvent) -> Result<(), ClientGone> {
        // The next update contains the request itself.
        if let RuntimeEventKind::ApprovalRequested { .. } = &event.kind {
            return Ok(());
        }
        let Some(line) = progress::progress_line(event) else {
            return Ok(());
        };
        let id = format!("{}-{}", self.turn_id, event.sequence);
        let message = Some(agent_message(&id, line));
        let since = Some(json!(event.timestamp));
        self.update(&TaskStatus {
            message,
            since,
            ..TaskStatus::from_state(TaskState::Working)
        })
        .await
    }

    /// Discards the text so far. The next text replaces it at the client.
    fn restart_text(&mut self) {
        self.said.clear();
        self.is_fresh = true;
    }

    /// Sends text of the answer.
    async fn send_text(&mut self, delta: &str) -> Result<(), ClientGone> {
        if delta.is_empty() {
            return Ok(());
        }
        self.said.push_str(delta);
        let is_fresh = std::mem::replace(&mut self.is_fresh, false);
        self.send_artifact_update(
            &[TaskPart::Text(delta.to_owned())],
            !is_fresh,
            /* is_last */ false,
        )
        .await
    }

    /// Sends an artifact update. `append` adds to the text that was sent before; without `append`,
    /// the text is replaced.
    async fn send_artifact_update(
        &self,
        pieces: &[TaskPart],
        append: bool,
        is_last: bool,
    ) -> Result<(), ClientGone> {
        let update = json!({
            "taskId": self.id.id,
            "contextId": self.id.context_id(),
            "artifact": encode_artifact(self.asked.dialect, pieces),
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
            "contextId": self.id.context_id(),
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
        let result = self.asked.dialect.encode_response(shape, value);
        self.out
            .send(&rpc::response(&self.asked.rpc, &result))
            .await
    }
}

#[cfg(test)]
mod tests;
