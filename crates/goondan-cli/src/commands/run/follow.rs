//! Follows one turn from its acceptance to its result.

use std::time::Instant;

use goondan::runtime::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::{Input, SendError, Swarm};
use tokio::sync::mpsc::UnboundedReceiver;

use super::interrupts::Interrupts;
use super::view::View;
use crate::exit::{CliError, Exit};
use crate::output::{Output, TurnFacts};

/// A turn that is over.
pub(crate) struct Followed {
    /// What came of it.
    pub(crate) result: TurnResult,
    /// Whose it was, and the like.
    pub(crate) facts: TurnFacts,
}

/// Hands `input` in and shows every event in `view` until its turn is over. The first Ctrl-C cancels the turn; the second
/// one is an error that ends the command.
pub(crate) async fn follow(
    swarm: &Swarm,
    input: Input,
    events: &mut UnboundedReceiver<SwarmEvent>,
    interrupts: &mut Interrupts,
    view: &mut View,
    output: &Output,
) -> Result<Followed, CliError> {
    interrupts.clear();
    let begin = Instant::now();
    let turn = swarm.send(input).await.map_err(not_accepted)?;
    let (event_id, instance) = (turn.event_id.clone(), turn.instance.clone());
    let mut facts = TurnFacts { instance, trace_id: None, duration_ms: 0 };
    view.begin(&facts.instance);
    let mut cancelled = false;
    let mut outcome = std::pin::pin!(turn.result());
    let result = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => {
                note_trace(&event, &event_id, &mut facts);
                view.show(swarm, &event).await?;
            }
            result = &mut outcome => break result,
            () = interrupts.next() => {
                if std::mem::replace(&mut cancelled, true) || !swarm.cancel(&facts.instance).await {
                    return Err(CliError::interrupted());
                }
                view.pause();
                output.note("Cancelling the turn. Press Ctrl-C again to quit at once.")?;
            }
        }
    };
    // What was published before the result may still wait in the channel.
    while let Ok(event) = events.try_recv() {
        note_trace(&event, &event_id, &mut facts);
        view.show(swarm, &event).await?;
    }
    let result = result.ok_or_else(ended_early)?;
    facts.duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Followed { result, facts })
}

/// The swarm ended before the turn did.
pub(crate) fn ended_early() -> CliError {
    CliError::failure("INTERNAL_ERROR", "The swarm ended before the turn did; the turn goes on with the next start.")
}

/// Remembers the trace id of the turn that `event_id` started.
pub(crate) fn note_trace(event: &SwarmEvent, event_id: &str, facts: &mut TurnFacts) {
    if let SwarmEvent::Runtime(event) = event
        && let RuntimeEventKind::TurnStarted { event_id: started_by, .. } = &event.kind
        && started_by == event_id
    {
        facts.trace_id = Some(event.trace.trace_id.clone());
    }
}

/// Why the swarm did not take an input, as the command says it.
pub(crate) fn not_accepted(error: SendError) -> CliError {
    let exit = if error.code == "AGENT_NOT_FOUND" { Exit::Usage } else { Exit::Failure };
    CliError { suggestion: error.suggestion, ..CliError::new(exit, error.code, error.message) }
}

/// Ends the swarm: running turns of other agents may finish first, unless Ctrl-C is pressed.
pub(crate) async fn shut_down(swarm: &Swarm, interrupts: &mut Interrupts) -> Result<(), CliError> {
    tokio::select! {
        () = swarm.shutdown() => Ok(()),
        () = interrupts.next() => Err(CliError::interrupted()),
    }
}
