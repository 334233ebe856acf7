//! Connectors: a function that runs as long as its connection, and submits events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::context::{CallLogger, ToolContext};
use super::extension::MessageResources;
use super::handler::{AsyncFunction, BlockingFunction};
use super::panics;
use super::semaphore::OperationSemaphore;
use super::threads::CallThreads;
use crate::wire::{
    CallContext, CallRequest, ConnectorReply, ConnectorStart, JsonObject, ToolError, operation,
};

/// Maximum number of events sent to the host without an acknowledgement; further ones wait.
const MAX_UNACKED_EVENTS: usize = 32;
/// Maximum number of characters in the reason why an answer was not sent.
const MAX_REASON_CHARS: usize = 300;
/// Delay before a request is repeated that the host could not accept.
const REQUEST_RETRY_DELAY: Duration = Duration::from_secs(1);

/// A function that can be a connector: an `fn` or `async fn` from [`ConnectorContext`] to
/// `Result<(), ToolError>`.
///
/// `M` only distinguishes the forms; it is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connector function",
    note = "a connector is `fn` or `async fn` of `(ConnectorContext) -> Result<(), ToolError>`"
)]
pub trait ConnectorFunction<M>: Send + Sync + 'static {
    /// Runs the function to its end on this thread.
    ///
    /// # Errors
    ///
    /// Returns the function's error.
    fn run(&self, ctx: ConnectorContext) -> Result<(), ToolError>;
}

impl<F, E> ConnectorFunction<BlockingFunction<(), E>> for F
where
    F: Fn(ConnectorContext) -> Result<(), E> + Send + Sync + 'static,
    E: Into<ToolError>,
{
    fn run(&self, ctx: ConnectorContext) -> Result<(), ToolError> {
        self(ctx).map_err(Into::into)
    }
}

