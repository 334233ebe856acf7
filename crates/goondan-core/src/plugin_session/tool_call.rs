//! A running call of a tool.

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_spec::Code;
use serde_json::Value;

use super::progress_gate::ProgressGate;
use super::{CallUpdate, FinalMessage, PluginCall, RunningMessage, log_arguments};
use crate::agent_operations;
use crate::ports::tool::{HandlerError, ToolContext};

/// Maximum number of concurrent requests of one call.
const MAX_OPERATIONS: usize = 64;

type Operations<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, HandlerError>)>>;

struct RunningToolCall<'a> {
    call: PluginCall,
    ctx: &'a ToolContext,
    operations: Operations<'a>,
    progress: ProgressGate,
}

/// Processes a call until it ends. Returns `None` if it was cancelled and did not end within the
/// grace period.
pub async fn run_tool_call(call: PluginCall, ctx: &ToolContext) -> Option<FinalMessage> {
    let interval = call.transport().calls().rules().progress_interval;
    RunningToolCall {
        call,
        ctx,
        operations: FuturesUnordered::new(),
        progress: ProgressGate::new(interval),
    }
    .run()
    .await
}

/// Returns the error of a call that did not end after its cancellation. `name` is that of the tool.
pub fn never_ended_error(name: &str) -> HandlerError {
    HandlerError::new(format!("{name} did not end after it was cancelled"))
        .code(Code::TOOL_CANCELLED)
}

impl RunningToolCall<'_> {
    /// Runs the call until its result. Returns `None` if the call was cancelled and its code did
    /// not end within the grace period.
    async fn run(mut self) -> Option<FinalMessage> {
        if let Some(ended) = self.call.poll_briefly() {
            self.drain_events();
            return Some(ended);
        }
        let cancel_grace = self.call.transport().calls().rules().cancel_grace;
        let cancellation = &self.ctx.cancellation;
        let until_lost = async {
            cancellation.cancelled().await;
            tokio::time::sleep(cancel_grace).await;
        };
        tokio::pin!(until_lost);
        let mut is_cancel_sent = false;
        loop {
            tokio::select! {
                biased;
                () = cancellation.cancelled(), if !is_cancel_sent => {
                    is_cancel_sent = true;
                    self.call.cancel();
                }
                () = &mut until_lost => {
                    self.call.abandon();
                    return None;
                }
                Some((operation, outcome)) = self.operations.next() => self.call.answer(operation, outcome),
                () = self.progress.due() => self.progress.flush(self.ctx.progress.as_ref()),
                // Polled last, so that code with continuous output does not starve the other
                // branches.
                update = self.call.next() => match update {
                    CallUpdate::Event(event) => self.handle_event(event),
                    CallUpdate::Ended(ended) => {
                        self.drain_events();
                        return Some(*ended);
                    }
                },
            }
        }
    }

    /// Handles an event of the call.
    fn handle_event(&mut self, event: RunningMessage) {
        match event {
            RunningMessage::Progress(progress) => {
                self.progress.update(progress, self.ctx.progress.as_ref())
            }
            RunningMessage::Log(line) => {
                let (level, message, fields) = log_arguments(line);
                self.ctx.logger.log(level, &message, fields);
            }
            RunningMessage::Request {
                operation,
                name,
                payload,
            } => self.perform(operation, name, payload),
        }
    }

    /// Starts an operation that the code requested.
    fn perform(&mut self, operation: u64, name: String, payload: Value) {
        if self.operations.len() >= MAX_OPERATIONS {
            let many = format!("a call can have at most {MAX_OPERATIONS} open requests");
            return self.call.answer(operation, Err(HandlerError::new(many)));
        }
        let runtime = self.ctx.runtime.as_ref();
        self.operations.push(Box::pin(async move {
            let outcome = agent_operations::perform(runtime, &name, payload).await;
            (operation, outcome)
        }));
    }

    /// Handles the remaining events before the answer. Requests of code that has returned are not
    /// performed.
    fn drain_events(&mut self) {
        while let Some(event) = self.call.next_queued() {
            if !matches!(event, RunningMessage::Request { .. }) {
                self.handle_event(event);
            }
        }
        self.progress.flush(self.ctx.progress.as_ref());
    }
}
