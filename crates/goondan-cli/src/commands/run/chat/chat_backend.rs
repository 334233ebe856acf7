//! Backend of a chat: a swarm of this process, or of another one.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::Input;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::ports::model::ToolDefinition;
use goondan::ports::store::InstanceMeta;
use goondan::spec::Bundle;

use super::super::approval::PendingApproval;
use super::super::session::{OnInterrupt, RunSession, not_accepted};
use super::super::signals::{SignalReceiver, StopSignal};
use super::super::view::TurnView;
use crate::exit::CliError;

/// Event for a chat.
pub(in crate::commands::run) enum BackendEvent {
    /// An input was accepted for this conversation.
    Begun(InstanceId),
    /// An event of the swarm.
    Event(SwarmEvent),
    /// An approval request.
    Question(PendingApproval),
    /// A notice about a reload or a build.
    Reloaded(String),
    /// A signal to end the command.
    Signal(StopSignal),
    /// The turn of the input ended.
    Ended(Result<Box<TurnResult>, CliError>),
}

/// Backend of a chat.
pub(in crate::commands::run) trait ChatBackend {
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

    /// Waits for the next event. The future may be dropped without losing one.
    async fn next(&mut self) -> Result<BackendEvent, CliError>;
    /// Sends an input. Its results arrive as events.
    async fn send(&mut self, input: Input) -> Result<(), CliError>;
    /// Returns whether an event is an input of this chat.
    fn is_mine(&self, event_id: &str) -> bool;
    /// Cancels the turn in conversation `id`, and returns whether one was running.
    async fn cancel(&mut self, id: &InstanceId) -> Result<bool, CliError>;
    /// Reloads the project; the outcome arrives as an event. Returns `false` if unsupported.
    fn reload(&mut self) -> bool;

    /// Waits for turns of an earlier run.
    async fn settle(&mut self) -> Result<(), CliError>;
    /// Postpones an approval request.
    fn put_off(&mut self, question: PendingApproval);
    /// Shows the postponed requests.
    async fn put_questions(&mut self) -> Result<(), CliError>;
    /// Runs one turn and shows it in `view`.
    async fn say(&mut self, input: Input, view: &mut TurnView) -> Result<TurnResult, CliError>;

    /// Ends the chat because of `signal`.
    fn stop(&mut self, signal: StopSignal) -> Result<(), CliError>;
    /// Returns whether the chat ends because of a signal.
    fn is_stopping(&self) -> bool;
    /// Ends the chat. Fails if a signal was the reason.
    async fn leave(self) -> Result<(), CliError>;
}

/// Chat backend for the swarm of this process.
pub(in crate::commands::run) struct LocalBackend {
    session: RunSession,
    /// Events to return first.
    told: VecDeque<BackendEvent>,
    /// Input event of the last turn, and its end while it runs.
    event_id: String,
    turn: Option<BoxFuture<'static, Option<TurnResult>>>,
}

impl LocalBackend {
    /// Creates a backend for the swarm of `session`.
    pub(in crate::commands::run) fn with(session: RunSession) -> Self {
        LocalBackend {
            session,
            told: VecDeque::new(),
            event_id: String::new(),
            turn: None,
        }
    }
}

impl ChatBackend for LocalBackend {
    fn swarm_name(&self) -> String {
        self.session.swarm.name()
    }

    fn entry_agent(&self) -> String {
        self.session.swarm.entry_agent()
    }

    fn agents(&self) -> Vec<String> {
        self.session.swarm.agents()
    }

    async fn message_count(&self, id: &InstanceId) -> usize {
        let messages = self.session.swarm.conversation(id).await;
        messages.map_or(0, |messages| messages.len())
    }

    async fn conversations(&self) -> Option<Vec<InstanceMeta>> {
        Some(self.session.swarm.instances().await)
    }

    fn tools(&self, agent: &str) -> Option<Vec<ToolDefinition>> {
        self.session.swarm.catalog(agent)
    }

    fn bundle(&self) -> Option<Arc<Bundle>> {
        Some(self.session.swarm.bundle())
    }

    fn workspace_dir(&self) -> PathBuf {
        self.session.swarm.workspace_dir()
    }

    fn project(&self) -> PathBuf {
        self.session.swarm.bundle().root().to_owned()
    }

    fn signals(&mut self) -> &mut SignalReceiver {
        &mut self.session.signals
    }

    fn prompts(&self) -> Vec<ServerPrompt> {
        self.session.swarm.prompts()
    }

    async fn expand_prompt(&mut self, line: &str) -> Option<Result<PromptInput, CliError>> {
        let expanded = self.session.swarm.expand_prompt(line).await?;
        Some(expanded.map_err(crate::commands::mcp::failed))
    }

    async fn next(&mut self) -> Result<BackendEvent, CliError> {
        if let Some(event) = self.told.pop_front() {
            return Ok(event);
        }
        let LocalBackend { session, turn, .. } = self;
        let turn_end = async {
            match turn {
                Some(turn_end) => turn_end.await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            biased;
            signal = session.signals.next() => return Ok(BackendEvent::Signal(signal)),
            // Events published before the end of a turn must come before it.
            Some(event) = session.events.recv() => return Ok(BackendEvent::Event(event)),
            Some(question) = session.questions.next() => return Ok(BackendEvent::Question(question)),
            words = session.reloads.next() => return Ok(BackendEvent::Reloaded(words)),
            result = turn_end => result,
        };
        self.turn = None;
        Ok(BackendEvent::Ended(
            result.map(Box::new).ok_or_else(|| self.session.no_result()),
        ))
    }

    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        let turn = self.session.swarm.send(input).await.map_err(not_accepted)?;
        self.told
            .push_back(BackendEvent::Begun(turn.instance.clone()));
        self.event_id.clone_from(&turn.event_id);
        self.turn = Some(turn.result().boxed());
        Ok(())
    }

    fn is_mine(&self, event_id: &str) -> bool {
        self.event_id == event_id
    }

    async fn cancel(&mut self, id: &InstanceId) -> Result<bool, CliError> {
        Ok(self.session.swarm.cancel(id).await)
    }

    fn reload(&mut self) -> bool {
        let swarm = self.session.swarm.clone();
        tokio::spawn(async move { drop(swarm.reload().await) });
        true
    }

    async fn settle(&mut self) -> Result<(), CliError> {
        self.session.wait_for_running_turns().await
    }

    fn put_off(&mut self, question: PendingApproval) {
        self.session.questions.postpone(question);
    }

    async fn put_questions(&mut self) -> Result<(), CliError> {
        self.session.put_questions().await
    }

    async fn say(&mut self, input: Input, view: &mut TurnView) -> Result<TurnResult, CliError> {
        Ok(self
            .session
            .follow(input, view, OnInterrupt::CancelTurn)
            .await?
            .result)
    }

    fn stop(&mut self, signal: StopSignal) -> Result<(), CliError> {
        self.session.stop(signal)
    }

    fn is_stopping(&self) -> bool {
        self.session.is_stopping()
    }

    async fn leave(self) -> Result<(), CliError> {
        self.session.shut_down().await
    }
}
