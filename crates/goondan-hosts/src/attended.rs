//! A running call.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_core::ports::tool::{ToolContext, ToolError};
use serde_json::Value;

use crate::calls::{Ended, Event, Receivers};
use crate::errors;
use crate::operations;
use crate::process::{Ping, Process};
use crate::wire::{Answer, Down};

/// Time that a cancelled call may continue before it is abandoned. Shorter than the engine's limit
/// of two seconds.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum number of concurrent requests of one call.
const MAX_OPERATIONS: usize = 64;

type Operations<'a> = FuturesUnordered<BoxFuture<'a, (u64, Result<Value, ToolError>)>>;

/// A running call. Dropping it before the answer cancels it in the runtime process. If the call
/// does not end then, the process is retired.
pub(crate) struct Attended<'a> {
    process: Arc<Process>,
    receivers: Receivers,
    ctx: &'a ToolContext,
    operations: Operations<'a>,
    /// Set if the call was cancelled.
    cancelled: Option<Ping>,
    is_over: bool,
}

impl Drop for Attended<'_> {
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

impl<'a> Attended<'a> {
    pub(crate) fn new(process: Arc<Process>, receivers: Receivers, ctx: &'a ToolContext) -> Self {
        Attended {
            process,
            receivers,
            ctx,
            operations: FuturesUnordered::new(),
            cancelled: None,
            is_over: false,
        }
    }

    /// Processes the call until it ends.
    pub(crate) async fn run(mut self) -> Ended {
        let cancellation = &self.ctx.cancellation;
        let until_lost = async {
            cancellation.cancelled().await;
            tokio::time::sleep(GRACE).await;
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
                Some(event) = self.receivers.events.recv() => self.hear(event),
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Log(level, message, fields) => self.ctx.logger.log(level, &message, fields),
            Event::Progress(title, metadata) => self.ctx.progress.update(&title, metadata),
            Event::Ask { ask, .. } if self.operations.len() >= MAX_OPERATIONS => {
                let many = format!("a call may have {MAX_OPERATIONS} questions open at a time");
                self.answer(ask, Err(ToolError::new(many)));
            }
            Event::Ask { ask, name, payload } => {
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
            .tell(&Down::Answer(Answer { ask, value, error }));
    }

    /// Processes the events that preceded the answer. Requests of a handler that has returned are
    /// dropped.
    fn hear_the_rest(&mut self) {
        while let Ok(event) = self.receivers.events.try_recv() {
            if !matches!(event, Event::Ask { .. }) {
                self.hear(event);
            }
        }
    }
}
