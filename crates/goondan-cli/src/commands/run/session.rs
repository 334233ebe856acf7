//! Runs turns of a swarm, and handles signals, reloads and approval requests during them.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use goondan::adapters::connectors::UnusableConnection;
use goondan::event::{FinishReason, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::ports::approval::ApprovalAnswer;
use goondan::ports::store::InstanceStatus;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Code;
use goondan::{ApprovalListener, Input, SendError, StateRoot, Swarm, Turn, UsageLedger};
use goondan_connect::{ConnectionOptions, Connections, DeliveredAnswer, LineConsole};
use goondan_serve::CaseRecorder;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::approval::{ApprovalResponder, PendingApproval, PendingApprovals, approver};
use super::local_endpoint::LocalEndpoint;
use super::reload_notices::ReloadNotices;
use super::signals::{HangupSignals, SignalReceiver, StopSignal};
use super::swarm_start::{SwarmStart, start_swarm};
use super::terminal::Terminal;
use super::unprompted_answers::{self, UnpromptedAnswer};
use super::view::TurnView;
use crate::case_recorder::SwarmRecorder;
use crate::commands::build;
use crate::exit::{CliError, CommandExit};
use crate::output::{ActivitySpinner, CommandOutput, TurnReport, TurnReportFacts, turn_error};
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
    pub(crate) somebody: Option<ApprovalListener>,
    /// Local control endpoint.
    pub(crate) door: LocalEndpoint,
    /// Usage of the followed trace.
    ledger: UsageLedger,
    /// Connections to other services, if the command runs them.
    pub(crate) connections: Option<Connections>,
    /// Answers that the connections of a server delivered.
    pub(crate) deliveries: Option<UnboundedReceiver<DeliveredAnswer>>,
    output: CommandOutput,
    /// Restores the terminal, because the session may end during a prompt.
    terminal: Option<Terminal>,
    /// Signal that ends the session.
    stopped_by: Option<StopSignal>,
    /// Completes when the swarm has ended.
    ending: Option<Shared<BoxFuture<'static, ()>>>,
}

/// Turn that has ended.
pub(crate) struct FollowedTurn {
    pub(crate) result: TurnResult,
    pub(crate) facts: TurnReportFacts,
    event_id: String,
    /// Answers of later turns in its trace that no input began.
    pub(crate) later: Vec<TurnReport>,
    /// Error of the first later turn that failed.
    pub(crate) later_error: Option<CliError>,
}

impl FollowedTurn {
    /// Returns the JSON report, later answers included.
    pub(crate) fn report(self, session: &RunSession) -> TurnReport {
        let usage = session.ledger.of(&self.facts.trace_id);
        TurnReport::result(None, self.facts, &self.result, usage).with_later(self.later)
    }
}

/// Turn or trace that is being followed.
struct FollowState {
    instance: InstanceId,
    event_id: String,
    trace_id: String,
    later: Vec<TurnReport>,
    later_error: Option<CliError>,
}

