//! Drives turns of a swarm and listens to everything that can happen meanwhile.

use std::time::Instant;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use goondan::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ports::store::InstanceStatus;
use goondan::ports::tool::ToolCallResult;
use goondan::spec::Code;
use goondan::{Input, SendError, StateRoot, Swarm, Turn};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::approval::{Questions, approver};
use super::leftovers::Leftovers;
use super::reloads::Reloads;
use super::signals::{Hangups, Signal, Signals};
use super::view::View;
use crate::commands::build;
use crate::exit::{CliError, Exit};
use crate::output::{Activity, Output, TurnFacts};
use crate::project::{self, Launch};

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
    leftovers: Leftovers,
    output: Output,
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
    /// Starts a swarm.
    pub(crate) async fn start(
        launch: Launch<'_>,
        mut signals: Signals,
        state_root: &StateRoot,
        output: &Output,
    ) -> Result<Self, CliError> {
        if launch.args.build {
            build::before_start(launch.project, &launch.args.trust(state_root), &mut signals, output).await?;
        }
        let (approver, questions) = approver(launch.args.yes, launch.asked);
        let (watch, hangups) = (launch.watch, Hangups::open()?);
        let (swarm, events) = project::start(launch, approver, state_root, output).await?;
        let (reloads, leftovers) = (Reloads::begin(&swarm, watch, hangups), Leftovers::default());
        let output = *output;
        Ok(Session { swarm, events, signals, reloads, questions, leftovers, output, stopped_by: None, ending: None })
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
        let event_id = turn.event_id.clone();
        let mut facts = TurnFacts { instance: turn.instance.clone(), trace_id: None, duration_ms: 0 };
        view.begin(&facts.instance);
        let result = self.listen(turn, &mut facts, view, on_interrupt).await?;
        // What was published before the result may still wait in the channel.
        while let Ok(event) = self.events.try_recv() {
            self.show(&event, &event_id, &mut facts, view).await?;
        }
        facts.duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Followed { result, facts })
    }

    async fn listen(
        &mut self,
        turn: Turn,
        facts: &mut TurnFacts,
        view: &mut View,
        on_interrupt: OnInterrupt,
    ) -> Result<TurnResult, CliError> {
        let event_id = turn.event_id.clone();
        let mut outcome = std::pin::pin!(turn.result());
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.show(&event, &event_id, facts, view).await?,
                result = &mut outcome => return result.ok_or_else(|| self.ended_early()),
                Some(question) = self.questions.next() => {
                    view.pause();
                    question.put().await;
                }
                words = self.reloads.next() => if view.is_for_people() {
                    view.pause();
                    self.output.note(&words)?;
                },
                signal = self.signals.next() => {
                    view.pause();
                    if (signal, on_interrupt) == (Signal::Interrupt, OnInterrupt::CancelTurn) {
                        self.swarm.cancel(&facts.instance).await;
                        self.output.note("Cancelling the turn. Press Ctrl-C again to quit at once.")?;
                    } else {
                        self.stop(signal)?;
                    }
                }
            }
        }
    }

    async fn show(
        &mut self,
        event: &SwarmEvent,
        event_id: &str,
        facts: &mut TurnFacts,
        view: &mut View,
    ) -> Result<(), CliError> {
        if let Some(trace_id) = trace_of(event, event_id) {
            facts.trace_id = Some(trace_id.to_owned());
        }
        if let Some(words) = self.leftovers.words(event, Some(event_id)) {
            view.pause();
            self.output.note(&words)?;
        }
        view.show(&self.swarm, event).await
    }

    fn show_leftover(&mut self, event: &SwarmEvent) -> Result<(), CliError> {
        self.leftovers.words(event, None).map_or(Ok(()), |words| self.output.note(&words))
    }

    /// Waits until the turns are over that an earlier run has left. Ctrl-C cancels them.
    pub(crate) async fn settle(&mut self) -> Result<(), CliError> {
        let metas = self.swarm.instances().await;
        let running = metas.iter().filter(|meta| meta.status == InstanceStatus::Processing);
        let mut running: Vec<_> = running.map(|meta| meta.id()).collect();
        while !running.is_empty() && !self.is_stopping() {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => {
                    self.show_leftover(&event)?;
                    if let SwarmEvent::TurnEnded { instance, .. } = &event {
                        running.retain(|id| id != instance);
                    }
                }
                Some(question) = self.questions.next() => question.put().await,
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
        let mut outcome = std::pin::pin!(self.swarm.call_tool(agent, Some(instance_key), tool, arguments));
        loop {
            tokio::select! {
                outcome = &mut outcome => return outcome.map_err(not_accepted),
                Some(question) = self.questions.next() => {
                    activity.hide();
                    question.put().await;
                }
                signal = self.signals.next() => return Err(interrupted_by(signal)),
            }
        }
    }

    /// Takes no more inputs because of `signal`, lets running turns finish, and says so. The next signal ends the command.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<(), CliError> {
        self.stopped_by.get_or_insert(signal);
        self.signals.next_ends();
        drop(self.begin_ending());
        self.output.note("Finishing the turns that run. Press Ctrl-C again to end at once.")
    }

    /// Whether a signal has come that ends the session.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// Begins the end of the swarm, once; what is returned ends with it.
    fn begin_ending(&mut self) -> Shared<BoxFuture<'static, ()>> {
        let swarm = &self.swarm;
        let ending = self.ending.get_or_insert_with(|| {
            let swarm = swarm.clone();
            tokio::spawn(async move { swarm.shutdown().await }).map(drop).boxed().shared()
        });
        ending.clone()
    }

    /// Ends the swarm: running turns of other agents may finish first. An error where a signal was the reason to end.
    pub(crate) async fn shut_down(mut self) -> Result<(), CliError> {
        self.reloads.end().await;
        let mut ending = self.begin_ending();
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.show_leftover(&event)?,
                _ = &mut ending => break,
                Some(question) = self.questions.next() => question.put().await,
                signal = self.signals.next() => self.stop(signal)?,
            }
        }
        self.stopped_by.map_or(Ok(()), |signal| Err(interrupted_by(signal)))
    }

    /// Why a turn has no result.
    pub(crate) fn ended_early(&self) -> CliError {
        match self.stopped_by {
            Some(signal) => CliError::stopped(signal.exit(), "Interrupted before the turn was over."),
            None => CliError::failure(Code::INTERNAL_ERROR, "The swarm ended before the turn did."),
        }
        .suggest("The turn resumes when the swarm starts again, with the next `gdn run`.")
    }
}

fn interrupted_by(signal: Signal) -> CliError {
    CliError::stopped(signal.exit(), "Interrupted.")
}

/// The trace id, where `event` is the start of the turn that `event_id` began.
pub(crate) fn trace_of<'e>(event: &'e SwarmEvent, event_id: &str) -> Option<&'e str> {
    match event {
        SwarmEvent::Runtime(event) => match &event.kind {
            RuntimeEventKind::TurnStarted { event_id: began_by, .. } if began_by == event_id => {
                Some(&event.trace.trace_id)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Why the swarm did not take an input, as the command says it.
pub(crate) fn not_accepted(error: SendError) -> CliError {
    let exit = if error.code == Code::AGENT_NOT_FOUND { Exit::Usage } else { Exit::Failure };
    CliError { suggestion: error.suggestion, ..CliError::new(exit, error.code, error.message) }
}
