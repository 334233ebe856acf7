//! A library export as a [`ToolHandler`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use goondan_abi::wire;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{Attachment, ToolContext, ToolError, ToolHandler, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use serde_json::Value;

use crate::connection::{LibraryCallHandle, LibraryCallUpdate, log_for_call};
use crate::library_messages::{LibraryCallEvent, Outcome};
use crate::opened_library::OpenedLibrary;
use crate::operations;
use crate::progress::ProgressGate;

/// Maximum number of concurrent requests of one call.
const MAX_OPERATIONS: usize = 64;

pub(crate) struct ExportHandler {
    pub(crate) library: Arc<OpenedLibrary>,
    /// Hash of the library's file.
    pub(crate) content: String,
    pub(crate) tool: String,
    pub(crate) export: String,
    pub(crate) config: JsonObject,
    /// Maximum duration of a call. The engine enforces it; the library receives the value, and the
    /// handler reports the correct code.
    pub(crate) timeout: Duration,
    /// The field that sets the timeout.
    pub(crate) timeout_field: &'static str,
    pub(crate) cancel_grace: Duration,
}

#[async_trait]
impl ToolHandler for ExportHandler {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let started = Instant::now();
        let outcome = match self.begin(ctx, input).await {
            Ok(open) => {
                RunningLibraryCall::new(open, ctx)
                    .run(self.cancel_grace)
                    .await
            }
            Err(error) => Some(Err(error)),
        };
        match outcome {
            Some(outcome) => outcome.map(output).map_err(error),
            None => Err(self.never_ended(started.elapsed())),
        }
    }

    fn code(&self) -> Option<&str> {
        Some(&self.content)
    }
}

impl ExportHandler {
    /// Connects to the library and begins the call.
    async fn begin(&self, ctx: &ToolContext, arguments: JsonObject) -> Outcome<LibraryCallHandle> {
        self.library
            .connect()
            .await?
            .begin(self.request(ctx, arguments))
    }

    /// Returns the call as the library receives it.
    fn request(&self, ctx: &ToolContext, arguments: JsonObject) -> wire::CallRequest {
        wire::CallRequest {
            tool: self.tool.clone(),
            export: self.export.clone(),
            arguments,
            config: self.config.clone(),
            context: context(ctx, self.timeout),
        }
    }

    /// Returns the error of a call that did not end within `after`.
    fn never_ended(&self, after: Duration) -> ToolError {
        let name = format!("{}__{}", self.tool, self.export);
        if after >= self.timeout {
            return ToolError::new(format!(
                "{name} did not finish within {} ms",
                self.timeout.as_millis()
            ))
            .code(Code::TOOL_TIMEOUT)
            .suggest(format!(
                "Request less per call, or raise `{}` of the Tool.",
                self.timeout_field
            ));
        }
        cancelled(&name)
    }
}

/// Creates the error for a call that did not end after its cancellation.
pub(crate) fn cancelled(name: &str) -> ToolError {
    ToolError::new(format!("{name} did not end after it was cancelled")).code(Code::TOOL_CANCELLED)
}

/// Returns the context of a call as the library receives it.
pub(crate) fn context(ctx: &ToolContext, timeout: Duration) -> wire::CallContext {
    wire::CallContext {
        agent_name: ctx.agent_name.clone(),
        instance_key: ctx.instance_key.clone(),
        turn_id: ctx.turn_id.clone(),
        trace_id: ctx.trace_id.clone(),
        tool_call_id: ctx.tool_call_id.clone(),
        workdir: ctx.workdir.to_string_lossy().into_owned(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        permissions: ctx.granted.iter().map(permission).collect(),
        message: serde_json::to_value(&*ctx.message).unwrap_or_default(),
    }
}

type Operations<'a> = FuturesUnordered<BoxFuture<'a, (u64, Outcome<Value>)>>;

pub(crate) struct RunningLibraryCall<'a> {
    open: LibraryCallHandle,
    ctx: &'a ToolContext,
    operations: Operations<'a>,
    progress: ProgressGate,
}

