//! Client of a swarm: of this process, or of another one through its control endpoint.

mod followed_turn;
mod local;
mod remote;

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use goondan::Input;
use goondan::event::{ConversationOperation, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::ports::model::ToolDefinition;
use goondan::ports::store::InstanceMeta;
use goondan::spec::Bundle;

pub(crate) use self::followed_turn::{follow, follow_chain};
pub(crate) use self::local::LocalClient;
pub(crate) use self::remote::RemoteClient;
use super::approval::PendingApproval;
use super::signals::{SignalReceiver, StopSignal};
use crate::exit::CliError;

/// Update for a client.
pub(crate) enum ClientUpdate {
    /// An input was accepted for this conversation. Its turn has this trace.
    Begun {
        instance: InstanceId,
        trace_id: String,
    },
    /// An event of the swarm.
    Event(SwarmEvent),
    /// An approval request.
    Question(PendingApproval),
    /// A notice about a reload or a build.
    Reloaded(String),
    /// A signal to end the command.
    Signal(StopSignal),
    /// The turn of the input ended.
    Ended(Result<Box<TurnResult>, TurnFailure>),
}

/// Error of a turn without a result.
pub(crate) enum TurnFailure {
    /// The turn has not begun: the process that runs the swarm was about to end, or has ended.
    NotBegun(CliError),
    /// The result is unavailable.
    Failed(CliError),
}

impl From<CliError> for TurnFailure {
    fn from(error: CliError) -> Self {
        TurnFailure::Failed(error)
    }
}

impl From<TurnFailure> for CliError {
    fn from(failure: TurnFailure) -> Self {
        let (TurnFailure::NotBegun(error) | TurnFailure::Failed(error)) = failure;
        error
    }
}

/// Client of a swarm.
pub(crate) trait SwarmClient {
    /// Returns the name of the swarm.
    fn swarm_name(&self) -> String;
    /// Returns the name of the entry agent.
    fn entry_agent(&self) -> String;
    /// Returns the names of all agents.
    fn agents(&self) -> Vec<String>;
    /// Returns the number of messages of a conversation; 0 if it is unknown here.
    async fn message_count(&self, id: &InstanceId) -> usize;
    /// Returns the conversations of the swarm; `None` if another process runs it.
    async fn conversations(&self) -> Option<Vec<InstanceMeta>>;
    /// Returns the tools of an agent; `None` if another process runs the swarm.
    fn tools(&self, agent: &str) -> Option<Vec<ToolDefinition>>;
    /// Returns the resources of the project; `None` if another process runs the swarm.
    fn bundle(&self) -> Option<Arc<Bundle>>;
    /// Returns the state directory of the swarm.
    fn workspace_dir(&self) -> PathBuf;
    /// Returns the directory of the project.
    fn project(&self) -> PathBuf;
    /// Returns the signals of this process.
    fn signals(&mut self) -> &mut SignalReceiver;

    /// Returns the prompts of MCP servers. A swarm of another process has none.
    fn prompts(&self) -> Vec<ServerPrompt>;
    /// Returns the input for a chat command of a prompt. Returns `None` if no MCP server has its
    /// name.
    async fn expand_prompt(&mut self, line: &str) -> Option<Result<PromptInput, CliError>>;

    /// Waits for the next update. The future may be dropped without losing one.
    async fn next(&mut self) -> Result<ClientUpdate, CliError>;
    /// Sends an input. Its results arrive as updates.
    async fn send(&mut self, input: Input) -> Result<(), TurnFailure>;
    /// Sends an input that joins the running turn. If that turn ends without the input, the next
    /// turn of the client handles the input. The input must have an id.
    async fn steer(&mut self, input: Input) -> Result<(), CliError>;
    /// Takes back an input that has not joined the turn.
    async fn withdraw(&mut self, event_id: &str) -> Result<(), CliError>;
    /// Starts an operation on a conversation. It ends as a turn does, with its result.
    async fn operate(
        &mut self,
        id: &InstanceId,
        operation: ConversationOperation,
    ) -> Result<(), CliError>;
    /// Retries a failed event of a conversation.
    async fn retry(&mut self, id: &InstanceId, event: &str) -> Result<(), CliError>;
    /// Returns true if an event is an input of this client.
    fn is_mine(&self, event_id: &str) -> bool;
    /// Cancels the turn in conversation `id`, and returns true if one was running.
    async fn cancel(&mut self, id: &InstanceId) -> Result<bool, CliError>;
    /// Reloads the project; the outcome arrives as an update. Returns false if unsupported.
    fn reload(&mut self) -> bool;
    /// Waits until a trace has no work left. Returns at once for a swarm of another process, which
    /// continues that work alone.
    fn settled(&self, trace_id: &str) -> BoxFuture<'static, ()>;

    /// Shows an approval request as a prompt.
    async fn show_approval_request(&mut self, question: PendingApproval) -> Result<(), CliError>;
    /// Handles a signal while a turn is followed. The turn finishes first. Fails if another process
    /// runs the turn, because it continues there.
    fn interrupt(&mut self, signal: StopSignal) -> Result<(), CliError>;
    /// Returns true if a signal ends the client.
    fn is_stopping(&self) -> bool;
    /// Ends the client, because of a signal if there is one. Fails if a signal was the reason.
    async fn end_client(self, signal: Option<StopSignal>) -> Result<(), CliError>;
}

/// Returns the id of the input that joined a turn with this event.
pub(super) fn joined_input(event: &SwarmEvent) -> Option<&str> {
    match event {
        SwarmEvent::Runtime(event) => match &event.kind {
            RuntimeEventKind::InputJoined { event_id, .. } => Some(event_id),
            _ => None,
        },
        _ => None,
    }
}
