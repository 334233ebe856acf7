//! What a tool is to the engine: a handler, its context, and a result that is always a value.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::kinds::{ExportSpec, Permission, Sandbox, Tool};
use goondan_spec::{Code, Resource, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::powers::{Embeddings, Schedules, Sessions, ToolState};
use super::reload::Reloader;
use crate::JsonObject;
use crate::caller::Caller;
use crate::ids::InstanceId;
use crate::inbound::Terms;
use crate::message::Message;
use crate::narrowing::Narrowing;
pub use crate::run_mode::{Containment, Direct, RunMode};

/// The function behind one export. Arguments were checked against the export's schema, with defaults filled in.
#[async_trait]
pub trait ToolHandler: Send + Sync {
    /// Runs one call. It is dropped on time-out; before that `ctx.cancellation` fires, with a short grace period.
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError>;

    /// What a call with these arguments would do, for somebody who is asked to allow it: a command, a diff, the files of a
    /// scaffold. It changes nothing. `None` where the arguments say it all.
    async fn preview(&self, _ctx: &ToolContext, _input: &JsonObject) -> Option<String> {
        None
    }

    /// What tells the code that runs from other code, where that may change without the program that is running: the hash of a
    /// library. An approval holds for that code.
    fn code(&self) -> Option<&str> {
        None
    }

    /// The files that a call with these arguments runs, beside those that the arguments name. An approval holds for what is
    /// in them now.
    async fn programs(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Makes handlers for one form of entry (built-in, library, executable).
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// The handlers of `tool`, by export name. What the resource selects or overrides is the caller's work.
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError>;
}

/// Is told about instances that are put away, so that what belongs to them ends with them.
pub trait InstanceObserver: Send + Sync {
    /// An instance was retired or deleted. It may come back. Must not block.
    fn ended(&self, id: &InstanceId);
}

/// Nobody.
impl InstanceObserver for () {
    fn ended(&self, _id: &InstanceId) {}
}

/// An opened tool.
pub struct ToolSet {
    /// Every export with its handler, as the entry describes them.
    pub exports: Vec<(ExportSpec, Arc<dyn ToolHandler>)>,
}

/// Why a tool could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("failed to open {tool}: {cause}")]
pub struct OpenError {
    /// The resource.
    pub tool: ResourceId,
    /// What went wrong.
    #[source]
    pub cause: Box<dyn std::error::Error + Send + Sync>,
    /// What to do about it.
    pub suggestion: Option<String>,
    /// The export of `spec.exports` that it is about; the entry itself where there is none.
    pub export: Option<String>,
}

impl OpenError {
    /// An error of the entry itself that only says what went wrong: an error, or a sentence.
    pub fn new(
        tool: &ResourceId,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        OpenError {
            tool: tool.clone(),
            cause: cause.into(),
            suggestion: None,
            export: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// What a handler knows about its call (rule T5). No bundle, no credentials.
#[derive(Clone)]
pub struct ToolContext {
    /// The agent whose model made the call.
    pub agent_name: String,
    /// The conversation.
    pub instance_key: String,
    /// The turn.
    pub turn_id: String,
    /// The causal chain.
    pub trace_id: String,
    /// As whom a server sees the call that is asked because of it; `None` where it is told nothing.
    pub caller: Option<Caller>,
    /// This call.
    pub tool_call_id: String,
    /// The assistant message that holds the call.
    pub message: Arc<Message>,
    /// Where file tools work. Created before the first call that the instance makes.
    pub workdir: PathBuf,
    /// The bundle's folder.
    pub project_dir: PathBuf,
    /// What contains the programs that the call runs: each holds, whether the agent or one of its callers has it.
    pub sandboxes: Vec<Sandbox>,
    /// What the call may do: all that the export needs, and of what is optional to it what the agent and its callers are
    /// allowed without being asked.
    pub granted: BTreeSet<Permission>,
    /// How command lines among the arguments run.
    pub run_mode: RunMode,
    /// Other agents.
    pub runtime: Arc<dyn AgentToolRuntime>,
    /// Structured log lines that end up beside the conversation.
    pub logger: Arc<dyn ToolLogger>,
    /// Updates for whoever watches.
    pub progress: Arc<dyn ProgressSink>,
    /// Fires on time-out, on cancel and on shutdown.
    pub cancellation: CancellationToken,
}

/// Takes log lines of a handler.
pub trait ToolLogger: Send + Sync {
    /// Logs `message`, with fields.
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject);
}

/// How loud a log line is, the quietest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the author of the tool.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

/// Takes metadata updates of a running call.
pub trait ProgressSink: Send + Sync {
    /// A new title, and data for whoever shows it.
    fn update(&self, title: &str, metadata: JsonObject);
}

/// What a handler returns: a JSON value, and what people may see of it beside the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// What the model gets.
    pub output: Value,
    /// A short summary for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Data for people and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Things that are not text, for models that can see them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
}

impl From<Value> for ToolOutput {
    fn from(output: Value) -> Self {
        ToolOutput {
            output,
            ..ToolOutput::default()
        }
    }
}

/// Binary content beside a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Such as `image/png`.
    pub media_type: String,
    /// Base64.
    pub data: String,
    /// A file name, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
}

/// Why a handler failed. Without a code it gets `E_TOOL` (rule T6).
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ToolError {
    /// The type of error, such as `NotFound`.
    pub name: Option<String>,
    /// What went wrong, for the model.
    pub message: String,
    /// A stable code: one of the table, or one of whoever wrote the tool.
    pub code: Option<String>,
    /// How to go on.
    pub suggestion: Option<String>,
    /// Where to read more.
    pub help_url: Option<String>,
}

impl ToolError {
    /// An error that only says what went wrong.
    pub fn new(message: impl Into<String>) -> Self {
        ToolError {
            message: message.into(),
            ..ToolError::default()
        }
    }

    /// Adds a stable code.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolCallStatus {
    /// The handler returned.
    Ok,
    /// Anything else.
    Error,
}

/// The one way out of a tool call (rule T6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallResult {
    /// The call it answers.
    pub tool_call_id: String,
    /// `resource__export`.
    pub tool_name: String,
    /// How it ended.
    pub status: ToolCallStatus,
    /// Present on `ok`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<Value>,
    /// Present on `error`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ToolCallError>,
    /// A short summary for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// Data for people and programs.
    #[serde(skip_serializing_if = "JsonObject::is_empty", default)]
    pub metadata: JsonObject,
    /// Things that are not text.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
}

/// The error part of a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallError {
    /// The type of error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// What went wrong, cut to the tool's limit.
    pub message: String,
    /// A stable code.
    pub code: String,
    /// How to go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub help_url: Option<String>,
}

