//! Extensions whose code is not part of this program: opening, registration for an instance, and
//! running.
//!
//! The code registers for each instance, with its layers and tools. A layer wraps a turn, a step or
//! a tool call. While it runs, it calls the engine through a [`LayerHost`]: it runs the wrapped
//! operation at most once, and sends requests to other agents. It returns its changes with these
//! calls and at its end ([`LayerChanges`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
pub use goondan_abi::wire::{LayerChanges, LayerEntry, LayerKind};
use goondan_spec::Resource;
use goondan_spec::kinds::{Extension, SandboxSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::tool::{EntryOpenError, HandlerError, ToolHandler, ToolLogger};
use crate::JsonObject;
use crate::event::RuntimeEvent;
use crate::ids::InstanceId;
use crate::message::{Message, MessageEvent};

/// Opens the code of Extensions.
#[async_trait]
pub trait ExtensionSource: Send + Sync {
    /// Opens `extension` with its complete configuration. Does not start a process.
    ///
    /// # Errors
    /// Its entry can't be run here.
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, EntryOpenError>;
}

/// Source that rejects every Extension.
#[async_trait]
impl ExtensionSource for () {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        _config: JsonObject,
        _bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, EntryOpenError> {
        Err(EntryOpenError::new(
            &extension.id,
            "this program can't open extensions",
        ))
    }
}

/// Code of an extension, with its configuration.
#[async_trait]
pub trait ExtensionCode: Send + Sync {
    /// Attaches the extension to a turn. Registers it first, unless it is already registered for
    /// the instance.
    ///
    /// # Errors
    /// The code can't be loaded, or the registration failed.
    async fn attach(
        self: Arc<Self>,
        context: Arc<ExtensionContext>,
    ) -> Result<Arc<dyn AttachedExtension>, HandlerError>;
}

/// Context of an extension during a turn.
pub struct ExtensionContext {
    /// Conversation of the turn.
    pub instance: InstanceId,
    /// Id of the turn.
    pub turn_id: String,
    /// Trace of the turn.
    pub trace_id: String,
    /// Working directory of the agent's tools.
    pub workdir: PathBuf,
    /// Sandboxes of the agent and of its callers.
    pub sandboxes: Vec<SandboxSettings>,
    /// State of the extension for the instance.
    pub state: ExtensionState,
    /// Conversation in the view of the turn.
    pub transcript: Arc<TurnTranscript>,
    /// Destination of log lines.
    pub logger: Arc<dyn ToolLogger>,
    /// Fires when the turn is cancelled.
    pub cancellation: CancellationToken,
}

/// State of an extension for an instance, during a turn.
#[derive(Default)]
pub struct ExtensionState(Mutex<StateValue>);

#[derive(Default)]
struct StateValue {
    value: Option<Value>,
    /// Number of writes.
    version: u64,
    /// The engine reset the value, and the code has not received it yet.
    is_news: bool,
}

impl ExtensionState {
    /// Returns a state with an initial value.
    pub fn new(value: Option<Value>) -> Self {
        ExtensionState(Mutex::new(StateValue {
            value,
            ..StateValue::default()
        }))
    }

    /// Returns the current value, locked.
    fn lock(&self) -> MutexGuard<'_, StateValue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, and the number of writes in this turn.
    pub fn get(&self) -> (Option<Value>, u64) {
        let current = self.lock();
        (current.value.clone(), current.version)
    }

    /// Sets the value, on behalf of the code.
    pub fn set(&self, value: Value) {
        let mut current = self.lock();
        current.value = Some(value);
        current.version += 1;
    }

    /// Restores the value from before the turn was resumed, unless a newer value exists.
    pub fn restore(&self, value: Value, version: u64) {
        let mut current = self.lock();
        if version >= current.version {
            *current = StateValue {
                value: Some(value),
                version,
                is_news: true,
            };
        }
    }

    /// Returns a restored value that the code has not received yet. Returns each value only once.
    pub fn take_restored(&self) -> Option<Value> {
        let mut current = self.lock();
        std::mem::take(&mut current.is_news)
            .then(|| current.value.clone())
            .flatten()
    }
}

/// Conversation of a turn: the messages at its beginning, and the changes since then.
#[derive(Default)]
pub struct TurnTranscript {
    base: Vec<Arc<Message>>,
    events: Mutex<Vec<Arc<MessageEvent>>>,
}

impl TurnTranscript {
    /// Returns a transcript that begins with `base` and has no changes.
    pub fn new(base: Vec<Arc<Message>>) -> Self {
        TurnTranscript {
            base,
            events: Mutex::default(),
        }
    }

    /// Returns the messages at the beginning of the turn.
    pub fn base(&self) -> &[Arc<Message>] {
        &self.base
    }

    /// Records a change of the conversation's messages.
    pub fn push(&self, event: MessageEvent) {
        self.events().push(Arc::new(event));
    }

    /// Returns the changes of this turn, without the first `known` changes.
    pub fn since(&self, known: usize) -> Vec<Arc<MessageEvent>> {
        self.events().get(known..).unwrap_or_default().to_vec()
    }

    /// Returns the changes of this turn, locked.
    fn events(&self) -> MutexGuard<'_, Vec<Arc<MessageEvent>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tool of an extension.
#[derive(Clone)]
pub struct ExtensionTool {
    /// Name in the form `resource__export`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Implementation of the tool.
    pub handler: Arc<dyn ToolHandler>,
}

/// An extension that is attached to a turn.
#[async_trait]
pub trait AttachedExtension: Send + Sync {
    /// Returns the layers of the extension, in the order of their registration.
    fn layers(&self) -> &[LayerEntry];

    /// Returns the tools of the extension.
    fn tools(&self) -> Vec<ExtensionTool>;

    /// Notifies the extension of an event in the instance. Never blocks.
    fn notify_event(&self, event: &RuntimeEvent);

    /// Runs one of its layers. `context` is the data of the layer in addition to the conversation.
    ///
    /// # Errors
    /// The layer threw an error, broke the protocol or exceeded its time limit, or its process
    /// ended.
    async fn run(
        &self,
        layer: usize,
        context: JsonObject,
        host: &mut dyn LayerHost,
    ) -> Result<(Value, LayerChanges), HandlerError>;
}

/// Request handler of a running layer.
#[async_trait]
pub trait LayerHost: Send {
    /// Applies the changes so far, then runs the wrapped operation once and returns its result.
    ///
    /// # Errors
    /// The wrapped operation failed, or a change is not valid.
    async fn next(&mut self, changes: LayerChanges) -> Result<WrappedResult, HandlerError>;

    /// Sends a request to another agent, and waits for its answer.
    ///
    /// # Errors
    /// The errors of a tool's request. Also fails in a layer of tool calls.
    async fn request(&mut self, what: LayerRequest) -> Result<Value, HandlerError>;

    /// Sends a message to another agent.
    ///
    /// # Errors
    /// The errors of a tool's message. Also fails in a layer of tool calls.
    async fn send(&mut self, what: LayerRequest) -> Result<Value, HandlerError>;
}

/// Result of a wrapped operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WrappedResult {
    /// The result.
    pub result: Value,
    /// Metadata that layers exchange, including inner layers.
    pub metadata: JsonObject,
}

/// Request or message of a layer to another agent. Unlike requests of tools, it has no event type,
/// and every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LayerRequest {
    /// Name of the agent.
    pub target: String,
    /// Text of the request.
    pub input: String,
    /// Key of the conversation. Default: the conversation of the extension.
    pub instance_key: Option<String>,
    /// Maximum wait for the answer, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Returns immediately; the answer arrives as an event.
    #[serde(rename = "async")]
    pub async_: bool,
    /// Data for the other agent.
    pub metadata: JsonObject,
}
