//! Turns in a swarm that another process runs. They continue there if this command ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::approval::Approver;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Code;
use goondan::{Input, UsageLedger, Workspace};
use goondan_serve::client::{ClientError, ClientEvent, ServerEvents, conversation_path, segment};
use goondan_serve::wire::{CallBody, InputState, RetryBody, SwarmBody};

use super::OutputFormat;
use super::approval::{ApprovalResponder, PendingApprovals, approver};
use super::signals::{SignalReceiver, StopSignal};
use super::view::TurnView;
use crate::exit::CliError;
use crate::output::{CommandOutput, TurnReport, TurnReportFacts, turn_error};
use crate::project::StartArgs;
use crate::remote::{self, RemoteEventListener, RemoteSwarm};

/// Client of a swarm that another process runs.
pub(crate) struct RemoteSession {
    remote: RemoteSwarm,
    signals: SignalReceiver,
    yes: bool,
    output: CommandOutput,
}

/// Result of a turn.
pub(crate) struct RemoteTurnResult {
    state: InputState,
    pub(crate) result: TurnResult,
    ledger: UsageLedger,
    took: Duration,
}

impl RemoteTurnResult {
    /// Returns the JSON report.
    pub(crate) fn report(&self) -> TurnReport {
        let trace_id = self.state.trace_id.clone().unwrap_or_default();
        let usage = self.ledger.of(&trace_id);
        let duration_ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        let facts = TurnReportFacts {
            instance: instance(&self.state),
            trace_id,
            duration_ms,
        };
        TurnReport::result(None, facts, &self.result, usage)
    }
}

/// Error of a turn without a result.
pub(crate) enum RemoteTurnError {
    /// The turn has not begun: the process was about to end, or has ended.
    NotBegun(CliError),
    /// The result is unavailable.
    Failed(CliError),
}

impl From<CliError> for RemoteTurnError {
    fn from(error: CliError) -> Self {
        RemoteTurnError::Failed(error)
    }
}

impl From<RemoteTurnError> for CliError {
    fn from(turn_error: RemoteTurnError) -> Self {
        let (RemoteTurnError::NotBegun(error) | RemoteTurnError::Failed(error)) = turn_error;
        error
    }
}

/// Effect of a signal on a followed turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnSignal {
    /// The turn continues without this command.
    Leave,
    /// The first signal cancels the turn.
    Cancel,
}

/// Followed turn with its approval requests.
pub(super) struct RemoteTurn {
    pub(super) listening: RemoteEventListener,
    pub(super) questions: PendingApprovals,
}

/// Approver for the requests of a turn.
struct TurnApprovals {
    /// The requests are answered here.
    is_open: bool,
    approver: Arc<dyn Approver>,
    questions: PendingApprovals,
}