impl ToolCallError {
    /// The stable text that goes back to the model (rule T8).
    pub fn to_model_text(&self) -> String {
        let mut text = format!("ERROR: {}\nCODE: {}", self.message, self.code);
        if let Some(suggestion) = &self.suggestion {
            text.push_str(&format!("\nSUGGESTION: {suggestion}"));
        }
        if let Some(url) = &self.help_url {
            text.push_str(&format!("\nHELP: {url}"));
        }
        text
    }
}

/// Other agents, as a handler reaches them (rules A1 to A8). Errors carry the codes of the rules.
#[async_trait]
pub trait AgentToolRuntime: Send + Sync {
    /// Asks `target` and waits, or with `async_` set returns once the question is accepted.
    async fn request(
        &self,
        target: &str,
        event: AgentEventInput,
        options: RequestOptions,
    ) -> Result<RequestResult, ToolError>;
    /// Tells `target` something; accepted means on disk.
    async fn send(&self, target: &str, event: AgentEventInput) -> Result<SendResult, ToolError>;
    /// Prepares an instance of a declared agent.
    async fn spawn(&self, target: &str, options: SpawnOptions) -> Result<SpawnResult, ToolError>;
    /// Instances that the caller spawned, or all.
    async fn list(&self, include_all: bool) -> Result<Vec<SpawnedAgentInfo>, ToolError>;
    /// The agents of the running swarm.
    async fn catalog(&self) -> Result<AgentCatalog, ToolError>;

