//! Client of a swarm that another process runs, through its control endpoint. Turns continue there if
//! this command ends.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::event::{ConversationOperation, InputDelivery, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::ports::approval::Approver;
use goondan::ports::model::ToolDefinition;
use goondan::ports::store::InstanceMeta;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::{Bundle, Code};
use goondan::{Input, Workspace};
use goondan_serve::client::{ClientError, ClientEvent, ServerEvents, conversation_path, segment};
use goondan_serve::wire::{CallBody, InputState, RetryBody};

use super::{ClientUpdate, SwarmClient, TurnFailure, joined_input};
use crate::commands::run::approval::{
    ApprovalResponder, PendingApproval, PendingApprovals, set_up_approvals,
};
use crate::commands::run::session::interruption_error;
use crate::commands::run::signals::{SignalReceiver, StopSignal};
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project::StartArgs;
use crate::remote::{self, RemoteEventListener, RemoteSwarm};

/// Client of a swarm that another process runs.
pub(crate) struct RemoteClient {
    remote: RemoteSwarm,
    signals: SignalReceiver,
    yes: bool,
    output: CommandOutput,
    turn: Option<RemoteTurn>,
    /// Inputs that were sent to join the running turn, and have not joined it. With their ids.
    steering: VecDeque<(String, RemoteTurn)>,
}

/// Followed turn with its approval requests.
struct RemoteTurn {
    listener: RemoteEventListener,
    questions: PendingApprovals,
    /// State of the input once the process accepts it.
    accepted: Option<InputState>,
    has_begun: bool,
    /// End of a turn that was over before the process accepted the input.
    end: Option<TurnResult>,
}

/// Approver for the requests of a turn.
struct TurnApprovals {
    /// The requests are answered here.
    is_open: bool,
    approver: Arc<dyn Approver>,
    questions: PendingApprovals,
}

impl RemoteClient {
    /// Creates a client. Notes that the swarm runs in another process, and which arguments have no
    /// effect there. `request` names what that process receives, such as `input`.
    pub(crate) fn begin(
        remote: RemoteSwarm,
        request: &str,
        args: &StartArgs,
        signals: SignalReceiver,
        output: &CommandOutput,
    ) -> Result<Self, CliError> {
        output.note(&format!(
            "Another process runs this swarm and receives the {request}."
        ))?;
        for (is_given, name) in [
            (args.env_file.is_some(), "--env-file"),
            (args.workdir.is_some(), "--workdir"),
            (args.build, "--build"),
        ] {
            if is_given {
                output.note(&format!(
                    "`{name}` has no effect on a process that is already running."
                ))?;
            }
        }
        Ok(RemoteClient::new(remote, args.yes, signals, output))
    }

    /// Creates a client; `yes` approves every request.
    pub(crate) fn new(
        remote: RemoteSwarm,
        yes: bool,
        signals: SignalReceiver,
        output: &CommandOutput,
    ) -> Self {
        RemoteClient {
            remote,
            signals,
            yes,
            output: *output,
            turn: None,
            steering: VecDeque::new(),
        }
    }

    /// Waits until a process that was about to end has ended, and returns the signals.
    /// Work that the process has not begun can then begin here. Fails with `error` if it does not
    /// end.
    pub(crate) async fn wait_for_exit(
        mut self,
        error: CliError,
    ) -> Result<SignalReceiver, CliError> {
        tokio::select! {
            has_ended = self.remote.wait_for_exit() => if !has_ended {
                return Err(error);
            },
            signal = self.signals.next() => return Err(CliError::stopped(signal.exit(), "Interrupted.")),
        }
        self.output
            .note("That process has ended; starting the swarm here.")?;
        Ok(self.signals)
    }

    /// Follows the turn of an event stream.
    fn follow(&self, events: ServerEvents, approvals: TurnApprovals) -> RemoteTurn {
        let (client, approver) = (&self.remote.client, approvals.approver);
        RemoteTurn {
            listener: RemoteEventListener::answering(events, client, approver),
            questions: approvals.questions,
            accepted: None,
            has_begun: false,
            end: None,
        }
    }

    /// Submits an input and follows its turn.
    async fn submit(&self, input: Input) -> Result<RemoteTurn, TurnFailure> {
        let approvals = self.turn_approvals();
        let events = self.remote.submit_followed(input, approvals.is_open).await;
        // Sending an input twice begins one turn. A broken connection may mean that none has begun.
        let events = events.map_err(|error| match error {
            ClientError::Broken(_) => TurnFailure::NotBegun(error.into()),
            error => request_error(error),
        })?;
        Ok(self.follow(events, approvals))
    }

    /// Follows the turn of an accepted event.
    async fn follow_accepted(&self, state: &InputState) -> Result<RemoteTurn, CliError> {
        let approvals = self.turn_approvals();
        let events = self.remote.follow_input(&state.id, approvals.is_open);
        let events = events.await?;
        Ok(self.follow(events, approvals))
    }

