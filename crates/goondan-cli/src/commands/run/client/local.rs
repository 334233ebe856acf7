//! Client of the swarm of this process.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::event::{ConversationOperation, InputDelivery, SwarmEvent, TurnResult};
use goondan::gateway::Submission;
use goondan::ids::InstanceId;
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::ports::model::ToolDefinition;
use goondan::ports::store::InstanceMeta;
use goondan::spec::Bundle;
use goondan::start::swarm::DEFAULT_INSTANCE_KEY;
use goondan::{Input, SendError, Turn};

use super::{ClientUpdate, SwarmClient, TurnFailure, joined_input};
use crate::commands::run::approval::PendingApproval;
use crate::commands::run::session::{RunSession, rejected_input_error};
use crate::commands::run::signals::{SignalReceiver, StopSignal};
use crate::exit::CliError;

/// Client of the swarm of this process.
pub(crate) struct LocalClient {
    session: RunSession,
    /// Updates that [`SwarmClient::next`] returns before others.
    pending_updates: VecDeque<ClientUpdate>,
    /// Ids of the inputs of this client.
    sent: HashSet<String>,
    /// End of the running turn.
    turn: Option<BoxFuture<'static, Option<TurnResult>>>,
    /// Inputs that were sent to join the running turn, and have not joined it.
    steering: VecDeque<Turn>,
}

impl LocalClient {
    /// Follows the turn of an input.
    fn follow(&mut self, turn: Turn) {
        self.sent.insert(turn.event_id.clone());
        self.pending_updates.push_back(ClientUpdate::Begun {
            instance: turn.instance.clone(),
            trace_id: turn.trace_id.clone(),
        });
        self.turn = Some(turn.result().boxed());
    }

    /// Submits an input through the gateway. Fails if the swarm does not accept the input.
    async fn submit(&self, input: Input) -> Result<Submission, CliError> {
        let submission = self.session.endpoint.service.gateway().submit(input).await;
        submission.map_err(|error| rejected_input_error(SendError::from(error)))
    }

    /// Forgets an input that joined the running turn, because the input ends with that turn.
    fn note_joined(&mut self, event: &SwarmEvent) {
        if let Some(joined) = joined_input(event) {
            self.steering.retain(|turn| turn.event_id != joined);
        }
    }

    /// Creates a client of the swarm of `session`.
    pub(crate) fn new(session: RunSession) -> Self {
        LocalClient {
            session,
            pending_updates: VecDeque::new(),
            sent: HashSet::new(),
            turn: None,
            steering: VecDeque::new(),
        }
    }
}

impl SwarmClient for LocalClient {
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
        Some(expanded.map_err(crate::commands::mcp::server_error))
    }

    async fn next(&mut self) -> Result<ClientUpdate, CliError> {
        if let Some(event) = self.pending_updates.pop_front() {
            return Ok(event);
        }
        let LocalClient { session, turn, .. } = self;
        let turn_end = async {
            match turn {
                Some(turn_end) => turn_end.await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            biased;
            signal = session.signals.next() => return Ok(ClientUpdate::Signal(signal)),
            // Events published before the end of a turn must come before it.
            Some(event) = session.events.recv() => {
                self.note_joined(&event);
                return Ok(ClientUpdate::Event(event));
            }
            Some(question) = session.questions.next() => return Ok(ClientUpdate::Question(question)),
            words = session.reloads.next() => return Ok(ClientUpdate::Reloaded(words)),
            result = turn_end => result,
        };
        self.turn = None;
        if let Some(next) = self.steering.pop_front() {
            self.follow(next);
        }
        let result = result.map(Box::new);
        Ok(ClientUpdate::Ended(
            result.ok_or_else(|| self.session.no_result_error().into()),
        ))
    }

    async fn send(&mut self, input: Input) -> Result<(), TurnFailure> {
        let agent = input.agent.clone().unwrap_or_else(|| self.entry_agent());
        let instance_key = input.instance_key.as_deref();
        let instance = InstanceId::new(agent, instance_key.unwrap_or(DEFAULT_INSTANCE_KEY));
        match self.submit(input).await? {
            Submission::New(turn) | Submission::Running(turn) => self.follow(turn),
            // The turn of an earlier input with the same id is already over.
            Submission::Finished(result) => self.pending_updates.extend([
                ClientUpdate::Begun {
                    instance,
                    trace_id: String::new(),
                },
                ClientUpdate::Ended(Ok(result)),
            ]),
        }
        Ok(())
    }

    async fn steer(&mut self, input: Input) -> Result<(), CliError> {
        let input = Input {
            delivery: InputDelivery::Steer,
            ..input
        };
        // An input whose turn is over has the id of an earlier input, so nothing joins.
        if let Submission::New(turn) | Submission::Running(turn) = self.submit(input).await? {
            self.sent.insert(turn.event_id.clone());
            self.steering.push_back(turn);
        }
        Ok(())
    }

    async fn operate(
        &mut self,
        id: &InstanceId,
        operation: ConversationOperation,
    ) -> Result<(), CliError> {
        let swarm = &self.session.swarm;
        let turn = match operation {
            ConversationOperation::Compact => swarm.compact(id).await,
            ConversationOperation::Undo => swarm.undo(id).await,
        };
        self.follow(turn.map_err(rejected_input_error)?);
        Ok(())
    }

    async fn retry(&mut self, id: &InstanceId, event: &str) -> Result<(), CliError> {
        let turn = self.session.swarm.retry(id, event).await;
        self.follow(turn.map_err(rejected_input_error)?);
        Ok(())
    }

    async fn withdraw(&mut self, event_id: &str) -> Result<(), CliError> {
        self.steering.retain(|turn| turn.event_id != event_id);
        self.session.swarm.cancel_event(event_id).await;
        Ok(())
    }

    fn is_mine(&self, event_id: &str) -> bool {
        self.sent.contains(event_id)
    }

    async fn cancel(&mut self, id: &InstanceId) -> Result<bool, CliError> {
        Ok(self.session.swarm.cancel(id).await)
    }

    fn reload(&mut self) -> bool {
        let swarm = self.session.swarm.clone();
        tokio::spawn(async move { drop(swarm.reload().await) });
        true
    }

    fn settled(&self, trace_id: &str) -> BoxFuture<'static, ()> {
        let (swarm, trace_id) = (self.session.swarm.clone(), trace_id.to_owned());
        async move { swarm.settled(&trace_id).await }.boxed()
    }

    async fn show_approval_request(&mut self, question: PendingApproval) -> Result<(), CliError> {
        self.session.show_approval_request(question).await.map(drop)
    }

    fn interrupt(&mut self, signal: StopSignal) -> Result<(), CliError> {
        self.session.stop(signal)
    }

    fn is_stopping(&self) -> bool {
        self.session.is_stopping()
    }

    async fn end_client(mut self, signal: Option<StopSignal>) -> Result<(), CliError> {
        if let Some(signal) = signal.filter(|_| !self.is_stopping()) {
            self.interrupt(signal)?;
        }
        self.session.shut_down().await
    }
}