    /// Reloads the project, where the host lets tools do so.
    fn reloader(&self) -> Option<&dyn Reloader> {
        None
    }

    /// Looks at conversations, where the host lets tools do so.
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }

    /// Keeps values for the calling instance, where the host lets tools do so.
    fn state(&self) -> Option<&dyn ToolState> {
        None
    }

    /// Has prompts come by the clock, where the host lets tools do so.
    fn schedules(&self) -> Option<&dyn Schedules> {
        None
    }

    /// Asks embedding models, where the host lets tools do so.
    fn embeddings(&self) -> Option<&dyn Embeddings> {
        None
    }
}

/// What one agent says to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentEventInput {
    /// Such as `agent.request`; a default is set by the operation.
    pub event_type: Option<String>,
    /// The text.
    pub input: String,
    /// The target's conversation; the caller's key by default.
    pub instance_key: Option<String>,
    /// Free data that travels along.
    pub metadata: JsonObject,
    /// What the target is told beside its own system prompt, in the turn that handles this.
    pub instructions: Option<String>,
    /// Under which terms the target handles it. Its tools are narrowed at least as far as the caller's.
    pub terms: Terms,
}

/// How a request waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// How long who is asked may give no sign of life: no step, no progress or end of a call, none of an agent that it waits
    /// for in turn. While a person is asked nothing counts. Default 30 minutes.
    pub timeout_ms: Option<u64>,
    /// Return at once; the answer comes before a later step.
    pub async_: bool,
}

/// What a request brings back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestResult {
    /// The id of the answer's event, or for an asynchronous request the request's own.
    pub event_id: String,
    /// The agent that was asked.
    pub target: String,
    /// Its answer; absent for an asynchronous request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response: Option<Value>,
    /// Ties question and answer together.
    pub correlation_id: String,
    /// The question is on disk.
    pub accepted: bool,
    /// The answer comes later.
    #[serde(rename = "async")]
    pub async_: bool,
}

/// What a send brings back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    /// The id of the event.
    pub event_id: String,
    /// The agent that was told.
    pub target: String,
    /// It is on disk.
    pub accepted: bool,
}

/// How an instance is prepared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnOptions {
    /// Its key; made up from the agent's name by default.
    pub instance_key: Option<String>,
    /// Where its tools work, instead of the agent's own `workdir`.
    pub cwd: Option<String>,
    /// The only tools that may run in any of its turns.
    pub narrowing: Option<Narrowing>,
}

/// What a spawn brings back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnResult {
    /// The agent.
    pub target: String,
    /// The instance's key.
    pub instance_key: String,
    /// False where the instance was there already.
    pub spawned: bool,
    /// Where its tools work, if that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// An instance as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnedAgentInfo {
    /// The agent.
    pub target: String,
    /// The instance's key.
    pub instance_key: String,
    /// Who spawned it; empty for one that an input from outside made.
    pub owner_agent: String,
    /// In which conversation.
    pub owner_instance_key: String,
    /// ISO 8601.
    pub created_at: String,
    /// Where its tools work, if that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cwd: Option<String>,
}

/// The agents of a swarm, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCatalog {
    /// The Swarm resource.
    pub swarm_name: String,
    /// Who gets inputs that name nobody.
    pub entry_agent: String,
    /// The caller.
    pub self_agent: String,
    /// All agents.
    pub available_agents: Vec<String>,
    /// All but the caller.
    pub callable_agents: Vec<String>,
}
