//! Port for tools: a handler, its context, and a result that is always a value.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
pub use goondan_abi::wire::{
    AgentCatalog, AgentRequestResult, AgentSendResult, AgentSpawnResult, Attachment, LogLevel,
    SpawnedAgentInfo, ToolOutput,
};
use goondan_spec::kinds::{ExportSpec, Permission, SandboxSettings, Tool};
use goondan_spec::{Code, Resource, ResourceId};
use tokio_util::sync::CancellationToken;

use super::capabilities::{ConversationAccess, EmbeddingModels, PromptScheduler, ToolStateStore};
use super::reload::ProjectReloader;
pub use super::tool_outcomes::{HandlerError, ToolCallError, ToolCallResult, ToolCallStatus};
use crate::JsonObject;
use crate::agent_event::TurnTerms;
use crate::caller::CallerTrace;
use crate::ids::InstanceId;
use crate::message::Message;
pub use crate::run_mode::{CommandContainment, DirectExecution, RunMode};
use crate::started_files::StartedFiles;
use crate::tool_allowlist::ToolAllowlist;

/// Implementation of one export. Arguments are checked against the export's schema, and defaults
/// are filled in.
#[async_trait]
pub trait ToolHandler: Send + Sync {
    /// Runs one call. On timeout `ctx.cancellation` fires, and after a short grace period the call
    /// is dropped.
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError>;

    /// Describes the effect of a call for an approval request: a command, a diff, the files of a
    /// scaffold. Changes nothing. `None` if the arguments are sufficient.
    async fn preview(&self, _ctx: &ToolContext, _input: &JsonObject) -> Option<String> {
        None
    }

    /// Identifies code that can change without the running program, such as the hash of a library.
    /// An approval applies only to this code.
    fn code(&self) -> Option<&str> {
        None
    }

    /// Returns the current value of [`code`](ToolHandler::code), if it can change while the tool is
    /// open, such as the definition of a tool by its server.
    async fn current_code(&self, _ctx: &ToolContext) -> Option<String> {
        self.code().map(str::to_owned)
    }

    /// Returns the files that a call with these arguments runs, except those in the arguments. An
    /// approval applies only to their current content.
    async fn executed_files(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the files that a call with these arguments writes, except those in arguments that are
    /// paths. A call that writes a protected file requires an approval.
    async fn written_files(&self, _ctx: &ToolContext, _input: &JsonObject) -> Vec<WrittenFile> {
        Vec::new()
    }

    /// Returns the content of the files with which the process of this tool was started. If no
    /// process is running, returns their current content. An approval applies only to this content.
    async fn started_files(&self, _ctx: &ToolContext) -> StartedFiles {
        StartedFiles::default()
    }

    /// Returns arguments whose values name a thing by an id that another thing can have later, such
    /// as a process, with a value that no other thing has. An approval applies only to this thing.
    fn unique_arguments(&self, _ctx: &ToolContext, _input: &JsonObject) -> JsonObject {
        JsonObject::new()
    }
}

/// File that a call writes because of an argument that is not a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Argument that selects the file; `None` if the tool always writes it.
    pub argument: Option<String>,
    /// Path of the file.
    pub path: PathBuf,
}

/// Creates handlers for one kind of entry (built-in, library, executable).
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns the handlers of `tool`, by export name. The caller applies the selections and
    /// overrides of the resource.
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError>;
}

/// Observer of instances that are retired or deleted, which releases their resources.
pub trait InstanceObserver: Send + Sync {
    /// Handles the retirement or deletion of an instance. The instance can come back. Must not
    /// block.
    fn on_instance_end(&self, id: &InstanceId);
}

/// Observer that does nothing.
impl InstanceObserver for () {
    fn on_instance_end(&self, _id: &InstanceId) {}
}

/// An opened tool.
pub struct ToolSet {
    /// Every export with its handler, as the tool's entry declares it, without the overrides in
    /// `spec.exports`.
    pub exports: Vec<(ExportSpec, Arc<dyn ToolHandler>)>,
    /// Reason why the exports are missing until a later reload, as a part of a sentence. Models
    /// receive it, so it contains no text of a server.
    pub unavailable: Option<String>,
}

/// Error of opening a tool.
#[derive(Debug, thiserror::Error)]
#[error("failed to open {tool}: {cause}")]
pub struct EntryOpenError {
    /// The resource.
    pub tool: ResourceId,
    /// Cause of the error.
    #[source]
    pub cause: Box<dyn std::error::Error + Send + Sync>,
    /// Suggested fix.
    pub suggestion: Option<String>,
    /// Faulty export in `spec.exports`; `None` for an error of the entry.
    pub export: Option<String>,
    /// Code of the error, if it is not that of the entry's kind.
    pub code: Option<Code>,
}

impl EntryOpenError {
    /// Returns an error of the entry with only a cause: an error, or a sentence.
    pub fn new(
        tool: &ResourceId,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        EntryOpenError {
            tool: tool.clone(),
            cause: cause.into(),
            suggestion: None,
            export: None,
            code: None,
        }
    }

