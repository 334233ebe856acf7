//! Runs turns of a swarm, and handles signals, reloads and approval requests during them.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use goondan::adapters::connectors::UnusableConnection;
use goondan::event::SwarmEvent;
use goondan::internal::untrusted_text;
use goondan::ports::approval::ApprovalAnswer;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Code;
use goondan::{ApprovalListener, SendError, StateRoot, Swarm};
use goondan_connect::{ConnectionOptions, Connections, DeliveredAnswer, LineConsole};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::approval::{
    ApprovalResponder, ApprovalSetup, PendingApproval, PendingApprovals, set_up_approvals,
};
use super::local_endpoint::{CasePorts, LocalEndpoint};
use super::reload_notices::ReloadNotices;
use super::signals::{HangupSignals, SignalReceiver, StopSignal};
use super::swarm_start::{SwarmStart, start_swarm};
use super::unprompted_answers;
use crate::case_recorder::SwarmRecorder;
use crate::case_runner::ProjectCases;
use crate::commands::build;
use crate::exit::{CliError, CommandExit};
use crate::output::{ActivitySpinner, CommandOutput};
use crate::project::{self, PreparedProject, StartArgs, SwarmLaunch};
use crate::project_path::ProjectPathArg;
use crate::remote::NotStarted;

/// Running swarm with its user: a person at a terminal or a program behind a pipe.
pub(crate) struct RunSession {
    pub(crate) swarm: Swarm,
    pub(crate) events: UnboundedReceiver<SwarmEvent>,
    pub(crate) signals: SignalReceiver,
    pub(crate) reloads: ReloadNotices,
    pub(crate) questions: PendingApprovals,
    /// Keeps agents waiting for clients that are not connected yet.
    pub(crate) client_listener: Option<ApprovalListener>,
    /// Local control endpoint.
    pub(crate) endpoint: LocalEndpoint,
    /// Connections to other services, if the command runs them.
    pub(crate) connections: Option<Connections>,
    /// Answers that the connections of a server delivered.
    pub(crate) deliveries: Option<UnboundedReceiver<DeliveredAnswer>>,
    output: CommandOutput,
    /// Signal that ends the session.
    stopped_by: Option<StopSignal>,
    /// Completes when the swarm has ended.
    ending: Option<Shared<BoxFuture<'static, ()>>>,
}

