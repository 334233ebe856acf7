//! Chat with a swarm that another process runs. The swarm and its turns continue there.

use std::path::PathBuf;
use std::sync::Arc;

use goondan::Input;
use goondan::event::TurnResult;
use goondan::ids::InstanceId;
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::ports::model::ToolDefinition;
use goondan::ports::store::InstanceMeta;
use goondan::spec::Bundle;
use goondan_serve::client::ClientEvent;
use goondan_serve::wire::InputState;

use super::super::approval::PendingApproval;
use super::super::remote_session::{OnSignal, RemoteSession, RemoteTurn, instance, process_ended};
use super::super::signals::{SignalReceiver, StopSignal};
use super::super::view::TurnView;
use super::chat_backend::{BackendEvent, ChatBackend};
use crate::exit::CliError;

/// Chat backend for the swarm of another process.
pub(in crate::commands::run) struct RemoteBackend {
    /// Session with the process that runs the swarm.
    there: RemoteSession,
    /// Running turn, and the state of its input once the process accepts it.
    turn: Option<(RemoteTurn, Option<InputState>)>,
    /// First signal that asked the chat to end.
    stopped_by: Option<StopSignal>,
}

impl RemoteBackend {
    /// Creates a backend for the swarm of a remote session.
    pub(in crate::commands::run) fn with(session: RemoteSession) -> Self {
        RemoteBackend {
            there: session,
            turn: None,
            stopped_by: None,
        }
    }

    /// Forgets the turn and returns the event that ends it.
    fn end_turn(&mut self, result: Result<TurnResult, CliError>) -> BackendEvent {
        self.turn = None;
        BackendEvent::Ended(result.map(Box::new))
    }
}

impl ChatBackend for RemoteBackend {
    fn swarm_name(&self) -> String {
        self.there.swarm().name.clone()
    }

    fn entry_agent(&self) -> String {
        self.there.swarm().entry_agent.clone()
    }

    fn agents(&self) -> Vec<String> {
        self.there.swarm().agents.clone()
    }

    async fn message_count(&self, _id: &InstanceId) -> usize {
        // The other process has the conversation.
        0
    }

    async fn conversations(&self) -> Option<Vec<InstanceMeta>> {
        None
    }

    fn tools(&self, _agent: &str) -> Option<Vec<ToolDefinition>> {
        None
    }

    fn bundle(&self) -> Option<Arc<Bundle>> {
        None
    }

    fn workspace_dir(&self) -> PathBuf {
        self.there.workspace().dir.clone()
    }

    fn project(&self) -> PathBuf {
        let last = self.there.workspace().last_generation().ok().flatten();
        last.map_or_else(|| PathBuf::from("."), |last| last.root)
    }

    fn signals(&mut self) -> &mut SignalReceiver {
        self.there.signals()
    }

    fn prompts(&self) -> Vec<ServerPrompt> {
        Vec::new()
    }

    async fn expand_prompt(&mut self, _: &str) -> Option<Result<PromptInput, CliError>> {
        None
    }

    /// Waits for the next signal, approval request or event of the running turn. Without a turn,
    /// waits only for a signal.
    async fn next(&mut self) -> Result<BackendEvent, CliError> {
        loop {
            let Some((remote_turn, accepted_state)) = &mut self.turn else {
                return Ok(BackendEvent::Signal(self.there.signals().next().await));
            };
            let event = tokio::select! {
                biased;
                signal = self.there.signals().next() => return Ok(BackendEvent::Signal(signal)),
                event = remote_turn.listening.next() => event,
                Some(question) = remote_turn.questions.next() => return Ok(BackendEvent::Question(question)),
            };
            match event {
                Some(Ok(ClientEvent::Accepted(accepted))) => {
                    let id = instance(&accepted);
                    *accepted_state = Some(accepted);
                    return Ok(BackendEvent::Begun(id));
                }
                Some(Ok(ClientEvent::Happened(event))) => return Ok(BackendEvent::Event(event)),
                Some(Ok(ClientEvent::Result(state))) => {
                    let result = state.result.ok_or_else(process_ended);
                    return Ok(self.end_turn(result));
                }
                Some(Ok(ClientEvent::Asked(_) | ClientEvent::Closed(_))) => {}
                Some(Err(error)) => return Ok(self.end_turn(Err(error.into()))),
                None => return Ok(self.end_turn(Err(process_ended()))),
            }
        }
    }

    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        self.turn = Some((self.there.talk(input).await?, None));
        Ok(())
    }

    /// Always true: the stream contains only events of this chat.
    fn is_mine(&self, _: &str) -> bool {
        true
    }

    /// Cancels the running turn; returns `false` if no accepted turn is running. The chat has only
    /// one conversation, so the instance id is not needed.
    async fn cancel(&mut self, _: &InstanceId) -> Result<bool, CliError> {
        let Some((_, Some(accepted_state))) = &self.turn else {
            return Ok(false);
        };
        self.there.cancel(accepted_state).await?;
        Ok(true)
    }

    fn reload(&mut self) -> bool {
        false
    }

    async fn settle(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn put_off(&mut self, _: PendingApproval) {}

    async fn put_questions(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    async fn say(&mut self, input: Input, view: &mut TurnView) -> Result<TurnResult, CliError> {
        Ok(self.there.say(input, view, OnSignal::Cancel).await?.result)
    }

    fn stop(&mut self, signal: StopSignal) -> Result<(), CliError> {
        self.stopped_by.get_or_insert(signal);
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stopped_by.is_some()
    }

    async fn leave(self) -> Result<(), CliError> {
        self.stopped_by.map_or(Ok(()), |signal| {
            Err(CliError::stopped(signal.exit(), "Interrupted."))
        })
    }
}
