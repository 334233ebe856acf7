//! One run of a layer, or of `register`. Handles messages of the code at any time, and its requests
//! one after the other. The time limit counts only while the code works.

use std::collections::VecDeque;
use std::time::Duration;

use goondan_abi::wire::operation::{LAYER_NEXT, LAYER_REQUEST, LAYER_SEND};
use goondan_abi::wire::{KeptState, NextRequest};
use goondan_spec::Code;
use serde_json::Value;
use tokio::time::Instant;

use super::ExtensionSession;
use crate::plugin_session::{
    CallUpdate, FinalMessage, PluginCall, RunningMessage, log_arguments, short_name,
};
use crate::ports::extension::{ExtensionContext, LayerHost, LayerRequest};
use crate::ports::tool::HandlerError;

/// Time after which a cancelled layer is aborted.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Maximum number of pending requests.
const MAX_PENDING_REQUESTS: usize = 64;

/// Name of a request, and the answer to the request.
type ReplayedAnswer = (String, Result<Value, HandlerError>);

/// Answers to the requests of a layer. If its host crashes, the layer is run again and gets the
/// same answers.
#[derive(Default)]
pub(super) struct AnswerReplay {
    answers: Vec<ReplayedAnswer>,
    /// Number of answers that the current run received.
    given: usize,
}

impl AnswerReplay {
    /// Returns true if no answer is recorded: the code sent no request.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Starts a replay from the first answer.
    pub(super) fn rewind(&mut self) {
        self.given = 0;
    }

    /// Returns the recorded answer if the next recorded request has this name.
    fn replay_answer(&mut self, name: &str) -> Option<Result<Value, HandlerError>> {
        let (recorded_name, answer) = self.answers.get(self.given)?;
        if recorded_name != name {
            return None;
        }
        self.given += 1;
        Some(answer.clone())
    }

    /// Records an answer. Removes the recorded answers that were not replayed.
    fn record_answer(&mut self, name: String, answer: Result<Value, HandlerError>) {
        self.answers.truncate(self.given);
        self.answers.push((name, answer));
        self.given += 1;
    }
}

/// A run of extension code.
pub(super) struct LayerExecution<'a> {
    call: PluginCall,
    extension_context: &'a ExtensionContext,
    /// The session, and true if the run receives the conversation; `None` during registration.
    session: Option<(&'a ExtensionSession, bool)>,
    /// Maximum time of continuous work.
    limit: Duration,
    waiting: VecDeque<PendingRequest>,
    ended: Option<FinalMessage>,
    has_next: bool,
    /// Error that overrides the outcome, because the code broke the protocol.
    broken: Option<HandlerError>,
}

/// A pending request.
struct PendingRequest {
    operation: u64,
    name: String,
    payload: Value,
}