    /// Forgets the turn and returns the update that ends it. An input that has not joined the turn is
    /// followed next.
    fn end_turn(&mut self, result: Result<TurnResult, TurnFailure>) -> ClientUpdate {
        self.turn = self.steering.pop_front().map(|(_, turn)| turn);
        ClientUpdate::Ended(result.map(Box::new))
    }

    /// Returns the workspace of the swarm.
    pub(crate) fn workspace(&self) -> &Workspace {
        self.remote.workspace()
    }

    /// Creates the approver for a turn, and decides whether its approval requests are answered
    /// here.
    fn turn_approvals(&self) -> TurnApprovals {
        let approvals = set_up_approvals(self.yes, ApprovalResponder::Terminal);
        TurnApprovals {
            is_open: self.yes || approvals.requests.can_receive(),
            approver: approvals.approver,
            questions: approvals.requests,
        }
    }

    /// Calls a tool directly, without a model, and returns its result. During the call, the user
    /// answers approval requests here; `--yes` approves them. A signal interrupts the call.
    pub(crate) async fn call_tool(
        &mut self,
        tool: &str,
        body: &CallBody,
    ) -> Result<ToolCallResult, TurnFailure> {
        let TurnApprovals {
            is_open,
            approver,
            mut questions,
        } = self.turn_approvals();
        // Answers approval requests until dropped.
        let _listener = if is_open {
            Some(self.answer_approvals(approver).await?)
        } else {
            None
        };
        let path = format!("/api/tools/{}", segment(tool));
        let client = self.remote.client.clone();
        let mut outcome = std::pin::pin!(client.post(&path, body));
        loop {
            tokio::select! {
                outcome = &mut outcome => return outcome.map_err(request_error),
                Some(question) = questions.next() => if question.ask_user(self.signals.arrival()).await {
                    return Err(TurnFailure::Failed(CliError::interrupted()));
                },
                signal = self.signals.next() => {
                    return Err(TurnFailure::Failed(CliError::stopped(signal.exit(), "Interrupted.")));
                }
            }
        }
    }

    /// Subscribes to the approval requests of the swarm. `approver` answers them until the returned
    /// listener is dropped.
    async fn answer_approvals(
        &self,
        approver: Arc<dyn Approver>,
    ) -> Result<RemoteEventListener, TurnFailure> {
        // An empty agent name matches no agent, so only approval requests arrive.
        let events = self
            .remote
            .client
            .events("/api/events?approvals=true&agent=")
            .await
            .map_err(request_error)?;
        let client = &self.remote.client;
        Ok(RemoteEventListener::answering(events, client, approver))
    }

    /// Shows all events until a signal arrives or the process ends.
    pub(crate) async fn watch(
        mut self,
        filter: &str,
        mut show: impl FnMut(&SwarmEvent) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let TurnApprovals {
            is_open,
            approver,
            mut questions,
        } = self.turn_approvals();
        let path = format!("/api/events?approvals={is_open}{filter}");
        let events = self.remote.client.events(&path).await?;
        let mut listener = RemoteEventListener::answering(events, &self.remote.client, approver);
        loop {
            tokio::select! {
                event = listener.next() => match event.transpose()? {
                    Some(ClientEvent::Happened(event)) => show(&event)?,
                    Some(_) => {}
                    None => return self.output.note("The process that ran the swarm has ended."),
                },
                Some(question) = questions.next() => drop(question.ask_user(self.signals.arrival()).await),
                _ = self.signals.next() => return Ok(()),
            }
        }
    }
}

impl SwarmClient for RemoteClient {
    fn swarm_name(&self) -> String {
        self.remote.swarm.name.clone()
    }

    fn entry_agent(&self) -> String {
        self.remote.swarm.entry_agent.clone()
    }

    fn agents(&self) -> Vec<String> {
        self.remote.swarm.agents.clone()
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
        self.workspace().dir.clone()
    }

    fn project(&self) -> PathBuf {
        let last = self.workspace().last_generation().ok().flatten();
        last.map_or_else(|| PathBuf::from("."), |last| last.root)
    }

    fn signals(&mut self) -> &mut SignalReceiver {
        &mut self.signals
    }

    fn prompts(&self) -> Vec<ServerPrompt> {
        Vec::new()
    }

    async fn expand_prompt(&mut self, _: &str) -> Option<Result<PromptInput, CliError>> {
        None
    }

