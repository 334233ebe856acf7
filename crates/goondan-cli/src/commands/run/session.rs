//! Drives turns of a swarm and listens to everything that can happen meanwhile.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use goondan::connectors::Unusable;
use goondan::event::{FinishReason, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::inside::shown;
use goondan::ports::approval::ApprovalAnswer;
use goondan::ports::store::InstanceStatus;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Code;
use goondan::{Input, Listener, SendError, StateRoot, Swarm, Turn, UsageLedger};
use goondan_connect::{Connections, Console, Options};
use goondan_serve::Recorder;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::answers::{self, Unasked};
use super::approval::{Asked, Question, Questions, approver};
use super::door::Door;
use super::reloads::Reloads;
use super::signals::{Hangups, Signal, Signals};
use super::starting::{Started, start_swarm};
use super::terminal::Terminal;
use super::view::View;
use crate::commands::build;
use crate::exit::{CliError, Exit};
use crate::output::{Activity, Output, TurnFacts, TurnReport, turn_error};
use crate::place::ProjectPath;
use crate::project::{self, Launch, Prepared, StartArgs};
use crate::recorder::SwarmRecorder;
use crate::remote::NotStarted;

/// A swarm with whoever watches it: a person at a terminal or a program behind a pipe.
pub(crate) struct Session {
    /// The swarm.
    pub(crate) swarm: Swarm,
    /// Everything that happens in it.
    pub(crate) events: UnboundedReceiver<SwarmEvent>,
    /// Ctrl-C and the like.
    pub(crate) signals: Signals,
    /// Reloads of the project.
    pub(crate) reloads: Reloads,
    /// Questions that wait for an answer.
    pub(crate) questions: Questions,
    /// Keeps agents waiting for clients that have not come yet.
    pub(crate) somebody: Option<Listener>,
    /// The door of the workspace.
    pub(crate) door: Door,
    /// What the chain has used up that is followed.
    ledger: UsageLedger,
    /// The connections, where the command lets people in.
    pub(crate) connections: Option<Connections>,
    output: Output,
    /// Puts the terminal back: the session may end in the middle of a question.
    terminal: Option<Terminal>,
    /// The signal that is the reason to end.
    stopped_by: Option<Signal>,
    /// Ends once the swarm has.
    ending: Option<Shared<BoxFuture<'static, ()>>>,
}

/// A turn that is over.
pub(crate) struct Followed {
    /// What came of it.
    pub(crate) result: TurnResult,
    /// Whose it was, and the like.
    pub(crate) facts: TurnFacts,
    event_id: String,
    /// Answers of later turns of its chain that no input began.
    pub(crate) later: Vec<TurnReport>,
    /// The error of the first of them that failed.
    pub(crate) later_error: Option<CliError>,
}

impl Followed {
    /// The turn and what followed it, for a program.
    pub(crate) fn report(self, session: &Session) -> TurnReport {
        let usage = session.ledger.of(&self.facts.trace_id);
        TurnReport::result(None, self.facts, &self.result, usage).with_later(self.later)
    }
}

/// A turn or a chain that is being followed.
struct Following {
    instance: InstanceId,
    event_id: String,
    trace_id: String,
    later: Vec<TurnReport>,
    later_error: Option<CliError>,
}

/// What Ctrl-C means while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// The turn is cancelled, and the command goes on.
    CancelTurn,
    /// The turn may finish, then the command ends.
    Finish,
}

impl Session {
    /// Starts a swarm for one client that speaks a protocol over this process's pipes, and that is asked itself.
    pub(crate) async fn for_client(
        (project, args): (&ProjectPath, &StartArgs),
        watch: bool,
        signals: Signals,
        state_root: &StateRoot,
        output: &Output,
    ) -> Result<Self, CliError> {
        let project = project.find(output)?;
        let launch = Launch {
            project: &project,
            args,
            record: None,
            watch,
            asked: Asked::Clients,
            waits: false,
        };
        Ok(Session::start(launch, signals, state_root, output).await?)
    }

