//! Extensions whose code is not part of this program: how it is opened, takes its seat at an instance, and runs.
//!
//! The code registers itself for each instance: it says which layers it has and which tools it offers. A layer wraps a turn, a
//! step or a tool call. While it runs it talks with the engine over a [`LayerDesk`]: it has what it wraps run, at most once, and
//! asks other agents. What it changes comes along with that, and with its end ([`Changes`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan_spec::Resource;
use goondan_spec::kinds::{Extension, Sandbox};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::tool::{OpenError, ToolError, ToolHandler, ToolLogger};
use crate::JsonObject;
use crate::event::RuntimeEvent;
use crate::ids::InstanceId;
use crate::message::{Message, MessageEvent};

/// Opens the code of Extensions.
#[async_trait]
pub trait ExtensionSource: Send + Sync {
    /// Opens `extension` with its whole config. Starts nothing.
    ///
    /// # Errors
    /// Its entry can't be run here.
    async fn open(
        &self,
        extension: &Resource<Extension>,
        config: JsonObject,
        bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, OpenError>;
}

/// Opens nothing.
#[async_trait]
impl ExtensionSource for () {
    async fn open(
        &self,
        extension: &Resource<Extension>,
        _config: JsonObject,
        _bundle_root: &Path,
    ) -> Result<Arc<dyn ExtensionCode>, OpenError> {
        Err(OpenError::new(
            &extension.id,
            "this program opens no extensions",
        ))
    }
}

/// The code of an extension, with its config.
#[async_trait]
pub trait ExtensionCode: Send + Sync {
    /// Has it take its seat for a turn. Unless it runs for the instance already, it registers itself.
    ///
    /// # Errors
    /// It can't be loaded, or registering failed.
    async fn attach(
        self: Arc<Self>,
        seat: Arc<Seat>,
    ) -> Result<Arc<dyn AttachedExtension>, ToolError>;
}

/// Where an extension sits during a turn.
pub struct Seat {
    /// Whose turn it is.
    pub instance: InstanceId,
    /// Which turn.
    pub turn_id: String,
    /// The causal chain that the turn belongs to.
    pub trace_id: String,
    /// The folder in which the tools of the agent work.
    pub workdir: PathBuf,
    /// The sandboxes of the agent and of those who call it.
    pub sandboxes: Vec<Sandbox>,
    /// What it keeps for the instance.
    pub state: SeatState,
    /// The conversation as the turn sees it.
    pub transcript: Arc<Transcript>,
    /// Where it logs.
    pub logger: Arc<dyn ToolLogger>,
    /// Fires when the turn is cancelled.
    pub cancellation: CancellationToken,
}

/// What an extension keeps for an instance, while a turn lasts.
#[derive(Default)]
pub struct SeatState(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    value: Option<Value>,
    /// How often it was set.
    version: u64,
    /// It was put back by the engine, and its code does not know.
    is_news: bool,
}

impl SeatState {
    /// It keeps `value`.
    pub fn new(value: Option<Value>) -> Self {
        SeatState(Mutex::new(Kept {
            value,
            ..Kept::default()
        }))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it keeps, and how often that was set in this turn.
    pub fn get(&self) -> (Option<Value>, u64) {
        let kept = self.kept();
        (kept.value.clone(), kept.version)
    }

    /// Its code keeps something else.
    pub fn set(&self, value: Value) {
        let mut kept = self.kept();
        kept.value = Some(value);
        kept.version += 1;
    }

    /// Puts back what was kept before the turn was resumed, unless something newer is there.
    pub fn put_back(&self, value: Value, version: u64) {
        let mut kept = self.kept();
        if version >= kept.version {
            *kept = Kept {
                value: Some(value),
                version,
                is_news: true,
            };
        }
    }

    /// What its code does not know yet, once.
    pub fn news(&self) -> Option<Value> {
        let mut kept = self.kept();
        std::mem::take(&mut kept.is_news)
            .then(|| kept.value.clone())
            .flatten()
    }
}

/// The conversation of a turn: what was there when it began, and what has changed since.
#[derive(Default)]
pub struct Transcript {
    base: Vec<Arc<Message>>,
    events: Mutex<Vec<Arc<MessageEvent>>>,
}

impl Transcript {
    /// A conversation that holds `base` and is changed by nothing yet.
    pub fn new(base: Vec<Arc<Message>>) -> Self {
        Transcript {
            base,
            events: Mutex::default(),
        }
    }