impl<'a> RunningLibraryCall<'a> {
    pub(crate) fn new(open: LibraryCallHandle, ctx: &'a ToolContext) -> Self {
        RunningLibraryCall {
            open,
            ctx,
            operations: FuturesUnordered::new(),
            progress: ProgressGate::default(),
        }
    }

    /// Processes the call until it ends. Returns `None` if it was cancelled and did not end within
    /// the grace period.
    pub(crate) async fn run(mut self, cancel_grace: Duration) -> Option<Outcome<wire::ToolOutput>> {
        if let Some(outcome) = self.open.at_once() {
            self.hear_the_rest();
            return Some(outcome);
        }
        let cancellation = &self.ctx.cancellation;
        let until_lost = async {
            cancellation.cancelled().await;
            tokio::time::sleep(cancel_grace).await;
        };
        tokio::pin!(until_lost);
        let mut told = false;
        loop {
            tokio::select! {
                biased;
                () = cancellation.cancelled(), if !told => {
                    told = true;
                    self.open.cancel();
                }
                () = &mut until_lost => {
                    self.open.write_off();
                    return None;
                }
                Some((operation, outcome)) = self.operations.next() => self.open.reply(operation, outcome),
                () = self.progress.due() => self.progress.flush(self.ctx.progress.as_ref()),
                // Polled last, so that a library with continuous output does not starve the other
                // branches.
                happening = self.open.next() => match happening {
                    LibraryCallUpdate::Event(event) => self.hear(event),
                    LibraryCallUpdate::Answer(outcome) => {
                        self.hear_the_rest();
                        return Some(outcome);
                    }
                },
            }
        }
    }

    /// Handles an event of the call.
    fn hear(&mut self, event: LibraryCallEvent) {
        match event {
            LibraryCallEvent::Progress(progress) => {
                self.progress.update(progress, self.ctx.progress.as_ref())
            }
            LibraryCallEvent::Log(line) => log_for_call(self.ctx, line),
            LibraryCallEvent::Request {
                operation,
                name,
                payload,
            } => self.perform(operation, name, payload),
        }
    }

    /// Starts an operation that the library requested.
    fn perform(&mut self, operation: u64, name: String, payload: Value) {
        self.open.add_operation(operation);
        if self.operations.len() >= MAX_OPERATIONS {
            let many = format!("a call can have at most {MAX_OPERATIONS} open requests");
            return self.open.reply(operation, Err(wire::ToolError::new(many)));
        }
        let runtime = self.ctx.runtime.as_ref();
        self.operations.push(Box::pin(async move {
            (
                operation,
                operations::perform(runtime, &name, payload).await,
            )
        }));
    }

    /// Processes the events before the answer. Requests stay open until the call is dropped, which
    /// replies to them.
    fn hear_the_rest(&mut self) {
        while let Some(event) = self.open.next_queued_event() {
            match event {
                LibraryCallEvent::Request { operation, .. } => self.open.add_operation(operation),
                said => self.hear(said),
            }
        }
        self.progress.flush(self.ctx.progress.as_ref());
    }
}

/// Converts a result from the library's type.
pub(crate) fn output(wire: wire::ToolOutput) -> ToolOutput {
    let attachments = wire.attachments.into_iter();
    ToolOutput {
        output: wire.output,
        title: wire.title,
        metadata: wire.metadata,
        attachments: attachments
            .map(|attachment| Attachment {
                media_type: attachment.media_type,
                data: attachment.data,
                name: attachment.name,
            })
            .collect(),
    }
}

/// Converts an error from the library's type.
pub(crate) fn error(wire: wire::ToolError) -> ToolError {
    ToolError {
        name: wire.name,
        message: wire.message,
        code: wire.code,
        suggestion: wire.suggestion,
        help_url: wire.help_url,
    }
}

fn permission(permission: &Permission) -> wire::Permission {
    match permission {
        Permission::Read => wire::Permission::Read,
        Permission::Write => wire::Permission::Write,
        Permission::Execute => wire::Permission::Execute,
        Permission::Network => wire::Permission::Network,
    }
}