    /// Starts a swarm.
    pub(crate) async fn start(
        launch: Launch<'_>,
        mut signals: Signals,
        state_root: &StateRoot,
        output: &Output,
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
        // Before the turns go on that an earlier run has left: they may ask again at once.
        let somebody = (launch.asked == Asked::Clients).then(|| broker.listen());
        let (watch, hangups) = (launch.watch, Hangups::open().map_err(CliError::from)?);
        let recorder = recorder(&prepared, launch.args);
        let (swarm, events) = match start_swarm(
            (prepared, launch, approver),
            &mut signals,
            state_root,
            output,
        )
        .await?
        {
            Started::Here(swarm, events) => (swarm, events),
            Started::Elsewhere(remote) => return Err(NotStarted::Elsewhere(remote, signals)),
        };
        signals.end_when(swarm.taken_over());
        let door = Door::open(&swarm, broker, recorder);
        let (reloads, ledger) = (
            Reloads::begin(&swarm, watch, hangups),
            UsageLedger::default(),
        );
        let (output, terminal) = (*output, None);
        Ok(Session {
            swarm,
            events,
            signals,
            reloads,
            questions,
            somebody,
            door,
            ledger,
            connections: None,
            output,
            terminal,
            stopped_by: None,
            ending: None,
        })
    }

    /// Starts the connections of the swarm.
    pub(crate) async fn connect(
        &mut self,
        has_server: bool,
        console: Option<Console>,
    ) -> Result<(), CliError> {
        let broker = Some(self.door.broker.clone());
        let options = Options {
            has_server,
            console: console.map(Arc::new),
            broker,
            ..Options::default()
        };
        let connections = Connections::begin(self.swarm.clone(), options).await;
        for Unusable { name, problem } in connections.problems() {
            self.output.note(&format!(
                "Connection/{} does not run: {problem}",
                shown::line(name)
            ))?;
        }
        self.connections = Some(connections);
        Ok(())
    }

    /// Hands `input` in and shows every event in `view` until its turn is over.
    pub(crate) async fn follow(
        &mut self,
        input: Input,
        view: &mut View,
        on_interrupt: OnInterrupt,
    ) -> Result<Followed, CliError> {
        let turn = self.swarm.send(input).await.map_err(not_accepted)?;
        self.follow_turn(turn, view, on_interrupt).await
    }

    /// Shows every event in `view` until `turn` is over.
    pub(crate) async fn follow_turn(
        &mut self,
        turn: Turn,
        view: &mut View,
        on_interrupt: OnInterrupt,
    ) -> Result<Followed, CliError> {
        let begin = Instant::now();
        let (instance, trace_id) = (turn.instance.clone(), turn.trace_id.clone());
        self.ledger = UsageLedger::default();
        self.ledger.follow(&trace_id);
        view.begin(&instance);
        let event_id = turn.event_id.clone();
        let mut following = Following {
            instance,
            event_id,
            trace_id,
            later: Vec::new(),
            later_error: None,
        };
        let result = self
            .listen(turn.result(), &mut following, view, on_interrupt)
            .await?;
        let result = result.ok_or_else(|| self.ended_early())?;
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Following {
            instance,
            event_id,
            trace_id,
            later,
            later_error,
        } = following;
        let facts = TurnFacts {
            instance,
            trace_id,
            duration_ms,
        };
        Ok(Followed {
            result,
            facts,
            event_id,
            later,
            later_error,
        })
    }

    /// Goes on until nothing is left to do in the chain of a turn that is over: agents whose answers it has not waited for may
    /// still be at work. A turn that has failed is the end.
    pub(crate) async fn follow_chain(
        &mut self,
        followed: &mut Followed,
        view: &mut View,
    ) -> Result<(), CliError> {
        if matches!(
            followed.result.finish_reason,
            FinishReason::Error | FinishReason::Cancelled
        ) {
            return Ok(());
        }
        let (swarm, trace_id) = (self.swarm.clone(), followed.facts.trace_id.clone());
        let settled = async { swarm.settled(&trace_id).await };
        let mut following = Following {
            instance: followed.facts.instance.clone(),
            event_id: followed.event_id.clone(),
            trace_id: trace_id.clone(),
            later: std::mem::take(&mut followed.later),
            later_error: followed.later_error.take(),
        };
        let listened = self
            .listen(settled, &mut following, view, OnInterrupt::Finish)
            .await;
        (followed.later, followed.later_error) = (following.later, following.later_error);
        listened
    }

