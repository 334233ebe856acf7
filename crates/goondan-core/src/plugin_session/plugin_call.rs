//! One call of a plugin, from its first message to its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan_abi::spin_wait::spin_until_found;
use goondan_spec::Code;
use serde_json::Value;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::open_calls::CallReceivers;
use super::{CallKind, FinalMessage, LivenessPing, PluginStart, PluginTransport, RunningMessage};
use crate::ports::tool::HandlerError;

/// A running call. Dropping it before the answer cancels and abandons the call.
pub struct PluginCall {
    transport: Arc<dyn PluginTransport>,
    kind: CallKind,
    id: u64,
    answer: oneshot::Receiver<FinalMessage>,
    events: mpsc::Receiver<RunningMessage>,
    /// Requests of the code without an answer.
    unanswered: Vec<u64>,
    /// Set if the call was cancelled.
    cancelled: Option<LivenessPing>,
    is_over: bool,
    began: Instant,
}

/// Message of a running call.
#[derive(Debug)]
pub enum CallUpdate {
    /// A message before the end.
    Event(RunningMessage),
    /// The answer.
    Ended(Box<FinalMessage>),
}

impl PluginCall {
    /// Begins a call.
    ///
    /// # Errors
    /// The code accepts no further calls.
    pub fn begin(
        transport: Arc<dyn PluginTransport>,
        start: PluginStart,
    ) -> Result<PluginCall, HandlerError> {
        let CallReceivers { id, answer, events } = transport.calls().begin()?;
        let call = PluginCall {
            transport,
            kind: start.kind(),
            id,
            answer,
            events,
            unanswered: Vec::new(),
            cancelled: None,
            is_over: false,
            began: Instant::now(),
        };
        call.transport.start(id, start)?;
        Ok(call)
    }

    pub(super) fn transport(&self) -> &dyn PluginTransport {
        &*self.transport
    }

    /// Polls briefly for the answer, if the last answer of the code came fast. Returns `None` if no
    /// answer arrived.
    pub(super) fn poll_briefly(&mut self) -> Option<FinalMessage> {
        if !self.transport.calls().answers_fast() {
            return None;
        }
        let answer = spin_until_found(|| match self.answer.try_recv() {
            Err(TryRecvError::Empty) => None,
            answered => Some(answered.ok()),
        })?;
        Some(self.finish(answer))
    }

    /// Receives the next message. Cancel-safe; not called again after [`CallUpdate::Ended`].
    pub async fn next(&mut self) -> CallUpdate {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => CallUpdate::Event(self.note_request(event)),
            answer = &mut self.answer => CallUpdate::Ended(Box::new(self.finish(answer.ok()))),
        }
    }

    /// Returns the next message that arrived before the end and is not yet received.
    pub fn next_queued(&mut self) -> Option<RunningMessage> {
        let event = self.events.try_recv().ok()?;
        Some(self.note_request(event))
    }

    /// Records the number of a request, and returns the event.
    fn note_request(&mut self, event: RunningMessage) -> RunningMessage {
        if let RunningMessage::Request { operation, .. } = event {
            self.unanswered.push(operation);
        }
        event
    }

    /// Ends the call with `answer`; `None` means that the code was closed.
    fn finish(&mut self, answer: Option<FinalMessage>) -> FinalMessage {
        self.is_over = true;
        let calls = self.transport.calls();
        calls.record_answer_time(self.began.elapsed());
        let ended = answer.unwrap_or_else(|| Err(closed_error(&calls.rules().name)).into());
        self.transport.read_end(self.kind, ended)
    }

    /// Answers a request of the code.
    pub fn answer(&mut self, operation: u64, outcome: Result<Value, HandlerError>) {
        self.unanswered.retain(|waiting| *waiting != operation);
        self.transport.answer(operation, outcome);
    }

    /// Asks the code to end.
    pub fn cancel(&mut self) -> LivenessPing {
        *self.cancelled.get_or_insert_with(|| {
            self.transport.calls().cancel(self.id);
            self.transport.cancel(self.id)
        })
    }

    /// Ends the call without the code, which counts as lost from now on.
    pub(super) fn abandon(&mut self) {
        self.transport.calls().give_up(self.id, Duration::ZERO);
    }
}

/// Returns the error of a call whose code was closed. `name` is that of the plugin.
pub fn closed_error(name: &str) -> HandlerError {
    HandlerError::new(format!("{name} was closed during the call"))
        .code(Code::TOOL_UNAVAILABLE)
        .suggest("Try again.")
}

impl Drop for PluginCall {
    fn drop(&mut self) {
        let rules = self.transport.calls().rules();
        let (grace, answers_after_end) = (rules.cancel_grace, rules.answers_after_end);
        if !self.is_over {
            // Abandon the call before the code is notified, so that even an immediate answer finds
            // no open call.
            self.transport.calls().give_up(self.id, grace);
            let ping = self.cancel();
            self.transport.abandoned(ping);
        }
        if answers_after_end {
            for operation in std::mem::take(&mut self.unanswered) {
                let over = HandlerError::new("the call is over").code(Code::TOOL_CANCELLED);
                self.transport.answer(operation, Err(over));
            }
        }
    }
}