impl<F, R, E> ConnectorFunction<AsyncFunction<R, E>> for F
where
    F: Fn(ConnectorContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>>,
    E: Into<ToolError>,
{
    fn run(&self, ctx: ConnectorContext) -> Result<(), ToolError> {
        pollster::block_on(self(ctx)).map_err(Into::into)
    }
}

/// A connector without its type.
#[derive(Clone)]
pub(super) struct ErasedConnector(
    Arc<dyn Fn(ConnectorContext) -> Result<(), ToolError> + Send + Sync>,
);

impl ErasedConnector {
    pub(super) fn new<M>(connector: impl ConnectorFunction<M>) -> Self {
        ErasedConnector(Arc::new(move |ctx| connector.run(ctx)))
    }

    pub(super) fn run(&self, ctx: ConnectorContext) -> Result<(), ToolError> {
        (self.0)(ctx)
    }
}

/// The connection of a connector, and its operations. Cheap to clone, and can be sent to other
/// threads.
#[derive(Clone)]
pub struct ConnectorContext {
    inner: Arc<ConnectorContextInner>,
}

struct ConnectorContextInner {
    call: u64,
    base: ToolContext,
    connect: ConnectorStart,
    event_semaphore: OperationSemaphore,
    threads: Arc<CallThreads>,
    is_replying: AtomicBool,
}

impl ConnectorContext {
    pub(super) fn new(
        connect: ConnectorStart,
        means: MessageResources,
        threads: Arc<CallThreads>,
    ) -> Self {
        let call = means.call;
        let base = means.context(CallRequest {
            tool: connect.connector.clone(),
            export: String::new(),
            arguments: JsonObject::new(),
            config: JsonObject::new(),
            context: CallContext::default(),
        });
        let event_semaphore = OperationSemaphore::new(MAX_UNACKED_EVENTS);
        ConnectorContext {
            inner: Arc::new(ConnectorContextInner {
                call,
                base,
                connect,
                event_semaphore,
                threads,
                is_replying: AtomicBool::new(false),
            }),
        }
    }

    /// Returns the name of the Connection.
    pub fn connection(&self) -> &str {
        &self.inner.connect.connection
    }

    /// Returns the name of the Connector.
    pub fn connector(&self) -> &str {
        &self.inner.connect.connector
    }

    /// Returns the settings of the Connection, as strings by name.
    pub fn config(&self) -> &BTreeMap<String, String> {
        &self.inner.connect.config
    }

    /// Returns a required setting.
    ///
    /// # Errors
    ///
    /// Fails if the Connection does not contain it.
    pub fn setting(&self, name: &str) -> Result<&str, ToolError> {
        required_value(self.config(), "config", name)
    }

    /// Returns the secrets of the Connection, as strings by name.
    pub fn secrets(&self) -> &BTreeMap<String, String> {
        &self.inner.connect.secrets
    }

    /// Returns a required secret.
    ///
    /// # Errors
    ///
    /// Fails if the Connection does not contain it.
    pub fn secret(&self, name: &str) -> Result<&str, ToolError> {
        required_value(self.secrets(), "secrets", name)
    }

    /// Returns the logger of this connection.
    pub fn logger(&self) -> CallLogger<'_> {
        self.inner.base.logger()
    }

    /// Submits an event, such as a [`ConnectorEvent`](crate::wire::ConnectorEvent). Returns once
    /// its input is durable. A few concurrent events are sent at once; the others wait.
    ///
    /// # Errors
    ///
    /// Fails with `E_CONNECTOR_EVENT` if the event is invalid or rejected. Also fails if the
    /// connection has ended.
    pub async fn emit(&self, event: impl Serialize) -> Result<(), ToolError> {
        let _inside = self.inner.event_semaphore.enter().await;
        self.inner
            .base
            .request_host(operation::CONNECTOR_EMIT, &event)
            .await
            .map(drop)
    }

    /// Returns the next line typed in the swarm's terminal; `None` at the end of the input.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub async fn line(&self) -> Result<Option<String>, ToolError> {
        let answer = self
            .inner
            .base
            .request_host(operation::CONNECTOR_LINE, &JsonObject::new())
            .await?;
        Ok(answer["line"].as_str().map(str::to_owned))
    }

    /// Sends the answers to events with an origin through `send`, one after another. `send` runs on
    /// its own thread, so it may block. Its error is the reason why an answer was not sent.
    ///
    /// # Errors
    ///
    /// Fails if it was called before, or if no thread can be started.
    pub fn on_reply<F>(&self, send: F) -> Result<(), ToolError>
    where
        F: Fn(ConnectorReply) -> Result<(), ToolError> + Send + 'static,
    {
        if self.inner.is_replying.swap(true, Ordering::Relaxed) {
            return Err(ToolError::new("`on_reply` was already called"));
        }
        let ctx = self.clone();
        self.inner.threads.spawn(move || ctx.send_answers(&send))?;
        Ok(())
    }

    /// Returns true if the connection has ended.
    pub fn is_cancelled(&self) -> bool {
        self.inner.base.is_cancelled()
    }

    /// Waits until the connection ends.
    pub async fn cancelled(&self) {
        self.inner.base.cancelled().await;
    }

    /// Polls `future` until the connection ends.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends first.
    pub async fn until_cancelled<F: Future>(&self, future: F) -> Result<F::Output, ToolError> {
        self.inner.base.until_cancelled(future).await
    }

    /// Blocks this thread for `duration`.
    ///
    /// # Errors
    ///
    /// Fails as soon as the connection ends.
    pub fn sleep(&self, duration: Duration) -> Result<(), ToolError> {
        self.inner.base.sleep(duration)
    }

    /// Returns the same interface for functions that are not async.
    pub fn blocking(&self) -> BlockingConnector<'_> {
        BlockingConnector(self)
    }

    /// Passes each answer of the host to `send` and reports its error, until the connection ends.
    fn send_answers(&self, send: &impl Fn(ConnectorReply) -> Result<(), ToolError>) {
        let _working = panics::working_for(self.inner.call);
        while let Some(request) =
            self.request_until_answered(operation::CONNECTOR_REPLY, &json!({}))
        {
            let reply = &request["reply"];
            let Some(number) = reply["number"].as_u64() else {
                return;
            };
            let answer = serde_json::from_value::<ConnectorReply>(reply.clone());
            let sent = panics::catch(|| answer.map_err(ToolError::from).and_then(send));
            let error = match sent {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.message),
                Err(panic) => Some(format!("it panicked: {panic}")),
            };
            let error = error.map(|error| error.chars().take(MAX_REASON_CHARS).collect::<String>());
            if self
                .request_until_answered(
                    operation::CONNECTOR_REPLIED,
                    &json!({"number": number, "error": error}),
                )
                .is_none()
            {
                return;
            }
        }
    }

    /// Repeats a request until it is answered; `None` if the connection has ended.
    fn request_until_answered(&self, name: &str, payload: &Value) -> Option<Value> {
        loop {
            match pollster::block_on(self.inner.base.request_host(name, payload)) {
                Ok(answer) => return Some(answer),
                Err(_) => self.sleep(REQUEST_RETRY_DELAY).ok()?,
            }
        }
    }
}

/// [`ConnectorContext`] for functions that are not async: each method blocks its thread.
pub struct BlockingConnector<'a>(&'a ConnectorContext);

impl BlockingConnector<'_> {
    /// See [`ConnectorContext::emit`].
    ///
    /// # Errors
    ///
    /// Fails like [`ConnectorContext::emit`].
    pub fn emit(&self, event: impl Serialize) -> Result<(), ToolError> {
        pollster::block_on(self.0.emit(event))
    }

    /// See [`ConnectorContext::line`].
    ///
    /// # Errors
    ///
    /// Fails like [`ConnectorContext::line`].
    pub fn line(&self) -> Result<Option<String>, ToolError> {
        pollster::block_on(self.0.line())
    }
}

/// Returns the value `name` of `values`. `what` is the Connection's field, for the error.
fn required_value<'a>(
    values: &'a BTreeMap<String, String>,
    what: &str,
    name: &str,
) -> Result<&'a str, ToolError> {
    let missing = || ToolError::new(format!("the Connection has no `{what}.{name}`"));
    values.get(name).map(String::as_str).ok_or_else(missing)
}
