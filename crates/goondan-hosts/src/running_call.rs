//! A running call.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_core::ports::tool::{ToolContext, ToolError};
use serde_json::Value;

use crate::calls::{FinalMessage, RunningMessage, ScriptCallReceivers};
use crate::errors;
use crate::operations;
use crate::process::{LivenessPing, RuntimeProcess};
use crate::wire::{OperationAnswer, ShimCommand};

/// Time that a cancelled call may continue before it is abandoned. Shorter than the engine's limit
/// of two seconds.
const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// Maximum number of concurrent requests of one call.
const MAX_OPERATIONS: usize = 64;

type Operations<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, ToolError>)>>;

/// A running call. Dropping it before the answer cancels it in the runtime process. If the call
/// does not end then, the process is retired.
pub(crate) struct RunningScriptCall<'a> {
    process: Arc<RuntimeProcess>,
    receivers: ScriptCallReceivers,
    ctx: &'a ToolContext,
    operations: Operations<'a>,
    /// Set if the call was cancelled.
    cancelled: Option<LivenessPing>,
    is_over: bool,
}

impl Drop for RunningScriptCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.process.calls().forget(self.receivers.id);
            let ping = self
                .cancelled
                .unwrap_or_else(|| self.process.cancel(self.receivers.id));
            self.process.retire(ping);
        }
    }
}

impl<'a> RunningScriptCall<'a> {
    pub(crate) fn new(
        process: Arc<RuntimeProcess>,
        receivers: ScriptCallReceivers,
        ctx: &'a ToolContext,
    ) -> Self {
        RunningScriptCall {
            process,
            receivers,
            ctx,
            operations: FuturesUnordered::new(),
            cancelled: None,
            is_over: false,
        }
    }

    /// Processes the call until it ends.
    pub(crate) async fn run(mut self) -> FinalMessage {
        let cancellation = &self.ctx.cancellation;
        let until_lost = async {
            cancellation.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        tokio::pin!(until_lost);
        loop {
            tokio::select! {
                biased;
                answer = &mut self.receivers.answer => {
                    self.is_over = true;
                    self.hear_the_rest();
                    return answer.unwrap_or_else(|_| Err(errors::cancelled()).into());
                }
                () = cancellation.cancelled(), if self.cancelled.is_none() => {
                    self.cancelled = Some(self.process.cancel(self.receivers.id));
                }
                () = &mut until_lost => return Err(errors::cancelled()).into(),
                Some((ask, outcome)) = self.operations.next() => self.answer(ask, outcome),
                Some(event) = self.receivers.events.recv() => self.handle_event(event),
            }
        }
    }

    fn handle_event(&mut self, event: RunningMessage) {
        match event {
            RunningMessage::Log(level, message, fields) => {
                self.ctx.logger.log(level, &message, fields)
            }
            RunningMessage::Progress(title, metadata) => self.ctx.progress.update(&title, metadata),
            RunningMessage::Ask { ask, .. } if self.operations.len() >= MAX_OPERATIONS => {
                let many = format!("a call can have at most {MAX_OPERATIONS} open requests");
                self.answer(ask, Err(ToolError::new(many)));
            }
            RunningMessage::Ask { ask, name, payload } => {
                let runtime = self.ctx.runtime.as_ref();
                self.operations.push(Box::pin(async move {
                    (ask, operations::perform(runtime, &name, payload).await)
                }));
            }
        }
    }

    fn answer(&self, ask: u64, outcome: Result<Value, ToolError>) {
        let (value, error) = match outcome {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.into())),
        };
        self.process
            .tell(&ShimCommand::Answer(OperationAnswer { ask, value, error }));
    }

    /// Processes the events that preceded the answer. Requests of a handler that has returned are
    /// dropped.
    fn hear_the_rest(&mut self) {
        while let Ok(event) = self.receivers.events.try_recv() {
            if !matches!(event, RunningMessage::Ask { .. }) {
                self.handle_event(event);
            }
        }
    }
}