impl RunSession {
    /// Starts a swarm for one client that speaks a protocol over stdio and answers its requests.
    pub(crate) async fn for_client(
        (project, args): (&ProjectPathArg, &StartArgs),
        watch: bool,
        signals: SignalReceiver,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<Self, CliError> {
        let project = project.find(output)?;
        let launch = SwarmLaunch {
            project: &project,
            args,
            record: None,
            watch,
            asked: ApprovalResponder::Clients,
            waits: false,
        };
        Ok(RunSession::start(launch, signals, state_root, output).await?)
    }

    /// Starts a swarm. Fails with `NotStarted::Elsewhere` if another process runs it.
    pub(crate) async fn start(
        launch: SwarmLaunch<'_>,
        mut signals: SignalReceiver,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<Self, NotStarted> {
        if launch.args.build {
            build::before_start(
                launch.project,
                &launch.args.trust(state_root),
                &mut signals,
                output,
            )
            .await?;
        }
        let prepared = project::prepare(&launch, state_root, output)?;
        let ApprovalSetup {
            approver,
            broker,
            requests: questions,
        } = set_up_approvals(launch.args.yes, launch.asked);
        // Before turns of an earlier run resume, because they may request approval at once.
        let client_listener = (launch.asked == ApprovalResponder::Clients).then(|| broker.listen());
        let (watch, hangups) = (launch.watch, HangupSignals::open().map_err(CliError::from)?);
        let cases = case_ports(&prepared, launch.args);
        let (swarm, events) = match start_swarm(
            (prepared, launch, approver),
            &mut signals,
            state_root,
            output,
        )
        .await?
        {
            SwarmStart::Here(swarm, events) => (swarm, events),
            SwarmStart::Elsewhere(remote) => return Err(NotStarted::Elsewhere(remote, signals)),
        };
        signals.end_when(swarm.taken_over());
        let endpoint = LocalEndpoint::open(&swarm, broker, cases);
        let reloads = ReloadNotices::begin(&swarm, watch, hangups);
        Ok(RunSession {
            swarm,
            events,
            signals,
            reloads,
            questions,
            client_listener,
            endpoint,
            connections: None,
            deliveries: None,
            output: *output,
            stopped_by: None,
            ending: None,
        })
    }

    /// Starts the connections of the swarm. Unusable ones are only reported.
    pub(crate) async fn connect(
        &mut self,
        has_server: bool,
        console: Option<LineConsole>,
    ) -> Result<(), CliError> {
        // Only a server reads the notices.
        let (sender, receiver) = has_server.then(unbounded_channel).unzip();
        self.deliveries = receiver;
        let options = ConnectionOptions {
            has_server,
            console: console.map(Arc::new),
            deliveries: sender,
            ..ConnectionOptions::default()
        };
        let gateway = self.endpoint.service.gateway().clone();
        let connections = Connections::begin(gateway, options).await;
        for UnusableConnection { name, problem } in connections.problems() {
            self.output.note(&format!(
                "Connection/{} is not running: {problem}",
                untrusted_text::line(name)
            ))?;
        }
        self.connections = Some(connections);
        Ok(())
    }

    /// Reports turns that this run does not follow.
    fn note_unfollowed_turn(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        unprompted_answers::describe_event(event).map_or(Ok(()), |notice| self.output.note(&notice))
    }

    /// Calls a tool without a model, as `agent` would in the conversation `instance_key`.
    pub(crate) async fn call_tool(
        &mut self,
        agent: Option<&str>,
        instance_key: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolCallResult, CliError> {
        let mut activity = ActivitySpinner::new(&self.output);
        activity.show(format!("calling {tool}"));
        let swarm = self.swarm.clone();
        let mut outcome =
            std::pin::pin!(swarm.call_tool(agent, Some(instance_key), tool, arguments));
        loop {
            tokio::select! {
                outcome = &mut outcome => return outcome.map_err(rejected_input_error),
                Some(question) = self.questions.next() => {
                    activity.hide();
                    let is_interrupted = self.show_approval_request(question).await?;
                    if let Some(signal) = self.stopped_by.or(is_interrupted.then_some(StopSignal::Interrupt)) {
                        return Err(interruption_error(signal));
                    }
                }
                signal = self.signals.next() => return Err(interruption_error(signal)),
            }
        }
    }

    /// Shows an approval request, and returns true if the user typed Ctrl-C as the answer.
    /// A signal ends the session, and the request gets no answer.
    pub(super) async fn show_approval_request(
        &mut self,
        question: PendingApproval,
    ) -> Result<bool, CliError> {
        if self.is_stopping() {
            question.answer(ApprovalAnswer::NobodyThere);
            return Ok(false);
        }
        let gave_up = CancellationToken::new();
        let mut put = std::pin::pin!(question.ask_user(gave_up.cancelled()));
        loop {
            tokio::select! {
                is_interrupted = &mut put => return Ok(is_interrupted),
                signal = self.signals.next() => {
                    gave_up.cancel();
                    self.stop(signal)?;
                }
            }
        }
    }

    /// Accepts no more inputs because of `signal`, and lets running turns finish.
    /// The next signal ends the command.
    pub(crate) fn stop(&mut self, signal: StopSignal) -> Result<(), CliError> {
        self.stopped_by.get_or_insert(signal);
        self.signals.next_ends();
        drop(self.begin_ending());
        self.output
            .note("Finishing running turns. Press Ctrl-C again to end at once.")
    }

    /// Returns true if a signal ends the session.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// Starts the shutdown of the swarm, once. The returned future completes with it.
    fn begin_ending(&mut self) -> Shared<BoxFuture<'static, ()>> {
        self.swarm.begin_shutdown();
        if let Some(connections) = self.connections.as_ref() {
            connections.stop_receiving();
        }
        let swarm = &self.swarm;
        let ending = self.ending.get_or_insert_with(|| {
            let swarm = swarm.clone();
            tokio::spawn(async move { swarm.shutdown().await })
                .map(drop)
                .boxed()
                .shared()
        });
        ending.clone()
    }

    /// Fails if the swarm has no such agent.
    pub(crate) fn require_agent(&self, name: &str) -> Result<(), CliError> {
        let agents = self.swarm.agents();
        if agents.iter().any(|agent| agent == name) {
            return Ok(());
        }
        let message = format!("Swarm `{}` has no agent `{name}`.", self.swarm.name());
        Err(
            CliError::new(CommandExit::Usage, Code::AGENT_NOT_FOUND, message)
                .suggest(format!("Use one of: {}.", agents.join(", "))),
        )
    }

    /// Runs until the client of `connection` disconnects or a signal arrives, then ends the swarm.
    /// The client answers approval requests.
    pub(crate) async fn serve_client<E>(
        mut self,
        connection: impl Future<Output = Result<(), E>>,
        failed: impl FnOnce(E) -> CliError,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        let mut connection = std::pin::pin!(connection);
        let outcome = loop {
            tokio::select! {
                outcome = &mut connection => break outcome.map_err(failed),
                Some(_) = self.events.recv() => {}
                notice = self.reloads.next() => output.note(&notice)?,
                signal = self.signals.next() => {
                    self.endpoint.service.drain();
                    self.stop(signal)?;
                    break Ok(());
                }
            }
        };
        // A signal is a normal way to end such a command.
        let shutdown_outcome = self.shut_down().await.or_else(|error| {
            if error.code == Code::INTERRUPTED {
                Ok(())
            } else {
                Err(error)
            }
        });
        outcome.and(shutdown_outcome)
    }

    /// Ends the swarm; running turns may finish first. Turns that wait for an approval resume at the
    /// next start. Fails if a signal was the reason.
    pub(crate) async fn shut_down(mut self) -> Result<(), CliError> {
        self.reloads.end().await;
        let mut ending = self.begin_ending();
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.note_unfollowed_turn(&event)?,
                _ = &mut ending => break,
                signal = self.signals.next() => self.stop(signal)?,
            }
        }
        if let Some(connections) = self.connections.take() {
            connections.end().await;
        }
        self.endpoint.close().await;
        self.stopped_by
            .map_or(Ok(()), |signal| Err(interruption_error(signal)))
    }