    /// What was there when the turn began.
    pub fn base(&self) -> &[Arc<Message>] {
        &self.base
    }

    /// Notes a change.
    pub fn push(&self, event: MessageEvent) {
        self.events().push(Arc::new(event));
    }

    /// The changes behind the first `known`.
    pub fn since(&self, known: usize) -> Vec<Arc<MessageEvent>> {
        self.events().get(known..).unwrap_or_default().to_vec()
    }

    fn events(&self) -> MutexGuard<'_, Vec<Arc<MessageEvent>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a layer wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LayerKind {
    /// A turn.
    Turn,
    /// A step of a turn.
    Step,
    /// A tool call of a step.
    ToolCall,
}

/// A layer that an extension has registered.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Layer {
    /// What it wraps.
    pub kind: LayerKind,
    /// The lower it is, the further out the layer lies.
    #[serde(default)]
    pub priority: f64,
}

/// A tool that an extension offers.
#[derive(Clone)]
pub struct OfferedTool {
    /// In the form `resource__export`.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// What runs.
    pub handler: Arc<dyn ToolHandler>,
}

/// An extension that sits at a turn.
#[async_trait]
pub trait AttachedExtension: Send + Sync {
    /// Its layers, in the order in which it has registered them.
    fn layers(&self) -> &[Layer];

    /// Its tools.
    fn tools(&self) -> Vec<OfferedTool>;

    /// Tells it that something happened in its instance. Waits for nothing.
    fn happened(&self, event: &RuntimeEvent);

    /// Runs one of its layers. `context` is what the layer sees beside the conversation.
    ///
    /// # Errors
    /// The layer threw, broke a rule, took longer than it may, or its process ended.
    async fn run(
        &self,
        layer: usize,
        context: JsonObject,
        desk: &mut dyn LayerDesk,
    ) -> Result<(Value, Changes), ToolError>;
}

/// What a layer can have done while it runs.
#[async_trait]
pub trait LayerDesk: Send {
    /// Takes up what the layer has changed so far, then runs what it wraps, once; its result.
    ///
    /// # Errors
    /// What it wraps has failed, or a change makes no sense.
    async fn next(&mut self, changes: Changes) -> Result<Wrapped, ToolError>;

    /// Asks another agent, and waits for its answer.
    ///
    /// # Errors
    /// As for a tool that asks. Layers of tool calls may not.
    async fn request(&mut self, what: AgentQuestion) -> Result<Value, ToolError>;

    /// Tells another agent something.
    ///
    /// # Errors
    /// As for a tool that tells. Layers of tool calls may not.
    async fn send(&mut self, what: AgentQuestion) -> Result<Value, ToolError>;
}

/// What a layer has changed since it said so the last time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Changes {
    /// Fields of its context, by name.
    pub fields: JsonObject,
    /// Changes to the conversation, as the layer has written them.
    pub events: Vec<Value>,
}

/// What came of what a layer wraps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wrapped {
    /// Its result.
    pub result: Value,
    /// What the layers have told each other, those further in included.
    pub metadata: JsonObject,
}

/// What an extension says to another agent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentQuestion {
    /// The agent.
    pub target: String,
    /// What is said.
    pub input: String,
    /// The conversation; the one of the extension where nothing is said.
    pub instance_key: Option<String>,
    /// How long an answer is waited for, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether the answer is not waited for and comes as an event.
    #[serde(rename = "async")]
    pub async_: bool,
    /// Free, for whoever is asked.
    pub metadata: JsonObject,
}