    /// Waits for the next signal, approval request or event of the running turn. Without a turn,
    /// waits only for a signal.
    async fn next(&mut self) -> Result<ClientUpdate, CliError> {
        loop {
            let Some(turn) = &mut self.turn else {
                return Ok(ClientUpdate::Signal(self.signals.next().await));
            };
            if let Some(result) = turn.end.take() {
                return Ok(self.end_turn(Ok(result)));
            }
            let event = tokio::select! {
                biased;
                signal = self.signals.next() => return Ok(ClientUpdate::Signal(signal)),
                event = turn.listener.next() => event,
                Some(question) = turn.questions.next() => return Ok(ClientUpdate::Question(question)),
            };
            let failure = if turn.has_begun {
                TurnFailure::Failed
            } else {
                TurnFailure::NotBegun
            };
            match event {
                Some(Ok(ClientEvent::Accepted(state))) => {
                    let update = accepted_update(&state);
                    turn.accepted = Some(state);
                    return Ok(update);
                }
                Some(Ok(ClientEvent::Happened(event))) => {
                    turn.has_begun = true;
                    // The stream of the running turn has its events.
                    if let Some(joined) = joined_input(&event) {
                        self.steering.retain(|(id, _)| id != joined);
                    }
                    return Ok(ClientUpdate::Event(event));
                }
                Some(Ok(ClientEvent::Result(state))) => match (&turn.accepted, state.result) {
                    (_, None) => return Ok(self.end_turn(Err(process_ended_error().into()))),
                    (Some(_), Some(result)) => return Ok(self.end_turn(Ok(result))),
                    (None, Some(result)) => {
                        turn.end = Some(result);
                        let state = InputState {
                            result: None,
                            ..state
                        };
                        return Ok(accepted_update(&state));
                    }
                },
                Some(Ok(ClientEvent::Asked(_) | ClientEvent::Closed(_))) => {}
                Some(Err(error)) => return Ok(self.end_turn(Err(failure(error.into())))),
                None => return Ok(self.end_turn(Err(failure(process_ended_error())))),
            }
        }
    }

    async fn send(&mut self, input: Input) -> Result<(), TurnFailure> {
        self.turn = Some(self.submit(input).await?);
        Ok(())
    }

    async fn steer(&mut self, input: Input) -> Result<(), CliError> {
        let id = input.id.clone().unwrap_or_default();
        let input = Input {
            delivery: InputDelivery::Steer,
            ..input
        };
        self.steering.push_back((id, self.submit(input).await?));
        Ok(())
    }

    async fn operate(
        &mut self,
        id: &InstanceId,
        operation: ConversationOperation,
    ) -> Result<(), CliError> {
        let name = match operation {
            ConversationOperation::Compact => "compact",
            ConversationOperation::Undo => "undo",
        };
        let path = conversation_path(id, name);
        let state: InputState = self.remote.client.post(&path, &()).await?;
        self.turn = Some(self.follow_accepted(&state).await?);
        Ok(())
    }

    async fn retry(&mut self, id: &InstanceId, event: &str) -> Result<(), CliError> {
        let path = conversation_path(id, "retry");
        let body = RetryBody {
            event_id: event.to_owned(),
        };
        let state: InputState = self.remote.client.post(&path, &body).await?;
        self.turn = Some(self.follow_accepted(&state).await?);
        Ok(())
    }

    async fn withdraw(&mut self, event_id: &str) -> Result<(), CliError> {
        self.steering.retain(|(id, _)| id != event_id);
        Ok(self.remote.cancel_input(event_id).await?)
    }

    /// Always true: the stream contains only events of this client.
    fn is_mine(&self, _: &str) -> bool {
        true
    }

    /// Cancels the running turn; returns false if no accepted turn is running. The client follows
    /// only one turn, so the instance id is not needed.
    async fn cancel(&mut self, _: &InstanceId) -> Result<bool, CliError> {
        let Some(accepted) = self.turn.as_ref().and_then(|turn| turn.accepted.as_ref()) else {
            return Ok(false);
        };
        self.remote.cancel_input(&accepted.id).await?;
        Ok(true)
    }

    fn reload(&mut self) -> bool {
        false
    }

    fn settled(&self, _: &str) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    async fn show_approval_request(&mut self, question: PendingApproval) -> Result<(), CliError> {
        let _ = question.ask_user(self.signals.arrival()).await;
        Ok(())
    }

    fn interrupt(&mut self, signal: StopSignal) -> Result<(), CliError> {
        Err(turn_continues(signal))
    }

    fn is_stopping(&self) -> bool {
        false
    }

    async fn end_client(self, signal: Option<StopSignal>) -> Result<(), CliError> {
        signal.map_or(Ok(()), |signal| Err(interruption_error(signal)))
    }
}

/// Returns the update about an accepted input.
fn accepted_update(state: &InputState) -> ClientUpdate {
    let agent = state.agent_name.as_deref().unwrap_or_default();
    ClientUpdate::Begun {
        instance: InstanceId::new(agent, state.instance_key.as_deref().unwrap_or_default()),
        trace_id: state.trace_id.clone().unwrap_or_default(),
    }
}

/// Error of a request. If the process was about to end, another one may accept the request.
fn request_error(error: ClientError) -> TurnFailure {
    if remote::is_not_accepted(&error) {
        TurnFailure::NotBegun(error.into())
    } else {
        TurnFailure::Failed(error.into())
    }
}

/// Returns the error of a command that stops following a turn; the turn continues.
fn turn_continues(signal: StopSignal) -> CliError {
    CliError::stopped(
        signal.exit(),
        "Interrupted. The turn continues in the process that runs the swarm.",
    )
    .suggest("Follow the turn with `gdn attach`.")
}

/// Error of a turn whose process ended.
fn process_ended_error() -> CliError {
    CliError::failure(
        Code::SWARM_STOPPED,
        "The process that runs the swarm ended before the turn did.",
    )
    .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
}
