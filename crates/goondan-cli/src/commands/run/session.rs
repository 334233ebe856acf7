//! Drives turns of a swarm and listens to everything that can happen meanwhile.

use std::time::Instant;

use goondan::runtime::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::runtime::ports::tool::ToolCallResult;
use goondan::{Input, SendError, Swarm, Turn};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::approval::Questions;
use super::interrupts::Interrupts;
use super::view::View;
use crate::exit::{CliError, Exit};
use crate::output::{Activity, Output, TurnFacts};

/// A swarm with whoever watches it: a person at a terminal or a program behind a pipe.
pub(crate) struct Session {
    /// The swarm.
    pub(crate) swarm: Swarm,
    /// Everything that happens in it.
    pub(crate) events: UnboundedReceiver<SwarmEvent>,
    /// Ctrl-C.
    pub(crate) interrupts: Interrupts,
    questions: Questions,
    output: Output,
}

/// A turn that is over.
pub(crate) struct Followed {
    /// What came of it.
    pub(crate) result: TurnResult,
    /// Whose it was, and the like.
    pub(crate) facts: TurnFacts,
}

impl Session {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(swarm: Swarm, questions: Questions, output: &Output) -> Self {
        let events = swarm.subscribe();
        Session { swarm, events, interrupts: Interrupts::listen(), questions, output: *output }
    }

    /// Hands `input` in and shows every event in `view` until its turn is over. The first Ctrl-C cancels the turn; the
    /// second one is an error that ends the command.
    pub(crate) async fn follow(&mut self, input: Input, view: &mut View) -> Result<Followed, CliError> {
        self.interrupts.clear();
        let begin = Instant::now();
        let turn = self.swarm.send(input).await.map_err(not_accepted)?;
        let event_id = turn.event_id.clone();
        let mut facts = TurnFacts { instance: turn.instance.clone(), trace_id: None, duration_ms: 0 };
        view.begin(&facts.instance);
        let result = self.listen(turn, &event_id, &mut facts, view).await?;
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
        event_id: &str,
        facts: &mut TurnFacts,
        view: &mut View,
    ) -> Result<TurnResult, CliError> {
        let mut cancelled = false;
        let mut outcome = std::pin::pin!(turn.result());
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.show(&event, event_id, facts, view).await?,
                result = &mut outcome => return result.ok_or_else(ended_early),
                Some(question) = self.questions.next() => {
                    view.pause();
                    question.put().await;
                }
                () = self.interrupts.next() => {
                    if std::mem::replace(&mut cancelled, true) || !self.swarm.cancel(&facts.instance).await {
                        return Err(CliError::interrupted());
                    }
                    view.pause();
                    self.output.note("Cancelling the turn. Press Ctrl-C again to quit at once.")?;
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
        view.show(&self.swarm, event).await
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
                () = self.interrupts.next() => return Err(CliError::interrupted()),
            }
        }
    }

    /// Ends the swarm: running turns of other agents may finish first, unless Ctrl-C is pressed.
    pub(crate) async fn shut_down(mut self) -> Result<(), CliError> {
        tokio::select! {
            () = self.swarm.shutdown() => Ok(()),
            () = self.interrupts.next() => Err(CliError::interrupted()),
        }
    }
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

/// The swarm ended before the turn did.
pub(crate) fn ended_early() -> CliError {
    CliError::failure("INTERNAL_ERROR", "The swarm ended before the turn did; the turn goes on with the next start.")
}

/// Why the swarm did not take an input, as the command says it.
pub(crate) fn not_accepted(error: SendError) -> CliError {
    let exit = if error.code == "AGENT_NOT_FOUND" { Exit::Usage } else { Exit::Failure };
    CliError { suggestion: error.suggestion, ..CliError::new(exit, error.code, error.message) }
}
