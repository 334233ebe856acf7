//! The context of a handler's call.

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
use super::cancellation::CancellationSignal;
use super::host::HostLink;
use super::operations::PendingOperations;
use crate::wire::{
    CallContext, CallRequest, JsonObject, LogLevel, LogLine, Permission, Progress, ToolError, code,
};

/// The context of a call, and its operations. Cheap to clone, and can be sent to other threads.
#[derive(Clone)]
pub struct ToolContext {
    inner: Arc<ToolContextInner>,
}

struct ToolContextInner {
    call: u64,
    context: CallContext,
    config: JsonObject,
    workdir: PathBuf,
    cancellation: Arc<CancellationSignal>,
    /// `None` in a library's own tests.
    host: Option<(HostLink, Arc<PendingOperations>)>,
}

impl ToolContext {
    /// Creates the context of a call. Takes the config and the context out of `request`.
    pub(super) fn of_call(
        call: u64,
        request: &mut CallRequest,
        cancellation: Arc<CancellationSignal>,
        host: (HostLink, Arc<PendingOperations>),
    ) -> Self {
        let context = std::mem::take(&mut request.context);
        let config = std::mem::take(&mut request.config);
        let workdir = PathBuf::from(&context.workdir);
        ToolContext {
            inner: Arc::new(ToolContextInner {
                call,
                context,
                config,
                workdir,
                cancellation,
                host: Some(host),
            }),
        }
    }

    /// Creates a context without a host, for a library's own tests. Log lines and progress are
    /// discarded, and other agents are unavailable.
    pub fn detached(workdir: impl Into<PathBuf>) -> Self {
        let workdir = workdir.into();
        let context = CallContext {
            workdir: workdir.display().to_string(),
            ..CallContext::default()
        };
        let cancellation = Arc::default();
        let inner = ToolContextInner {
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

    /// Returns the agent whose model made the call.
    pub fn agent_name(&self) -> &str {
        &self.inner.context.agent_name
    }

    /// Returns the key of the conversation.
    pub fn instance_key(&self) -> &str {
        &self.inner.context.instance_key
    }

    /// Returns the id of the turn.
    pub fn turn_id(&self) -> &str {
        &self.inner.context.turn_id
    }

    /// Returns the trace id.
    pub fn trace_id(&self) -> &str {
        &self.inner.context.trace_id
    }

    /// Returns the model's id of this call.
    pub fn tool_call_id(&self) -> &str {
        &self.inner.context.tool_call_id
    }

    /// Returns the assistant message that contains the call.
    pub fn message(&self) -> &Value {
        &self.inner.context.message
    }

    /// Returns the working directory of file tools. It exists.
    pub fn workdir(&self) -> &Path {
        &self.inner.workdir
    }

    /// Returns true if the call has the permission. Required permissions are always granted,
    /// optional ones only if the policy allows them.
    pub fn may(&self, permission: Permission) -> bool {
        self.inner.context.permissions.contains(&permission)
    }

    /// Returns the maximum duration of the call, counted from its start.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.inner.context.timeout_ms)
    }

    /// Parses `spec.config` of the Tool resource as a `T`.
    ///
    /// # Errors
    ///
    /// Fails with the field's name if a value does not match.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_value(Value::Object(self.inner.config.clone())).map_err(|mistake| {
            ToolError::new(format!("`spec.config` of the Tool is invalid: {mistake}"))
        })
    }

    /// Returns the logger of this call.
    pub fn logger(&self) -> CallLogger<'_> {
        CallLogger { ctx: self }
    }

    /// Returns access to other agents.
    pub fn runtime(&self) -> AgentRuntime<'_> {
        AgentRuntime::new(self)
    }

    /// Reports progress to observers.
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

    /// Returns true if the call should end: it was cancelled, timed out, or abandoned.
    pub fn is_cancelled(&self) -> bool {
        // The host has the current state; `cancel` may be queued after another call into this
        // library.
        let is_cancelled_by_host = || {
            self.inner
                .host
                .as_ref()
                .is_some_and(|(host, _)| host.cancelled(self.inner.call))
        };
        self.inner.cancellation.is_fired() || is_cancelled_by_host()
    }

    /// Waits until the call should end.
    pub async fn cancelled(&self) {
        let mut cancellation = self.inner.cancellation.listen();
        poll_fn(|context| cancellation.poll(context)).await;
    }

    /// Polls `future` until the call should end.
    ///
    /// # Errors
    ///
    /// Fails with `E_TOOL_CANCELLED` if the call should end first.
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
    /// Fails with `E_TOOL_CANCELLED` as soon as the call should end.
    pub fn sleep(&self, duration: Duration) -> Result<(), ToolError> {
        if self.inner.cancellation.wait(duration) {
            Err(stopped())
        } else {
            Ok(())
        }
    }

    /// Sends the request `name` to the host and waits for its reply. Fails without a host, or if
    /// the call ends.
    pub(super) async fn request_host(
        &self,
        name: &str,
        payload: &impl Serialize,
    ) -> Result<Value, ToolError> {
        let Some((host, operations)) = &self.inner.host else {
            return Err(
                ToolError::new(format!("`{name}` needs a running swarm")).code(code::UNAVAILABLE)
            );
        };
        operations
            .request_host(
                *host,
                self.inner.call,
                &self.inner.cancellation,
                name,
                payload,
            )
            .await
    }
}

/// Returns the error of a cancelled call.
fn stopped() -> ToolError {
    ToolError::new("the call was cancelled").code(code::CANCELLED)
}

/// The logger of a call.
pub struct CallLogger<'a> {
    ctx: &'a ToolContext,
}

impl CallLogger<'_> {
    /// Logs a message for the author of the tool.
    pub fn debug(&self, message: &str) {
        self.log(LogLevel::Debug, message, JsonObject::new());
    }

    /// Logs an informational message.
    pub fn info(&self, message: &str) {
        self.log(LogLevel::Info, message, JsonObject::new());
    }

    /// Logs a warning.
    pub fn warn(&self, message: &str) {
        self.log(LogLevel::Warn, message, JsonObject::new());
    }

    /// Logs an error.
    pub fn error(&self, message: &str) {
        self.log(LogLevel::Error, message, JsonObject::new());
    }

    /// Logs a message with structured fields.
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
