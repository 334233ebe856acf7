//! Runs extensions that communicate in messages: in a runtime process, or in a library.
//!
//! The code registers for each instance and lists its layers and tools ([`RegisterRequest`]). Each run of
//! a layer receives the changes since the last run ([`ConversationChanges`]). The layer calls the operation that
//! it wraps, and returns its own changes at the end. An adapter locates the code ([`MessageExtensionCode`]) and
//! transports the messages ([`ExtensionRunner`], [`CodeChannel`]). The rest is the same for all adapters
//! ([`extension`]).
//!
//! [`CodeChannel`] abstracts the transport of messages, and
//! [`LayerHost`](crate::ports::extension::LayerDesk) the engine.

mod extension;
mod layer_execution;
mod messages;
mod sessions;
mod sync_state;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

pub use self::extension::extension;
pub use self::messages::{
    ConversationChanges, ConversationDiff, DiffPart, LayerRunRequest, NextCallRequest,
    RegisterRequest, RegisterResponse, RunStart, SavedState, ToolDeclaration,
};
pub use self::sessions::{ExtensionSession, SessionRegistry};
use crate::JsonObject;
use crate::ports::extension::{ExtensionContext, LayerChanges};
use crate::ports::tool::{LogLevel, ToolContext, ToolError, ToolOutput};

/// Code of an extension, with its configuration.
#[async_trait]
pub trait MessageExtensionCode: Send + Sync + 'static {
    /// Returns the name of the Extension.
    fn name(&self) -> &str;

    /// Returns the location of the code. Part of the key of a registration, with name,
    /// configuration and instance.
    fn place(&self) -> String;

    /// Returns the project directory.
    fn project(&self) -> &Path;

    /// Returns the configuration.
    fn config(&self) -> &JsonObject;

    /// Returns the maximum time of continuous work, without the time in which it waits for an
    /// answer.
    fn limit(&self) -> Duration;

    /// Returns the files of the code.
    fn files(&self) -> Vec<PathBuf>;

    /// Returns a runner for the code, and starts one if necessary.
    ///
    /// # Errors
    /// No runner is available or can be started.
    async fn connect(&self, seat: &ExtensionContext)
    -> Result<Arc<dyn ExtensionRunner>, ToolError>;
}

/// Runtime of extension code, such as a process or a library.
#[async_trait]
pub trait ExtensionRunner: Send + Sync {
    /// Returns the extensions that are registered in it.
    fn sessions(&self) -> &SessionRegistry;

    /// Starts a registration or a run of a layer.
    ///
    /// # Errors
    /// The runner accepts no more work.
    fn begin(&self, what: &RunStart<'_>) -> Result<Box<dyn CodeChannel>, ToolError>;

    /// Runs a tool of an extension.
    async fn call(&self, call: ExtensionToolCall<'_>, ctx: &ToolContext) -> FinalMessage;

    /// Drops a registration.
    fn forget(&self, session: u64);

    /// Notifies a registration of an event in its instance. Never blocks: the event is dropped if
    /// too many are queued.
    fn happened(&self, session: u64, event: &Value);
}

/// A call of an extension's tool.
pub struct ExtensionToolCall<'a> {
    /// Number of the registration.
    pub session: u64,
    /// Name of the Extension.
    pub extension: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// Configuration of the extension.
    pub config: &'a JsonObject,
    /// The arguments.
    pub input: &'a JsonObject,
    /// Time limit that is passed to the tool. The engine enforces it.
    pub timeout: Duration,
}

/// Channel to a run of extension code. Dropping it before the end aborts the run.
#[async_trait]
pub trait CodeChannel: Send {
    /// Receives the next message. Cancel-safe; not called again after [`CodeMessage::Ended`].
    async fn hear(&mut self) -> CodeMessage;

    /// Returns the next message that arrived before the end and is not yet received.
    fn rest(&mut self) -> Option<RunningMessage>;

    /// Answers a request of the code.
    fn answer(&mut self, ask: u64, outcome: Result<Value, ToolError>);

    /// Asks the code to end.
    fn cancel(&mut self);
}

/// A message of extension code.
#[derive(Debug)]
pub enum CodeMessage {
    /// A message while the code runs.
    Said(RunningMessage),
    /// The last message.
    Ended(Box<FinalMessage>),
}

/// A message of extension code while it runs.
#[derive(Debug)]
pub enum RunningMessage {
    /// A log line.
    Log(LogLevel, String, JsonObject),
    /// Progress: title and data.
    Progress(String, JsonObject),
    /// A request to the engine.
    Ask {
        /// Number of the request; the answer refers to it.
        ask: u64,
        /// Name of the operation.
        name: String,
        /// Data of the operation.
        payload: Value,
    },
}

/// Final message of extension code.
#[derive(Debug)]
pub struct FinalMessage {
    /// Output, or the error.
    pub outcome: Result<ToolOutput, ToolError>,
    /// Changes of a layer at its end.
    pub changes: LayerChanges,
    /// New state of the extension, if it changed.
    pub state: Option<SavedState>,
    /// New list of subscribed event types, if it changed.
    pub listens: Option<Vec<String>>,
}

impl From<Result<ToolOutput, ToolError>> for FinalMessage {
    fn from(outcome: Result<ToolOutput, ToolError>) -> Self {
        FinalMessage {
            outcome,
            changes: LayerChanges::default(),
            state: None,
            listens: None,
        }
    }
}
