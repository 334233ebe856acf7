//! One call: sends a message and waits for the resulting task.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use sse_stream::SseStream;
use tokio::sync::watch;

use super::agent::{MAX_ANSWER_BYTES, RemoteAgent};
use super::card::AgentCard;
use super::error;
use super::task::A2aTask;
use super::wire::{A2aMethod, A2aResult, A2aTaskState};
use crate::codes::{self, escaped_error_text};
use goondan_core::JsonObject;
use goondan_core::ids::derived_id;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::{Code, untrusted_text};

/// Maximum time to notify an agent of a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// First and longest interval between queries of a task's state.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(500);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of consecutive failed queries of a task's state.
const MAX_POLL_FAILURES: u32 = 5;
/// Maximum number of characters in a progress message.
const MAX_MESSAGE_CHARS: usize = 200;

pub(super) struct A2aCall<'a> {
    agent: &'a RemoteAgent,
    ctx: &'a ToolContext,
    message: &'a str,
    conversation: Option<&'a str>,
    /// Id of the task that requested more input.
    answers: Option<&'a str>,
    task: A2aTask,
    /// The id of the task, once it is known.
    named: watch::Sender<Option<String>>,
}

impl<'a> A2aCall<'a> {
    /// Reads the arguments `message`, `conversation` and `task` of the tool call.
    pub(super) fn new(agent: &'a RemoteAgent, ctx: &'a ToolContext, input: &'a JsonObject) -> Self {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        A2aCall {
            agent,
            ctx,
            message: text("message").unwrap_or_default(),
            conversation: text("conversation"),
            answers: text("task"),
            task: A2aTask::default(),
            named: watch::Sender::default(),
        }
    }

    /// Sends the message and waits for the end of the task. If the call is cancelled, notifies the
    /// agent.
    pub(super) async fn run(mut self) -> Result<ToolOutput, HandlerError> {
        let (agent, cancelled) = (self.agent, self.ctx.cancellation.clone());
        let mut task_id = self.named.subscribe();
        let ended = {
            let mut exchange = std::pin::pin!(self.send_and_wait());
            let done = tokio::select! {
                done = &mut exchange => Some(done),
                () = cancelled.cancelled() => None,
            };
            match done {
                Some(done) => Ok(done),
                // The message may be in transit, so the agent may still begin a task.
                None => {
                    // Waits until the agent reports the id; `None` without a task.
                    let reported_id = async {
                        tokio::select! {
                            _ = &mut exchange => None,
                            known = task_id.wait_for(Option::is_some) => {
                                known.ok().and_then(|id| id.clone())
                            }
                        }
                    };
                    Err(tokio::time::timeout(CANCEL_TIMEOUT, reported_id)
                        .await
                        .ok()
                        .flatten())
                }
            }
        };
        match ended {
            Ok(done) => {
                done?;
                self.output()
            }
            Err(id) => {
                if let Some(id) = id
                    && let Ok(card) = agent.card().await
                {
                    let cancel = self.request(&card, A2aMethod::Cancel, json!({"id": id}));
                    // The call is cancelled in either case, so the result does not matter.
                    let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancel).await;
                }
                Err(codes::cancelled_error())
            }
        }
    }

    /// Sends the message and waits for the end of the task. If a response is lost, queries the task
    /// instead.
    async fn send_and_wait(&mut self) -> Result<(), HandlerError> {
        let card = self.agent.card().await?;
        // A call that is repeated after a crash has the same id. Agents that check it begin no
        // second task.
        let ctx = self.ctx;
        let id = derived_id(&[
            "a2a",
            &ctx.trace_id,
            &ctx.turn_id,
            &ctx.message.id,
            &ctx.tool_call_id,
        ]);
        let params = card
            .version
            .message(&id, self.message, self.conversation, self.answers);
        // The task of an answer is already known, so it can be cancelled.
        self.task.id = self.answers.map(str::to_owned);
        self.publish_task_id();
        let outcome = match card.streams {
            true => self.stream(&card, params).await,
            false => self
                .request(&card, A2aMethod::Send, params)
                .await
                .and_then(|result| self.take(&result)),
        };
        if let Err(failure) = outcome {
            let is_refusal = failure.code.as_deref() == Some(Code::A2A_REFUSED.as_str());
            if is_refusal || self.task.id.is_none() || self.answers.is_some() {
                // The agent may have moved after its card was read.
                self.agent.forget_card().await;
                return Err(failure);
            }
            tracing::debug!(
                tool = self.agent.name,
                %failure,
                "could not read another agent's response; polling its task instead"
            );
        }
        self.wait(&card).await
    }

    /// Reads the task from an event stream.
    async fn stream(&mut self, card: &AgentCard, params: Value) -> Result<(), HandlerError> {
        let body = card
            .version
            .request(A2aMethod::Stream, card.tenant.as_deref(), params);
        let response = self
            .agent
            .post(card, self.ctx.caller.as_ref(), "text/event-stream", &body)
            .await?;
        let kind = response
            .headers()
            .get(reqwest::header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            // Any other content type usually contains an error.
            let bytes = self.agent.body(response, MAX_ANSWER_BYTES).await?;
            let result = self.result(&bytes)?;
            return self.take(&result);
        }
        let mut events =
            SseStream::from_bytes_stream(Box::pin(limit_size(response.bytes_stream())));
        while let Some(event) = events.next().await {
            let event = event.map_err(|failure| {
                self.agent
                    .invalid_answer(&format!("sent an incomplete answer: {failure}"))
            })?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let result = self.result(data.as_bytes())?;
            self.take(&result)?;
            if self.task.state() != A2aTaskState::Open {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Queries the state of the task until it is over. Used if its stream ended early or did not
    /// exist.
    async fn wait(&mut self, card: &AgentCard) -> Result<(), HandlerError> {
        let (mut pause, mut failures) = (MIN_POLL_INTERVAL, 0);
        while self.task.state() == A2aTaskState::Open {
            let Some(id) = self.task.id.clone() else {
                return Err(self
                    .agent
                    .invalid_answer("answered with neither a task nor a message"));
            };
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_POLL_INTERVAL);
            match self.request(card, A2aMethod::Get, json!({"id": id})).await {
                Ok(task) => {
                    failures = 0;
                    let message = self.task.take(A2aResult::Task(&task));
                    self.report_progress(message);
                }
                Err(failure) => {
                    failures += 1;
                    let is_refusal = failure.code.as_deref() == Some(Code::A2A_REFUSED.as_str());
                    if is_refusal || failures == MAX_POLL_FAILURES {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a request and returns its result.
    async fn request(
        &self,
        card: &AgentCard,
        method: A2aMethod,
        params: Value,
    ) -> Result<Value, HandlerError> {
        let body = card.version.request(method, card.tenant.as_deref(), params);
        let response = self
            .agent
            .post(card, self.ctx.caller.as_ref(), "application/json", &body)
            .await?;
        let bytes = self.agent.body(response, MAX_ANSWER_BYTES).await?;
        self.result(&bytes)
    }

    /// Returns the result of a response, or its error.
    fn result(&self, response: &[u8]) -> Result<Value, HandlerError> {
        let mut response: Value = serde_json::from_slice(response).map_err(|failure| {
            self.agent
                .invalid_answer(&format!("sent an answer that is not JSON: {failure}"))
        })?;
        if let Some(refusal) = response.get("error").filter(|error| !error.is_null()) {
            let message = refusal
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or("no reason given");
            let number = refusal.get("code").cloned().unwrap_or_default();
            let problem = format!(
                "refused the request: {} ({})",
                escaped_error_text(message),
                escaped_error_text(&number.to_string())
            );
            return Err(error(Code::A2A_REFUSED, &self.agent.name, problem));
        }
        match response.get_mut("result").map(Value::take) {
            Some(result @ Value::Object(_)) => Ok(result),
            _ => Err(self.agent.invalid_answer("answered without a result")),
        }
    }

    /// Applies a result to the task, and reports progress.
    fn take(&mut self, result: &Value) -> Result<(), HandlerError> {
        let piece = A2aResult::read(result).ok_or_else(|| {
            self.agent
                .invalid_answer("sent an answer that is not valid A2A")
        })?;
        let message = self.task.take(piece);
        self.publish_task_id();
        self.report_progress(message);
        Ok(())
    }

    /// Publishes the task id for a possible cancellation.
    fn publish_task_id(&self) {
        self.named.send_if_modified(|task_id| {
            task_id.is_none() && {
                *task_id = self.task.id.clone();
                task_id.is_some()
            }
        });
    }

    /// Reports a message of the agent as progress.
    fn report_progress(&self, message: Option<String>) {
        // A finished task reports its result, not progress.
        if let Some(message) = message.filter(|_| self.task.state() == A2aTaskState::Open) {
            let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
            self.ctx.progress.update(
                &untrusted_text::line(message).to_string(),
                JsonObject::new(),
            );
        }
    }

    /// Converts the finished task to the output of the tool call. Fails if the task failed.
    fn output(self) -> Result<ToolOutput, HandlerError> {
        let A2aCall { agent, task, .. } = self;
        let conversation = task.context.clone();
        let answer = task.answer();
        match task.state() {
            A2aTaskState::Failed => {
                let reason = if task.words.trim().is_empty() {
                    "no reason given"
                } else {
                    &task.words
                };
                Err(error(
                    Code::A2A_TASK,
                    &agent.name,
                    format_args!("failed the task: {}", escaped_error_text(reason)),
                ))
            }
            A2aTaskState::Asks => Ok(ToolOutput {
                output: json!({"question": task.words, "task": task.id, "conversation": conversation}),
                title: Some(format!("{} has a question", agent.name)),
                ..ToolOutput::default()
            }),
            A2aTaskState::Completed | A2aTaskState::Open => Ok(ToolOutput {
                output: json!({"answer": answer.text, "conversation": conversation}),
                title: Some(format!("{} answered", agent.name)),
                attachments: answer.attachments,
                ..ToolOutput::default()
            }),
        }
    }
}

/// Limits the size of a stream: fails after [`MAX_ANSWER_BYTES`].
fn limit_size<E: std::error::Error + Send + Sync + 'static>(
    stream: impl Stream<Item = Result<Bytes, E>>,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let mut remaining_bytes = MAX_ANSWER_BYTES;
    stream.map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        remaining_bytes = remaining_bytes
            .checked_sub(chunk.len())
            .ok_or_else(|| std::io::Error::other("the answer is larger than 16 MiB"))?;
        Ok(chunk)
    })
}
