//! A running swarm.

use std::path::PathBuf;
use std::sync::Arc;

use goondan_runtime::event::{SwarmEvent, TurnResult};
use goondan_runtime::ids::InstanceId;
use goondan_runtime::message::Message;
use goondan_runtime::ports::model::{ModelFactory, ToolDefinition};
use goondan_runtime::ports::tool::ToolCallResult;
use goondan_spec::{Bundle, Diagnostic, Environment};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

/// Settings of a swarm that is about to start.
pub struct SwarmBuilder {
    _bundle: Arc<Bundle>,
}

/// A running swarm. Cheap to clone; the swarm ends with [`Swarm::shutdown`].
#[derive(Clone)]
pub struct Swarm {}

/// An input from outside.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The text.
    pub text: String,
    /// The agent; the swarm's entry agent by default.
    pub agent: Option<String>,
    /// The conversation; `main` by default.
    pub instance_key: Option<String>,
    /// The same id twice starts one turn.
    pub id: Option<String>,
}

/// An accepted input: it is on disk.
pub struct Turn {
    /// The id of the event.
    pub event_id: String,
    /// The instance that handles it.
    pub instance: InstanceId,
}

impl Turn {
    /// Waits until the turn is over.
    pub async fn result(self) -> TurnResult {
        unimplemented!()
    }
}

/// Why a swarm could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bundle can't run as it is: no such swarm, a missing variable, a tool that does not open.
    #[error("{} problem(s) keep the swarm from starting", .0.len())]
    Diagnostics(Vec<Diagnostic>),
    /// Another process holds the workspace, or its folder can't be used.
    #[error("{message}")]
    Workspace {
        /// A sentence that stands alone.
        message: String,
        /// What to do about it.
        suggestion: Option<String>,
    },
}

/// Why the swarm did not take an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// Such as `AGENT_NOT_FOUND`.
    pub code: String,
    /// A sentence that stands alone.
    pub message: String,
}

/// What came of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    /// The new generation's number, or the diagnostics that kept the old one in place.
    pub result: Result<u64, Vec<Diagnostic>>,
    /// Resources (`Kind/name`) that are new.
    pub added: Vec<String>,
    /// Resources that differ.
    pub changed: Vec<String>,
    /// Resources that are gone.
    pub removed: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl Swarm {
    /// Begins with the defaults: the bundle's only swarm (or `default`), the process environment with the bundle's `.env`
    /// files, state under `~/.goondan`.
    pub fn builder(bundle: Arc<Bundle>) -> SwarmBuilder {
        SwarmBuilder { _bundle: bundle }
    }

    /// Hands in an input; returns once it is accepted.
    pub async fn send(&self, _input: Input) -> Result<Turn, SendError> {
        unimplemented!()
    }

    /// Calls one tool through the same dispatch as a model's call, without a model. `agent` and `instance_key` as in [`Input`].
    pub async fn call_tool(
        &self,
        _agent: Option<&str>,
        _instance_key: Option<&str>,
        _tool: &str,
        _arguments: Value,
    ) -> Result<ToolCallResult, SendError> {
        unimplemented!()
    }

    /// Cancels the running turn of `instance`; false where none runs.
    pub async fn cancel(&self, _instance: &InstanceId) -> bool {
        unimplemented!()
    }

    /// What `agent`'s model is offered at the first step of a turn.
    pub fn catalog(&self, _agent: &str) -> Option<Vec<ToolDefinition>> {
        unimplemented!()
    }

    /// Everything that happens from now on. Unbounded: a subscriber that stops reading should drop the receiver.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        unimplemented!()
    }

    /// The conversation of `instance` as it stands.
    pub async fn conversation(&self, _instance: &InstanceId) -> Vec<Message> {
        unimplemented!()
    }

    /// Reads the bundle's folder again and swaps the new generation in, or changes nothing (rules R2, R3).
    pub async fn reload(&self) -> ReloadOutcome {
        unimplemented!()
    }

    /// The name of the running Swarm resource.
    pub fn name(&self) -> String {
        unimplemented!()
    }

    /// The entry agent's name.
    pub fn entry_agent(&self) -> String {
        unimplemented!()
    }

    /// Where this swarm keeps its state.
    pub fn workspace_dir(&self) -> PathBuf {
        unimplemented!()
    }

    /// Takes no more inputs, waits for running turns within the grace period, folds and ends.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}

impl SwarmBuilder {
    /// Runs the Swarm resource of that name.
    #[must_use]
    pub fn swarm(self, _name: impl Into<String>) -> Self {
        self
    }

    /// Keeps state below that folder.
    #[must_use]
    pub fn state_root(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// What value sources see, instead of the process environment with `.env` files.
    #[must_use]
    pub fn environment(self, _environment: Environment) -> Self {
        self
    }

    /// Makes the model clients, instead of the providers that the bundle names.
    #[must_use]
    pub fn models(self, _factory: Arc<dyn ModelFactory>) -> Self {
        self
    }

    /// Lets tools work there, whatever the agents say.
    #[must_use]
    pub fn workdir(self, _path: impl Into<PathBuf>) -> Self {
        self
    }

    /// Answers every approval with yes (`--yes`).
    #[must_use]
    pub fn approve_all(self, _yes: bool) -> Self {
        self
    }

    /// Plans the first generation, opens the workspace, resumes what was left, and runs.
    pub async fn start(self) -> Result<Swarm, StartError> {
        unimplemented!()
    }
}