    /// Shows what happens until `done` is.
    async fn listen<T>(
        &mut self,
        done: impl Future<Output = T>,
        following: &mut Following,
        view: &mut View,
        on_interrupt: OnInterrupt,
    ) -> Result<T, CliError> {
        let mut done = std::pin::pin!(done);
        view.resume();
        let done = loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.show(&event, following, view)?,
                done = &mut done => break done,
                Some(question) = self.questions.next() => {
                    view.pause();
                    let cancels = (on_interrupt == OnInterrupt::CancelTurn).then_some(&following.instance);
                    self.put(question, cancels).await?;
                    view.resume();
                }
                words = self.reloads.next() => if view.is_for_people() {
                    view.pause();
                    self.output.note(&words)?;
                },
                signal = self.signals.next() => {
                    view.pause();
                    if (signal, on_interrupt) == (Signal::Interrupt, OnInterrupt::CancelTurn) {
                        self.swarm.cancel(&following.instance).await;
                        self.output.note("Cancelling the turn. Press Ctrl-C again to quit at once.")?;
                    } else {
                        self.stop(signal)?;
                    }
                }
            }
        };
        // What was published before the end may still wait in the channel.
        while let Ok(event) = self.events.try_recv() {
            self.show(&event, following, view)?;
        }
        Ok(done)
    }

    fn show(
        &mut self,
        event: &SwarmEvent,
        following: &mut Following,
        view: &mut View,
    ) -> Result<(), CliError> {
        if let SwarmEvent::Runtime(event) = event
            && matches!(event.kind, RuntimeEventKind::TurnStarted { .. })
        {
            self.ledger.follow(&event.trace.trace_id);
        }
        self.ledger.note(event);
        let is_mine = |event_id: &str| event_id == following.event_id;
        if let Some(words) = answers::resumed(event, is_mine) {
            view.pause();
            self.output.note(&words)?;
        }
        view.show(event)?;
        let Some(unasked) = Unasked::of(event, is_mine) else {
            return Ok(());
        };
        let is_later = unasked.trace_id == following.trace_id;
        view.answer(&unasked, is_later, || self.ledger.of(unasked.trace_id))?;
        if is_later {
            following.later.push(TurnReport::answer(&unasked, None));
            following.later_error = following
                .later_error
                .take()
                .or_else(|| turn_error(unasked.result));
        }
        Ok(())
    }

    /// Tells of turns that nobody in this run follows.
    fn note_unasked(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        answers::unasked_words(event).map_or(Ok(()), |words| self.output.note(&words))
    }

    /// Waits until the turns are over that an earlier run has left. Ctrl-C cancels them.
    pub(crate) async fn settle(&mut self) -> Result<(), CliError> {
        let metas = self.swarm.instances().await;
        let running = metas
            .iter()
            .filter(|meta| meta.status == InstanceStatus::Processing);
        let mut running: Vec<_> = running.map(|meta| meta.id()).collect();
        while !running.is_empty() && !self.is_stopping() {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => {
                    self.note_unasked(&event)?;
                    if let SwarmEvent::TurnEnded { instance, .. } = &event {
                        running.retain(|id| id != instance);
                    }
                }
                Some(question) = self.questions.next() => drop(self.put(question, None).await?),
                signal = self.signals.next() => match signal {
                    Signal::Interrupt => for id in &running {
                        self.swarm.cancel(id).await;
                    },
                    Signal::Terminate => self.stop(signal)?,
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
        let mut activity = Activity::new(&self.output);
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
                    if let Some(signal) = self.stopped_by.or(is_interrupted.then_some(Signal::Interrupt)) {
                        return Err(interrupted_by(signal));
                    }
                }
                signal = self.signals.next() => return Err(interrupted_by(signal)),
            }
        }
    }

    /// Puts the questions that were put off while somebody typed.
    pub(crate) async fn put_questions(&mut self) -> Result<(), CliError> {
        while let Some(question) = self.questions.take_put_off() {
            self.put(question, None).await?;
        }
        Ok(())
    }

    /// Puts a question. Ctrl-C that comes as a signal cancels the turn of `cancels`; other signals end the session, and then
    /// nobody answers. Gives back whether Ctrl-C was typed as the answer.
    async fn put(
        &mut self,
        question: Question,
        cancels: Option<&InstanceId>,
    ) -> Result<bool, CliError> {
        if self.is_stopping() {
            question.answer(ApprovalAnswer::NobodyThere);
            return Ok(false);
        }
        self.terminal.get_or_insert_with(Terminal::keep);
        let given_up = CancellationToken::new();
        let mut put = std::pin::pin!(question.put(given_up.cancelled()));
        loop {
            tokio::select! {
                is_interrupted = &mut put => return Ok(is_interrupted),
                signal = self.signals.next() => match cancels.filter(|_| signal == Signal::Interrupt) {
                    Some(instance) => drop(self.swarm.cancel(instance).await),
                    None => {
                        given_up.cancel();
                        self.stop(signal)?;
                    }
                }
            }
        }
    }

    /// Takes no more inputs because of `signal`, lets running turns finish, and says so. The next signal ends the command.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<(), CliError> {
        self.stopped_by.get_or_insert(signal);
        self.signals.next_ends();
        drop(self.begin_ending());
        self.output
            .note("Finishing the turns that run. Press Ctrl-C again to end at once.")
    }

    /// Whether a signal has come that ends the session.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// Begins the end of the swarm, once; what is returned ends with it.
    fn begin_ending(&mut self) -> Shared<BoxFuture<'static, ()>> {
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

    /// Fails where the swarm has no such agent.
    pub(crate) fn require_agent(&self, name: &str) -> Result<(), CliError> {
        let agents = self.swarm.agents();
        if agents.iter().any(|agent| agent == name) {
            return Ok(());
        }
        let message = format!("The swarm {} has no agent `{name}`.", self.swarm.name());
        Err(CliError::new(Exit::Usage, Code::AGENT_NOT_FOUND, message)
            .suggest(format!("Its agents are: {}.", agents.join(", "))))
    }

    /// Goes on until the client that `talk` is with goes, or a signal comes; then it ends the swarm. Questions are the client's.
    pub(crate) async fn attend<E>(
        mut self,
        talk: impl Future<Output = Result<(), E>>,
        failed: impl FnOnce(E) -> CliError,
        output: &Output,
    ) -> Result<(), CliError> {
        let mut talk = std::pin::pin!(talk);
        let talked = loop {
            tokio::select! {
                talked = &mut talk => break talked.map_err(failed),
                Some(_) = self.events.recv() => {}
                words = self.reloads.next() => output.note(&words)?,
                signal = self.signals.next() => {
                    self.door.service.drain();
                    self.stop(signal)?;
                    break Ok(());
                }
            }
        };
        // A signal is how such a command may end.
        let ended = self.shut_down().await.or_else(|error| {
            if error.code == Code::INTERRUPTED {
                Ok(())
            } else {
                Err(error)
            }
        });
        talked.and(ended)
    }

    /// Ends the swarm: running turns of other agents may finish first. An error where a signal was the reason to end.
    pub(crate) async fn shut_down(mut self) -> Result<(), CliError> {
        self.put_questions().await?;
        self.reloads.end().await;
        let mut ending = self.begin_ending();
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.note_unasked(&event)?,
                _ = &mut ending => break,
                Some(question) = self.questions.next() => drop(self.put(question, None).await?),
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

    /// Why a turn has no result.
    pub(crate) fn ended_early(&self) -> CliError {
        match self.stopped_by {
            Some(signal) => {
                CliError::stopped(signal.exit(), "Interrupted before the turn was over.")
            }
            None => CliError::failure(Code::INTERNAL_ERROR, "The swarm ended before the turn did."),
        }
        .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
    }
}

/// Makes cases of the swarm's conversations.
fn recorder(prepared: &Prepared, args: &StartArgs) -> Arc<dyn Recorder> {
    let root = prepared.bundle.root();
    Arc::new(SwarmRecorder::new(
        root,
        args.env_file.as_deref(),
        prepared.trust.clone(),
    ))
}

pub(super) fn interrupted_by(signal: Signal) -> CliError {
    CliError::stopped(signal.exit(), "Interrupted.")
}

/// Why the swarm did not take an input, as the command says it.
pub(crate) fn not_accepted(error: SendError) -> CliError {
    let exit = if error.code == Code::AGENT_NOT_FOUND {
        Exit::Usage
    } else {
        Exit::Failure
    };
    CliError {
        suggestion: error.suggestion,
        ..CliError::new(exit, error.code, error.message)
    }
}