/// Effect of Ctrl-C while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// The turn is cancelled, and the command continues.
    CancelTurn,
    /// The turn may finish, then the command ends.
    Finish,
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
        let (approver, broker, questions) = approver(launch.args.yes, launch.asked);
        // Before turns of an earlier run resume, because they may request approval at once.
        let somebody = (launch.asked == ApprovalResponder::Clients).then(|| broker.listen());
        let (watch, hangups) = (launch.watch, HangupSignals::open().map_err(CliError::from)?);
        let recorder = recorder(&prepared, launch.args);
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
        let door = LocalEndpoint::open(&swarm, broker, recorder);
        let (reloads, ledger) = (
            ReloadNotices::begin(&swarm, watch, hangups),
            UsageLedger::default(),
        );
        let (output, terminal) = (*output, None);
        Ok(RunSession {
            swarm,
            events,
            signals,
            reloads,
            questions,
            somebody,
            door,
            ledger,
            connections: None,
            deliveries: None,
            output,
            terminal,
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
        let broker = Some(self.door.broker.clone());
        // Only a server reads the notices.
        let (sender, receiver) = has_server.then(unbounded_channel).unzip();
        self.deliveries = receiver;
        let options = ConnectionOptions {
            has_server,
            console: console.map(Arc::new),
            broker,
            deliveries: sender,
            ..ConnectionOptions::default()
        };
        let connections = Connections::begin(self.swarm.clone(), options).await;
        for UnusableConnection { name, problem } in connections.problems() {
            self.output.note(&format!(
                "Connection/{} is not running: {problem}",
                untrusted_text::line(name)
            ))?;
        }
        self.connections = Some(connections);
        Ok(())
    }

    /// Sends `input` and shows all events in `view` until its turn ends.
    pub(crate) async fn follow(
        &mut self,
        input: Input,
        view: &mut TurnView,
        on_interrupt: OnInterrupt,
    ) -> Result<FollowedTurn, CliError> {
        let turn = self.swarm.send(input).await.map_err(not_accepted)?;
        self.follow_turn(turn, view, on_interrupt).await
    }

    /// Shows all events in `view` until `turn` ends.
    pub(crate) async fn follow_turn(
        &mut self,
        turn: Turn,
        view: &mut TurnView,
        on_interrupt: OnInterrupt,
    ) -> Result<FollowedTurn, CliError> {
        let begin = Instant::now();
        let (instance, trace_id) = (turn.instance.clone(), turn.trace_id.clone());
        self.ledger = UsageLedger::default();
        self.ledger.follow(&trace_id);
        view.begin(&instance);
        let event_id = turn.event_id.clone();
        let mut following = FollowState {
            instance,
            event_id,
            trace_id,
            later: Vec::new(),
            later_error: None,
        };
        let result = self
            .show_events_until(turn.result(), &mut following, view, on_interrupt)
            .await?;
        let result = result.ok_or_else(|| self.no_result())?;
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let FollowState {
            instance,
            event_id,
            trace_id,
            later,
            later_error,
        } = following;
        let facts = TurnReportFacts {
            instance,
            trace_id,
            duration_ms,
        };
        Ok(FollowedTurn {
            result,
            facts,
            event_id,
            later,
            later_error,
        })
    }

    /// Follows the trace of an ended turn until no work is left.
    /// Agents may still work on answers that the turn did not wait for. Returns at once after a
    /// failed or cancelled turn.
    pub(crate) async fn follow_chain(
        &mut self,
        followed: &mut FollowedTurn,
        view: &mut TurnView,
    ) -> Result<(), CliError> {
        if matches!(
            followed.result.finish_reason,
            FinishReason::Error | FinishReason::Cancelled
        ) {
            return Ok(());
        }
        let (swarm, trace_id) = (self.swarm.clone(), followed.facts.trace_id.clone());
        let settled = async { swarm.settled(&trace_id).await };
        let mut following = FollowState {
            instance: followed.facts.instance.clone(),
            event_id: followed.event_id.clone(),
            trace_id: trace_id.clone(),
            later: std::mem::take(&mut followed.later),
            later_error: followed.later_error.take(),
        };
        let listened = self
            .show_events_until(settled, &mut following, view, OnInterrupt::Finish)
            .await;
        (followed.later, followed.later_error) = (following.later, following.later_error);
        listened
    }

    /// Shows events until `done` completes.
    async fn show_events_until<T>(
        &mut self,
        finished: impl Future<Output = T>,
        following: &mut FollowState,
        view: &mut TurnView,
        on_interrupt: OnInterrupt,
    ) -> Result<T, CliError> {
        let mut finished = std::pin::pin!(finished);
        view.resume();
        let finished = loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.show(&event, following, view)?,
                finished = &mut finished => break finished,
                Some(question) = self.questions.next() => {
                    view.pause();
                    let cancels = (on_interrupt == OnInterrupt::CancelTurn).then_some(&following.instance);
                    self.put(question, cancels).await?;
                    view.resume();
                }
                notice = self.reloads.next() => if view.is_for_people() {
                    view.pause();
                    self.output.note(&notice)?;
                },
                signal = self.signals.next() => {
                    view.pause();
                    if (signal, on_interrupt) == (StopSignal::Interrupt, OnInterrupt::CancelTurn) {
                        self.swarm.cancel(&following.instance).await;
                        self.output.note("Cancelling the turn. Press Ctrl-C again to quit at \
                            once.")?;
                    } else {
                        self.stop(signal)?;
                    }
                }
            }
        };
        // Events published before the end may still be in the channel.
        while let Ok(event) = self.events.try_recv() {
            self.show(&event, following, view)?;
        }
        Ok(finished)
    }

    /// Shows an event of the followed turn, and the answers of turns that no input started.
    fn show(
        &mut self,
        event: &SwarmEvent,
        following: &mut FollowState,
        view: &mut TurnView,
    ) -> Result<(), CliError> {
        if let SwarmEvent::Runtime(event) = event
            && matches!(event.kind, RuntimeEventKind::TurnStarted { .. })
        {
            self.ledger.follow(&event.trace.trace_id);
        }
        self.ledger.note(event);
        let is_mine = |event_id: &str| event_id == following.event_id;
        if let Some(notice) = unprompted_answers::resumed_turn_notice(event, is_mine) {
            view.pause();
            self.output.note(&notice)?;
        }
        view.show(event)?;
        let Some(answer) = UnpromptedAnswer::of(event, is_mine) else {
            return Ok(());
        };
        let in_followed_trace = answer.trace_id == following.trace_id;
        view.answer(&answer, in_followed_trace, || {
            self.ledger.of(answer.trace_id)
        })?;
        if in_followed_trace {
            following.later.push(TurnReport::answer(&answer, None));
            following.later_error = following
                .later_error
                .take()
                .or_else(|| turn_error(answer.result));
        }
        Ok(())
    }

    /// Reports turns that this run does not follow.
    fn note_unfollowed_turn(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        unprompted_answers::describe_event(event).map_or(Ok(()), |notice| self.output.note(&notice))
    }

    /// Waits until the turns of an earlier run have ended. Ctrl-C cancels them.
    pub(crate) async fn wait_for_running_turns(&mut self) -> Result<(), CliError> {
        let metas = self.swarm.instances().await;
        let running = metas
            .iter()
            .filter(|meta| meta.status == InstanceStatus::Processing);
        let mut running: Vec<_> = running.map(|meta| meta.id()).collect();
        while !running.is_empty() && !self.is_stopping() {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => {
                    self.note_unfollowed_turn(&event)?;
                    if let SwarmEvent::TurnEnded { instance, .. } = &event {
                        running.retain(|id| id != instance);
                    }
                }
                Some(question) = self.questions.next() => drop(self.put(question, None).await?),
                signal = self.signals.next() => match signal {
                    StopSignal::Interrupt => for id in &running {
                        self.swarm.cancel(id).await;
                    },
                    StopSignal::Terminate => self.stop(signal)?,
                }
            }
        }
        Ok(())
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
                outcome = &mut outcome => return outcome.map_err(not_accepted),
                Some(question) = self.questions.next() => {
                    activity.hide();
                    let is_interrupted = self.put(question, None).await?;
                    if let Some(signal) = self.stopped_by.or(is_interrupted.then_some(StopSignal::Interrupt)) {
                        return Err(interrupted_by(signal));
                    }
                }
                signal = self.signals.next() => return Err(interrupted_by(signal)),
            }
        }
    }

    /// Shows the approval requests that were postponed while the user typed.
    pub(crate) async fn put_questions(&mut self) -> Result<(), CliError> {
        while let Some(question) = self.questions.take_postponed() {
            self.put(question, None).await?;
        }
        Ok(())
    }

    /// Shows an approval request, and returns whether the user typed Ctrl-C as the answer.
    /// A Ctrl-C signal cancels the turn of `cancels`. Any other signal ends the session, and the
    /// request gets no answer.
    async fn put(
        &mut self,
        question: PendingApproval,
        cancels: Option<&InstanceId>,
    ) -> Result<bool, CliError> {
        if self.is_stopping() {
            question.answer(ApprovalAnswer::NobodyThere);
            return Ok(false);
        }
        self.terminal.get_or_insert_with(Terminal::keep);
        let gave_up = CancellationToken::new();
        let mut put = std::pin::pin!(question.ask_user(gave_up.cancelled()));
        loop {
            tokio::select! {
                is_interrupted = &mut put => return Ok(is_interrupted),
                signal = self.signals.next() => match cancels.filter(|_| signal == StopSignal::Interrupt) {
                    Some(instance) => drop(self.swarm.cancel(instance).await),
                    None => {
                        gave_up.cancel();
                        self.stop(signal)?;
                    }
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

    /// Returns whether a signal ends the session.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// Starts the shutdown of the swarm, once. The returned future completes with it.
    fn begin_ending(&mut self) -> Shared<BoxFuture<'static, ()>> {
        self.swarm.begin_shutdown();
        self.connections
            .iter()
            .for_each(Connections::stop_receiving);
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

    /// Runs until the client of `talk` disconnects or a signal arrives, then ends the swarm.
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
                    self.door.service.drain();
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
        self.put_questions().await?;
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
        self.door.close().await;
        self.stopped_by
            .map_or(Ok(()), |signal| Err(interrupted_by(signal)))
    }

    /// Error of a turn without a result.
    pub(crate) fn no_result(&self) -> CliError {
        match self.stopped_by {
            Some(signal) => CliError::stopped(signal.exit(), "Interrupted before the turn ended."),
            None => CliError::failure(Code::INTERNAL_ERROR, "The swarm ended before the turn did."),
        }
        .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
    }
}

/// Creates the recorder of test cases for the studio.
fn recorder(prepared: &PreparedProject, args: &StartArgs) -> Arc<dyn CaseRecorder> {
    let root = prepared.bundle.root();
    Arc::new(SwarmRecorder::new(
        root,
        args.env_file.as_deref(),
        prepared.trust.clone(),
    ))
}

/// Returns the error of a command that a signal ended.
pub(super) fn interrupted_by(signal: StopSignal) -> CliError {
    CliError::stopped(signal.exit(), "Interrupted.")
}

/// Error of an input that the swarm rejected.
pub(crate) fn not_accepted(error: SendError) -> CliError {
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
