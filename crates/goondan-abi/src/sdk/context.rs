//! What a handler knows about its call.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::agents::AgentRuntime;
use super::cancellation::Cancellation;
use super::host::HostLink;
use super::operations::Operations;
use crate::wire::{
    CallContext, CallRequest, JsonObject, LogLevel, LogLine, Permission, Progress, ToolError, code,
};

/// What a handler knows about its call, and what it may do. Cheap to clone; may travel to other threads.
#[derive(Clone)]
pub struct ToolContext {
    inner: Arc<Inner>,
}

struct Inner {
    call: u64,
    context: CallContext,
    config: JsonObject,
    workdir: PathBuf,
    cancellation: Arc<Cancellation>,
    /// Absent in a test of the library's own.
    host: Option<(HostLink, Arc<Operations>)>,
}

impl ToolContext {
    pub(super) fn of_call(
        call: u64,
        request: &mut CallRequest,
        cancellation: Arc<Cancellation>,
        host: (HostLink, Arc<Operations>),
    ) -> Self {
        let context = std::mem::take(&mut request.context);
        let config = std::mem::take(&mut request.config);
        let workdir = PathBuf::from(&context.workdir);
        ToolContext {
            inner: Arc::new(Inner {
                call,
                context,
                config,
                workdir,
                cancellation,
                host: Some(host),
            }),
        }
    }

    /// A context without a host, for a library's own tests: log lines and progress go nowhere, other agents are
    /// unavailable.
    pub fn detached(workdir: impl Into<PathBuf>) -> Self {
        let workdir = workdir.into();
        let context = CallContext {
            workdir: workdir.display().to_string(),
            ..CallContext::default()
        };
        let cancellation = Arc::default();
        let inner = Inner {
            call: 0,
            context,
            config: JsonObject::new(),
            workdir,
            cancellation,
            host: None,
        };
        ToolContext {
            inner: Arc::new(inner),
        }
    }

    /// The agent whose model made the call.
    pub fn agent_name(&self) -> &str {
        &self.inner.context.agent_name
    }

    /// The conversation.
    pub fn instance_key(&self) -> &str {
        &self.inner.context.instance_key
    }

    /// The turn.
    pub fn turn_id(&self) -> &str {
        &self.inner.context.turn_id
    }

    /// The causal chain.
    pub fn trace_id(&self) -> &str {
        &self.inner.context.trace_id
    }

    /// The model's id of this call.
    pub fn tool_call_id(&self) -> &str {
        &self.inner.context.tool_call_id
    }

    /// The assistant message that holds the call.
    pub fn message(&self) -> &Value {
        &self.inner.context.message
    }

    /// Where file tools work. It exists.
    pub fn workdir(&self) -> &Path {
        &self.inner.workdir
    }

    /// Whether the call may do that: what the export needs it may, what is optional to it only where that is allowed.
    pub fn may(&self, permission: Permission) -> bool {
        self.inner.context.permissions.contains(&permission)
    }

    /// How long the call may take, counted from its start.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.inner.context.timeout_ms)
    }

    /// `spec.config` of the Tool resource, as a `T`.
    ///
    /// # Errors
    ///
    /// What does not fit, with the field's name.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_value(Value::Object(self.inner.config.clone())).map_err(|mistake| {
            ToolError::new(format!("`spec.config` of the Tool does not fit: {mistake}"))
        })
    }

    /// Log lines about this call.
    pub fn logger(&self) -> Logger<'_> {
        Logger { ctx: self }
    }

    /// Other agents.
    pub fn runtime(&self) -> AgentRuntime<'_> {
        AgentRuntime::new(self)
    }

    /// Tells whoever watches what is going on.
    pub fn progress(&self, title: &str, metadata: JsonObject) {
        if let Some((host, _)) = &self.inner.host {
            host.progress(
                self.inner.call,
                &Progress {
                    title: title.to_owned(),
                    metadata,
                },
            );
        }
    }

    /// Whether the call should end: it was cancelled, took too long, or nobody waits for it any more.
    pub fn is_cancelled(&self) -> bool {
        // The host knows at once; `cancel` may be waiting behind another call into this library.
        let told = || {
            self.inner
                .host
                .as_ref()
                .is_some_and(|(host, _)| host.cancelled(self.inner.call))
        };
        self.inner.cancellation.is_fired() || told()
    }

    /// Ends when the call should.
    pub async fn cancelled(&self) {
        let mut cancellation = self.inner.cancellation.listen();
        poll_fn(|context| cancellation.poll(context)).await;
    }

    /// Polls `future` until the call should end.
    ///
    /// # Errors
    ///
    /// `E_TOOL_CANCELLED` where that came first.
    pub async fn until_cancelled<F: Future>(&self, future: F) -> Result<F::Output, ToolError> {
        let (mut future, mut cancellation) = (pin!(future), self.inner.cancellation.listen());
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => cancellation.poll(context).map(|()| Err(stopped())),
        })
        .await
    }

    /// Blocks this thread for `duration`.
    ///
    /// # Errors
    ///
    /// `E_TOOL_CANCELLED` as soon as the call should end.
    pub fn sleep(&self, duration: Duration) -> Result<(), ToolError> {
        if self.inner.cancellation.wait(duration) {
            Err(stopped())
        } else {
            Ok(())
        }
    }

    pub(super) async fn ask(
        &self,
        name: &str,
        payload: &impl Serialize,
    ) -> Result<Value, ToolError> {
        let Some((host, operations)) = &self.inner.host else {
            return Err(ToolError::new(format!("`{name}` needs a host")).code(code::UNAVAILABLE));
        };
        operations
            .ask(
                *host,
                self.inner.call,
                &self.inner.cancellation,
                name,
                payload,
            )
            .await
    }
}

fn stopped() -> ToolError {
    ToolError::new("the call was cancelled").code(code::CANCELLED)
}

/// Log lines about one call, with fields if there are any.
pub struct Logger<'a> {
    ctx: &'a ToolContext,
}

impl Logger<'_> {
    /// Logs for the author of the tool.
    pub fn debug(&self, message: &str) {
        self.log(LogLevel::Debug, message, JsonObject::new());
    }

    /// Logs what is worth knowing.
    pub fn info(&self, message: &str) {
        self.log(LogLevel::Info, message, JsonObject::new());
    }

    /// Logs what is worth a look.
    pub fn warn(&self, message: &str) {
        self.log(LogLevel::Warn, message, JsonObject::new());
    }

    /// Logs that something failed.
    pub fn error(&self, message: &str) {
        self.log(LogLevel::Error, message, JsonObject::new());
    }

    /// Logs with structured fields.
    pub fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        if let Some((host, _)) = &self.ctx.inner.host {
            host.log(
                self.ctx.inner.call,
                &LogLine {
                    level,
                    message: message.to_owned(),
                    target: None,
                    fields,
                },
            );
        }
    }
}
