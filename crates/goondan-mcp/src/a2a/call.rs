//! One call: sends a message and waits for the resulting task.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use sse_stream::SseStream;
use tokio::sync::watch;

use super::agent::{Agent, MAX_ANSWER};
use super::card::Card;
use super::error;
use super::task::Task;
use super::wire::{Method, Piece, State};
use crate::codes::{self, said};
use goondan_core::JsonObject;
use goondan_core::ids::derived_id;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::{Code, shown};

/// Maximum time to notify an agent of a cancellation.
const FAREWELL: Duration = Duration::from_secs(1);
/// First and longest interval between queries of a task's state.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of consecutive failed queries of a task's state.
const MOST_FAILURES: u32 = 5;
/// Maximum number of characters in a progress message.
const MAX_MESSAGE: usize = 200;

pub(super) struct Call<'a> {
    agent: &'a Agent,
    ctx: &'a ToolContext,
    message: &'a str,
    conversation: Option<&'a str>,
    /// Id of the task that requested more input.
    answers: Option<&'a str>,
    task: Task,
    /// The id of the task, once it is known.
    named: watch::Sender<Option<String>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(agent: &'a Agent, ctx: &'a ToolContext, input: &'a JsonObject) -> Self {
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        Call {
            agent,
            ctx,
            message: text("message").unwrap_or_default(),
            conversation: text("conversation"),
            answers: text("task"),
            task: Task::default(),
            named: watch::Sender::default(),
        }
    }

    /// Sends the message and waits for the end of the task. If the call is cancelled, notifies the
    /// agent.
    pub(super) async fn run(mut self) -> Result<ToolOutput, ToolError> {
        let (agent, cancelled) = (self.agent, self.ctx.cancellation.clone());
        let mut named = self.named.subscribe();
        let ended = {
            let mut asking = std::pin::pin!(self.ask());
            let done = tokio::select! {
                done = &mut asking => Some(done),
                () = cancelled.cancelled() => None,
            };
            match done {
                Some(done) => Ok(done),
                // The message may be in transit, so the agent may still begin a task.
                None => {
                    let name = async {
                        tokio::select! {
                            _ = &mut asking => None,
                            named = named.wait_for(Option::is_some) => named.ok().and_then(|id| id.clone()),
                        }
                    };
                    Err(tokio::time::timeout(FAREWELL, name).await.ok().flatten())
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
                    let cancel = self.request(&card, Method::Cancel, json!({"id": id}));
                    // The call is cancelled in either case, so the result does not matter.
                    let _ = tokio::time::timeout(FAREWELL, cancel).await;
                }
                Err(codes::cancelled())
            }
        }
    }

    async fn ask(&mut self) -> Result<(), ToolError> {
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
        self.name();
        let sent = match card.streams {
            true => self.stream(&card, params).await,
            false => self
                .request(&card, Method::Send, params)
                .await
                .and_then(|result| self.take(&result)),
        };
        if let Err(failure) = sent {
            let is_refusal = failure.code.as_deref() == Some(Code::A2A_REFUSED.as_str());
            if is_refusal || self.task.id.is_none() || self.answers.is_some() {
                // The agent may have moved after its card was read.
                self.agent.forget_card().await;
                return Err(failure);
            }
            tracing::debug!(tool = self.agent.name, %failure, "a task of another agent is asked for again");
        }
        self.wait(&card).await
    }

    /// Reads the task from an event stream.
    async fn stream(&mut self, card: &Card, params: Value) -> Result<(), ToolError> {
        let body = card
            .version
            .request(Method::Stream, card.tenant.as_deref(), params);
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
            let bytes = self.agent.body(response, MAX_ANSWER).await?;
            let result = self.result(&bytes)?;
            return self.take(&result);
        }
        let mut events = SseStream::from_bytes_stream(Box::pin(bounded(response.bytes_stream())));
        while let Some(event) = events.next().await {
            let event = event.map_err(|failure| {
                self.agent
                    .nonsense(&format!("broke its answer off: {failure}"))
            })?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let result = self.result(data.as_bytes())?;
            self.take(&result)?;
            if self.task.state() != State::Open {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Queries the state of the task until it is over. Used if its stream ended early or did not
    /// exist.
    async fn wait(&mut self, card: &Card) -> Result<(), ToolError> {
        let (mut pause, mut failures) = (FIRST_PAUSE, 0);
        while self.task.state() == State::Open {
            let Some(id) = self.task.id.clone() else {
                return Err(self
                    .agent
                    .nonsense("has answered with neither a task nor a message"));
            };
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.request(card, Method::Get, json!({"id": id})).await {
                Ok(task) => {
                    failures = 0;
                    let told = self.task.take(Piece::Task(&task));
                    self.tell(told);
                }
                Err(failure) => {
                    failures += 1;
                    let is_refusal = failure.code.as_deref() == Some(Code::A2A_REFUSED.as_str());
                    if is_refusal || failures == MOST_FAILURES {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    async fn request(
        &self,
        card: &Card,
        method: Method,
        params: Value,
    ) -> Result<Value, ToolError> {
        let body = card.version.request(method, card.tenant.as_deref(), params);
        let response = self
            .agent
            .post(card, self.ctx.caller.as_ref(), "application/json", &body)
            .await?;
        let bytes = self.agent.body(response, MAX_ANSWER).await?;
        self.result(&bytes)
    }

    /// Returns the result of a response, or its error.
    fn result(&self, response: &[u8]) -> Result<Value, ToolError> {
        let mut response: Value = serde_json::from_slice(response).map_err(|failure| {
            self.agent
                .nonsense(&format!("answered something that is not JSON: {failure}"))
        })?;
        if let Some(refusal) = response.get("error").filter(|error| !error.is_null()) {
            let words = refusal
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or("it does not say why");
            let number = refusal.get("code").cloned().unwrap_or_default();
            let what = format!(
                "refuses that: {} ({})",
                said(words),
                said(&number.to_string())
            );
            return Err(error(Code::A2A_REFUSED, &self.agent.name, what));
        }
        match response.get_mut("result").map(Value::take) {
            Some(result @ Value::Object(_)) => Ok(result),
            _ => Err(self.agent.nonsense("answered without a result")),
        }
    }

    fn take(&mut self, result: &Value) -> Result<(), ToolError> {
        let piece = Piece::read(result).ok_or_else(|| {
            self.agent
                .nonsense("answered something that A2A does not have")
        })?;
        let told = self.task.take(piece);
        self.name();
        self.tell(told);
        Ok(())
    }

    /// Publishes the task id for a possible cancellation.
    fn name(&self) {
        self.named.send_if_modified(|named| {
            named.is_none() && {
                *named = self.task.id.clone();
                named.is_some()
            }
        });
    }

    /// Reports a message of the agent as progress.
    fn tell(&self, words: Option<String>) {
        if let Some(words) = words.filter(|_| self.task.state() == State::Open) {
            let words: String = words.chars().take(MAX_MESSAGE).collect();
            self.ctx
                .progress
                .update(&shown::line(words).to_string(), JsonObject::new());
        }
    }

    fn output(self) -> Result<ToolOutput, ToolError> {
        let Call { agent, task, .. } = self;
        let conversation = task.context.clone();
        let answer = task.answer();
        match task.state() {
            State::Failed => {
                let words = if task.words.trim().is_empty() {
                    "it does not say why"
                } else {
                    &task.words
                };
                Err(error(
                    Code::A2A_TASK,
                    &agent.name,
                    format_args!("has not done it: {}", said(words)),
                ))
            }
            State::Asks => Ok(ToolOutput {
                output: json!({"question": task.words, "task": task.id, "conversation": conversation}),
                title: Some(format!("{} asks back", agent.name)),
                ..ToolOutput::default()
            }),
            State::Completed | State::Open => Ok(ToolOutput {
                output: json!({"answer": answer.text, "conversation": conversation}),
                title: Some(format!("{} has answered", agent.name)),
                attachments: answer.attachments,
                ..ToolOutput::default()
            }),
        }
    }
}

/// Limits the size of a stream.
fn bounded<E: std::error::Error + Send + Sync + 'static>(
    stream: impl Stream<Item = Result<Bytes, E>>,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let mut left = MAX_ANSWER;
    stream.map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        left = left
            .checked_sub(chunk.len())
            .ok_or_else(|| std::io::Error::other("it is larger than 16 MiB"))?;
        Ok(chunk)
    })
}