impl RemoteSession {
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
        Ok(RemoteSession::new(remote, args.yes, signals, output))
    }

    /// Creates a client; `yes` approves every request.
    pub(crate) fn new(
        remote: RemoteSwarm,
        yes: bool,
        signals: SignalReceiver,
        output: &CommandOutput,
    ) -> Self {
        RemoteSession {
            remote,
            signals,
            yes,
            output: *output,
        }
    }

    /// Sends one input and prints the answer in the requested format.
    pub(super) async fn ask(
        &mut self,
        input: Input,
        format: OutputFormat,
    ) -> Result<(), RemoteTurnError> {
        let mut view = match format {
            OutputFormat::Text => TurnView::text(&self.output),
            OutputFormat::Json => TurnView::silent(),
            OutputFormat::StreamJson => TurnView::lines(&self.output),
        };
        let turn = self.say(input, &mut view, OnSignal::Leave).await?;
        view.end(&turn.result)?;
        match format {
            OutputFormat::Text => {}
            OutputFormat::Json if CommandOutput::stdout_is_terminal() => {
                self.output.json_pretty(&turn.report())?
            }
            _ => self.output.json_line(&turn.report())?,
        }
        turn_error(&turn.result).map_or(Ok(()), |error| Err(RemoteTurnError::Failed(error)))
    }

    /// Waits until a process that was about to end has ended, and returns the signals.
    /// Work that the process has not begun can then begin here. Fails with `error` if it does not
    /// end.
    pub(crate) async fn wait_for_exit(
        mut self,
        error: CliError,
    ) -> Result<SignalReceiver, CliError> {
        tokio::select! {
            has_ended = self.remote.ended() => if !has_ended {
                return Err(error);
            },
            signal = self.signals.next() => return Err(CliError::stopped(signal.exit(), "Interrupted.")),
        }
        self.output
            .note("That process has ended; starting the swarm here.")?;
        Ok(self.signals)
    }

    /// Returns the description of the swarm.
    pub(super) fn swarm(&self) -> &SwarmBody {
        &self.remote.swarm
    }

    /// Returns the signals of this process.
    pub(super) fn signals(&mut self) -> &mut SignalReceiver {
        &mut self.signals
    }

    /// Sends an input and shows its turn to the end.
    pub(super) async fn say(
        &mut self,
        input: Input,
        view: &mut TurnView,
        on_signal: OnSignal,
    ) -> Result<RemoteTurnResult, RemoteTurnError> {
        let approvals = self.turn_approvals();
        let path = format!("/api/inputs?approvals={}", approvals.is_open);
        let events = self.remote.client.follow(&path, &remote::body(input)).await;
        // Sending an input twice begins one turn. A broken connection may mean that none has begun.
        let events = events.map_err(|error| match error {
            ClientError::Broken(_) => RemoteTurnError::NotBegun(error.into()),
            error => request_error(error),
        })?;
        self.follow(events, approvals, view, on_signal).await
    }

    /// Sends an input. The returned value receives its events.
    pub(super) async fn talk(&self, input: Input) -> Result<RemoteTurn, CliError> {
        let TurnApprovals {
            is_open,
            approver,
            questions,
        } = self.turn_approvals();
        let path = format!("/api/inputs?approvals={is_open}");
        let events = self
            .remote
            .client
            .follow(&path, &remote::body(input))
            .await?;
        Ok(RemoteTurn {
            listening: RemoteEventListener::answering(events, &self.remote.client, approver),
            questions,
        })
    }

    /// Retries a failed event and shows its turn to the end.
    pub(crate) async fn retry(
        &mut self,
        id: &InstanceId,
        event: &str,
        view: &mut TurnView,
    ) -> Result<RemoteTurnResult, CliError> {
        let approvals = self.turn_approvals();
        let retry_path = conversation_path(id, "retry");
        let state: InputState = self
            .remote
            .client
            .post(
                &retry_path,
                &RetryBody {
                    event_id: event.to_owned(),
                },
            )
            .await?;
        let path = format!(
            "/api/inputs/{}/events?approvals={}",
            segment(&state.id),
            approvals.is_open
        );
        let events = self.remote.client.events(&path).await?;
        Ok(self
            .follow(events, approvals, view, OnSignal::Leave)
            .await?)
    }

    /// Returns the workspace of the swarm.
    pub(crate) fn workspace(&self) -> &Workspace {
        self.remote.workspace()
    }

    /// Creates the approver for a turn, and decides whether its approval requests are answered
    /// here.
    fn turn_approvals(&self) -> TurnApprovals {
        let (approver, _, questions) = approver(self.yes, ApprovalResponder::Terminal);
        TurnApprovals {
            is_open: self.yes || questions.can_receive(),
            approver,
            questions,
        }
    }

    /// Shows the events of a turn until it ends. Returns the result.
    async fn follow(
        &mut self,
        events: ServerEvents,
        approvals: TurnApprovals,
        view: &mut TurnView,
        on_signal: OnSignal,
    ) -> Result<RemoteTurnResult, RemoteTurnError> {
        let begin = Instant::now();
        let TurnApprovals {
            approver,
            mut questions,
            ..
        } = approvals;
        let mut listener = RemoteEventListener::answering(events, &self.remote.client, approver);
        let mut ledger = UsageLedger::default();
        let mut is_cancelled = false;
        let (mut accepted, mut has_begun) = (None, false);
        loop {
            tokio::select! {
                biased;
                event = listener.next() => match event.transpose().map_err(|error| connection_error(error, has_begun))? {
                    Some(ClientEvent::Accepted(state)) => {
                        ledger.follow(state.trace_id.as_deref().unwrap_or_default());
                        view.begin(&instance(&state));
                        view.resume();
                        accepted = Some(state);
                    }
                    Some(ClientEvent::Happened(event)) => {
                        has_begun = true;
                        ledger.note(&event);
                        view.show(&event)?;
                    }
                    Some(ClientEvent::Result(state)) => {
                        let state = accepted.map_or(state.clone(), |accepted_state| InputState { result: state.result, ..accepted_state });
                        let result = state.result.clone().ok_or_else(process_ended)?;
                        return Ok(RemoteTurnResult { state, result, ledger, took: begin.elapsed() });
                    }
                    Some(ClientEvent::Asked(_) | ClientEvent::Closed(_)) => {}
                    None if has_begun => return Err(RemoteTurnError::Failed(process_ended())),
                    None => return Err(RemoteTurnError::NotBegun(process_ended())),
                },
                Some(question) = questions.next() => {
                    view.pause();
                    let _ = question.ask_user(self.signals.arrival()).await;
                    view.resume();
                }
                signal = self.signals.next() => match &accepted {
                    Some(turn) if on_signal == OnSignal::Cancel && signal == StopSignal::Interrupt && !is_cancelled => {
                        is_cancelled = true;
                        self.cancel(turn).await?;
                    }
                    _ => {
                        view.pause();
                        return Err(RemoteTurnError::Failed(turn_continues(signal)));
                    }
                },
            }
        }
    }

    /// Cancels the turn. A turn that has already ended counts as cancelled.
    pub(super) async fn cancel(&self, turn: &InputState) -> Result<(), CliError> {
        match self
            .remote
            .client
            .delete(&format!("/api/inputs/{}", segment(&turn.id)))
            .await
        {
            // The turn ended first.
            Err(ClientError::Refused(body)) if body.code == Code::SERVE_CLOSED => Ok(()),
            cancelled => Ok(cancelled?),
        }
    }

    /// Calls a tool directly, without a model. During the call, the user answers approval requests
    /// here; `--yes` approves them.
    pub(crate) async fn call_tool(
        &mut self,
        tool: &str,
        body: &CallBody,
    ) -> Result<ToolCallResult, RemoteTurnError> {
        let (approver, _, mut questions) = approver(self.yes, ApprovalResponder::Terminal);
        let path = format!("/api/tools/{}", segment(tool));
        let needs_events = self.yes || questions.can_receive();
        // Answers approval requests until dropped.
        let _listener = match needs_events {
            true => {
                // An empty agent name matches no agent, so only approval requests arrive.
                let events = self
                    .remote
                    .client
                    .events("/api/events?approvals=true&agent=")
                    .await
                    .map_err(request_error)?;
                Some(RemoteEventListener::answering(
                    events,
                    &self.remote.client,
                    approver,
                ))
            }
            false => None,
        };
        let client = self.remote.client.clone();
        let mut outcome = std::pin::pin!(client.post(&path, body));
        loop {
            tokio::select! {
                outcome = &mut outcome => return outcome.map_err(request_error),
                Some(question) = questions.next() => if question.ask_user(self.signals.arrival()).await {
                    return Err(RemoteTurnError::Failed(CliError::interrupted()));
                },
                signal = self.signals.next() => {
                    return Err(RemoteTurnError::Failed(CliError::stopped(signal.exit(), "Interrupted.")));
                }
            }
        }
    }

    /// Shows all events until a signal arrives or the process ends.
    pub(crate) async fn watch(
        mut self,
        filter: &str,
        mut show: impl FnMut(&SwarmEvent) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let (approver, _, mut questions) = approver(self.yes, ApprovalResponder::Terminal);
        let path = format!(
            "/api/events?approvals={}{filter}",
            self.yes || questions.can_receive()
        );
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

/// Returns the conversation of an accepted input.
pub(super) fn instance(state: &InputState) -> InstanceId {
    InstanceId::new(
        state.agent_name.as_deref().unwrap_or_default(),
        state.instance_key.as_deref().unwrap_or_default(),
    )
}

/// Error of a request. If the process was about to end, another one may accept the request.
fn request_error(error: ClientError) -> RemoteTurnError {
    if remote::is_not_accepted(&error) {
        RemoteTurnError::NotBegun(error.into())
    } else {
        RemoteTurnError::Failed(error.into())
    }
}

/// Error of a turn after its connection broke.
fn connection_error(error: ClientError, has_begun: bool) -> RemoteTurnError {
    if has_begun {
        RemoteTurnError::Failed(error.into())
    } else {
        RemoteTurnError::NotBegun(error.into())
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
pub(super) fn process_ended() -> CliError {
    CliError::failure(
        Code::SWARM_STOPPED,
        "The process that runs the swarm ended before the turn did.",
    )
    .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
}