impl<'a> LayerExecution<'a> {
    pub(super) fn new(
        call: PluginCall,
        extension_context: &'a ExtensionContext,
        session: Option<(&'a ExtensionSession, bool)>,
        limit: Duration,
    ) -> Self {
        let (waiting, ended) = (VecDeque::new(), None);
        LayerExecution {
            call,
            extension_context,
            session,
            limit,
            waiting,
            ended,
            has_next: false,
            broken: None,
        }
    }

    /// Handles the messages of the run until the code ends. `host` is `None` during registration,
    /// which may not send requests.
    pub(super) async fn run(
        mut self,
        mut host: Option<&mut dyn LayerHost>,
        memory: &mut AnswerReplay,
    ) -> FinalMessage {
        loop {
            // The run can end with open requests; its outcome counts anyway.
            if let Some(ended) = self.ended.take() {
                self.drain_messages();
                return self.end(ended);
            }
            if let Some(request) = self.waiting.pop_front() {
                let PendingRequest {
                    operation,
                    name,
                    payload,
                } = request;
                let answer = match host.as_deref_mut() {
                    Some(host) => self.handle_request(&name, payload, host, memory).await,
                    None => Err(HandlerError::new(
                        "an extension can't send requests during its registration",
                    )),
                };
                self.call.answer(operation, answer);
                continue;
            }
            if let Err(error) = self.wait_for_request().await {
                return Err(error).into();
            }
        }
    }

    /// Waits until the code sends a request or ends.
    ///
    /// # Errors
    /// The time limit is exceeded, or the turn is cancelled.
    async fn wait_for_request(&mut self) -> Result<(), HandlerError> {
        let cancellation = &self.extension_context.cancellation;
        let deadline = Instant::now() + self.limit;
        let mut cancelled_at = None;
        while self.waiting.is_empty() && self.ended.is_none() {
            let abort_at =
                cancelled_at.map_or(deadline, |at: Instant| deadline.min(at + CANCEL_GRACE));
            tokio::select! {
                biased;
                () = cancellation.cancelled(), if cancelled_at.is_none() => {
                    cancelled_at = Some(Instant::now());
                    self.call.cancel();
                }
                () = tokio::time::sleep_until(abort_at) => return Err(match cancelled_at {
                    Some(_) => HandlerError::new("the turn was cancelled").code(Code::TURN_CANCELLED),
                    None => timeout_error(self.limit),
                }),
                // Last, so that code that sends messages continuously does not starve the other
                // branches.
                update = self.call.next() => self.handle_update(update),
            }
        }
        Ok(())
    }

    /// Handles a request, and receives messages of the code until the answer is available.
    async fn handle_request(
        &mut self,
        name: &str,
        payload: Value,
        host: &mut dyn LayerHost,
        memory: &mut AnswerReplay,
    ) -> Result<Value, HandlerError> {
        if name == LAYER_NEXT && std::mem::replace(&mut self.has_next, true) {
            let error = HandlerError::new("`next` was called a second time").code(Code::EXT_NEXT);
            let error = error.suggest("Call `next` once, and keep its result.");
            self.broken = Some(error.clone());
            return Err(error);
        }
        let (answer, is_recalled) = match memory.replay_answer(name) {
            // The changes of this request were applied in the first run.
            Some(answer) => (answer, true),
            None => {
                let sending = send_to_host(
                    host,
                    self.extension_context,
                    self.session.map(|(session, _)| session),
                    name,
                    payload,
                );
                tokio::pin!(sending);
                let answer = loop {
                    tokio::select! {
                        biased;
                        answer = &mut sending => break answer,
                        update = self.call.next(), if self.ended.is_none() => {
                            self.handle_update(update)
                        }
                    }
                };
                memory.record_answer(name.to_owned(), answer.clone());
                (answer, false)
            }
        };
        match (name, answer) {
            (LAYER_NEXT, Ok(mut wrapped)) => {
                let session_changes = self.session.map(|(session, with_conversation)| {
                    session.pending_changes(self.extension_context, with_conversation)
                });
                let mut session_changes = session_changes.unwrap_or_default();
                if is_recalled {
                    session_changes.state = self
                        .extension_context
                        .state
                        .get()
                        .0
                        .map(|value| KeptState { value });
                }
                wrapped["news"] = serde_json::to_value(session_changes)
                    .map_err(|error| HandlerError::new(error.to_string()))?;
                Ok(wrapped)
            }
            (_, answer) => answer,
        }
    }

    /// Handles one message of the code: writes a log line, queues a request, or saves the outcome.
    /// Rejects a request if too many are queued.
    fn handle_update(&mut self, update: CallUpdate) {
        match update {
            CallUpdate::Ended(ended) => self.ended = Some(*ended),
            CallUpdate::Event(RunningMessage::Log(line)) => {
                let (level, message, fields) = log_arguments(line);
                self.extension_context.logger.log(level, &message, fields);
            }
            CallUpdate::Event(RunningMessage::Progress(_)) => {}
            CallUpdate::Event(RunningMessage::Request { operation, .. })
                if self.waiting.len() >= MAX_PENDING_REQUESTS =>
            {
                let reason = format!("{MAX_PENDING_REQUESTS} requests are already open");
                self.call.answer(operation, Err(HandlerError::new(reason)));
            }
            CallUpdate::Event(RunningMessage::Request {
                operation,
                name,
                payload,
            }) => {
                self.waiting.push_back(PendingRequest {
                    operation,
                    name,
                    payload,
                });
            }
        }
    }

    /// Handles the messages before the end. Requests of code that has ended are dropped.
    fn drain_messages(&mut self) {
        while let Some(event) = self.call.next_queued() {
            if !matches!(event, RunningMessage::Request { .. }) {
                self.handle_update(CallUpdate::Event(event));
            }
        }
    }

    /// Ends the run: saves the state, and replaces the outcome if the code broke the protocol.
    fn end(self, mut ended: FinalMessage) -> FinalMessage {
        if let Some(KeptState { value }) = ended.state.take() {
            self.extension_context.state.set(value);
        }
        if let Some((session, _)) = self.session {
            session.subscribe(ended.listens.take());
        }
        if let Some(error) = self.broken {
            ended.outcome = Err(error);
        }
        ended
    }
}

/// Returns the error for code that ran longer than `limit` without waiting for the engine.
fn timeout_error(limit: Duration) -> HandlerError {
    HandlerError::new(format!(
        "the code ran for more than {} ms continuously",
        limit.as_millis()
    ))
    .code(Code::EXT_TIMEOUT)
    .suggest("Check what the code waits for, or raise `spec.timeoutMs` of the Extension.")
}

/// Sends the request `name` of the code to the engine and returns the answer.
async fn send_to_host(
    host: &mut dyn LayerHost,
    extension_context: &ExtensionContext,
    session: Option<&ExtensionSession>,
    name: &str,
    payload: Value,
) -> Result<Value, HandlerError> {
    let invalid_arguments = |error: serde_json::Error| {
        let name = short_name(name);
        HandlerError::new(format!("invalid arguments of `{name}`: {error}"))
    };
    match name {
        LAYER_NEXT => {
            let NextRequest {
                changes,
                state,
                listens,
            } = serde_json::from_value(payload).map_err(invalid_arguments)?;
            if let Some(session) = session {
                session.subscribe(listens);
            }
            if let Some(KeptState { value }) = state {
                extension_context.state.set(value);
            }
            let wrapped = host.next(changes).await?;
            serde_json::to_value(wrapped).map_err(|error| HandlerError::new(error.to_string()))
        }
        LAYER_REQUEST => {
            let message: LayerRequest =
                serde_json::from_value(payload).map_err(invalid_arguments)?;
            host.request(message).await
        }
        LAYER_SEND => {
            let message: LayerRequest =
                serde_json::from_value(payload).map_err(invalid_arguments)?;
            host.send(message).await
        }
        _ => Err(HandlerError::new(format!("there is no operation `{name}`"))
            .suggest("Use one of the operations `next`, `request` or `send`.")),
    }
}