    /// Error of a turn without a result.
    pub(crate) fn no_result_error(&self) -> CliError {
        match self.stopped_by {
            Some(signal) => CliError::stopped(signal.exit(), "Interrupted before the turn ended."),
            None => CliError::failure(Code::INTERNAL_ERROR, "The swarm ended before the turn did."),
        }
        .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
    }
}

/// Returns the recorder and the runner of test cases for the studio.
fn case_ports(prepared: &PreparedProject, args: &StartArgs) -> CasePorts {
    let (root, trust) = (prepared.bundle.root(), &prepared.trust);
    let env_file = args.env_file.as_deref();
    CasePorts {
        recorder: Arc::new(SwarmRecorder::new(root, env_file, trust.clone())),
        runner: Arc::new(ProjectCases::new(root, trust.clone())),
    }
}

/// Returns the error of a command that a signal ended.
pub(super) fn interruption_error(signal: StopSignal) -> CliError {
    CliError::stopped(signal.exit(), "Interrupted.")
}

/// Error of an input that the swarm rejected.
pub(crate) fn rejected_input_error(error: SendError) -> CliError {
    let exit = if error.code == Code::AGENT_NOT_FOUND {
        CommandExit::Usage
    } else {
        CommandExit::Failure
    };
    CliError {
        suggestion: error.suggestion,
        ..CliError::new(exit, error.code, error.message)
    }
}