    /// Sets the code.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Adds a suggested fix.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Context of a tool call for its handler (rule T5). Excludes the bundle and credentials.
#[derive(Clone)]
pub struct ToolContext {
    /// Agent of the model that made the call.
    pub agent_name: String,
    /// Key of the conversation.
    pub instance_key: String,
    /// Id of the turn.
    pub turn_id: String,
    /// Id of the trace.
    pub trace_id: String,
    /// Trace context for servers that the call sends requests to; `None` to send none.
    pub caller: Option<CallerTrace>,
    /// Id of the call.
    pub tool_call_id: String,
    /// Assistant message that contains the call.
    pub message: Arc<Message>,
    /// Working directory of file tools. Created before the first call of the instance.
    pub workdir: PathBuf,
    /// Directory of the bundle.
    pub project_dir: PathBuf,
    /// Sandboxes for the programs that the call runs, from the agent and its callers. All of them
    /// apply.
    pub sandboxes: Vec<SandboxSettings>,
    /// Permissions of the call. Contains everything the export requires, and those optional
    /// permissions that the agent and its callers have without approval.
    pub granted: BTreeSet<Permission>,
    /// Execution mode of command lines in the arguments.
    pub run_mode: RunMode,
    /// Files whose content an approval of the call covers. The call must not run any other content.
    pub approved_files: Arc<[ApprovedFile]>,
    /// Code of the tool that an approval of the call covers, see [`ToolHandler::current_code`]. The
    /// call must not use any other code. `None` if it needed no approval.
    pub approved_code: Option<String>,
    /// Access to other agents.
    pub runtime: Arc<dyn AgentToolRuntime>,
    /// Structured log lines, stored next to the conversation.
    pub logger: Arc<dyn ToolLogger>,
    /// Progress updates for subscribers.
    pub progress: Arc<dyn ProgressSink>,
    /// Fires on timeout, on cancellation and on shutdown.
    pub cancellation: CancellationToken,
}

/// File that an approved call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedFile {
    /// Absolute path.
    pub path: PathBuf,
    /// Identity of the approved content; see `goondan_core::content_hash`. `None` for a directory
    /// whose content is not compared.
    pub sha256: Option<String>,
}

/// Receiver of a handler's log lines.
pub trait ToolLogger: Send + Sync {
    /// Writes `message`, with fields.
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject);
}

/// Receiver of a running call's metadata updates.
pub trait ProgressSink: Send + Sync {
    /// Publishes a new title, and data for subscribers.
    fn update(&self, title: &str, metadata: JsonObject);

    /// Shows output of a running command. A piece can begin and end anywhere in a line.
    fn output(&self, _stream: OutputStream, _piece: &str) {}
}

/// Output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Access of a handler to other agents (rules A1 to A8). Errors have the codes of these rules.
#[async_trait]
pub trait AgentToolRuntime: Send + Sync {
    /// Sends a request to `target` and waits for the answer. With `async_` set, returns once the
    /// request is accepted.
    async fn request(
        &self,
        target: &str,
        event: AgentEventInput,
        options: RequestOptions,
    ) -> Result<AgentRequestResult, HandlerError>;
    /// Sends a message to `target`; durable on return.
    async fn send(
        &self,
        target: &str,
        event: AgentEventInput,
    ) -> Result<AgentSendResult, HandlerError>;
    /// Prepares an instance of a declared agent.
    async fn spawn(
        &self,
        target: &str,
        options: SpawnOptions,
    ) -> Result<AgentSpawnResult, HandlerError>;
    /// Returns the instances that the caller spawned, or all.
    async fn list_instances(
        &self,
        include_all: bool,
    ) -> Result<Vec<SpawnedAgentInfo>, HandlerError>;
    /// Returns the conversations of `ids` that arguments of the call may name: those of the caller's
    /// key, those that the caller started, its callers, and those that a rule names.
    async fn within_reach(&self, ids: Vec<InstanceId>) -> Result<Vec<InstanceId>, HandlerError>;
    /// Returns the agents of the running swarm.
    async fn catalog(&self) -> Result<AgentCatalog, HandlerError>;

    /// Returns the reload capability, if the host grants it.
    fn reloader(&self) -> Option<&dyn ProjectReloader> {
        None
    }

    /// Returns the access to conversations, if the host grants it.
    fn sessions(&self) -> Option<&dyn ConversationAccess> {
        None
    }

    /// Returns the storage of the calling instance, if the host grants it.
    fn state(&self) -> Option<&dyn ToolStateStore> {
        None
    }

    /// Returns the scheduler of prompts, if the host grants it.
    fn prompt_scheduler(&self) -> Option<&dyn PromptScheduler> {
        None
    }

    /// Returns the access to embedding models, if the host grants it.
    fn embeddings(&self) -> Option<&dyn EmbeddingModels> {
        None
    }
}

/// Request or message from one agent to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentEventInput {
    /// Type, such as `agent.request`. Default: set by the operation.
    pub event_type: Option<String>,
    /// Text of the event.
    pub input: String,
    /// Conversation key of the target. Default: the caller's key.
    pub instance_key: Option<String>,
    /// Metadata of the event.
    pub metadata: JsonObject,
    /// Instructions after the target's own system prompt, only for the turn that handles this
    /// event.
    pub instructions: Option<String>,
    /// Conditions of the target's turn. Its tools are at least as restricted as the caller's.
    pub terms: TurnTerms,
}

/// Wait options of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// Maximum time without a heartbeat of the target, in milliseconds. Heartbeats are steps, and
    /// progress or ends of calls, including those of agents that it waits for. Time in a pending
    /// approval does not count. Default: 30 minutes.
    pub timeout_ms: Option<u64>,
    /// Returns immediately; the answer arrives before a later step.
    pub async_: bool,
}

/// Options of a new instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnOptions {
    /// Key of the instance. Default: derived from the agent's name.
    pub instance_key: Option<String>,
    /// Working directory of its tools. Default: the agent's `workdir`.
    pub cwd: Option<String>,
    /// Allowlist of tools for all its turns.
    pub narrowing: Option<ToolAllowlist>,
}
