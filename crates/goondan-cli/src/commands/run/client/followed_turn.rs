//! Turn that a command follows to its end, and further work of its trace.

use std::time::Instant;

use futures::FutureExt;
use goondan::UsageLedger;
use goondan::event::{FinishReason, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;

use super::{ClientUpdate, SwarmClient, TurnFailure};
use crate::commands::run::unprompted_answers::{UnpromptedAnswer, resumed_turn_notice};
use crate::commands::run::view::TurnView;
use crate::exit::CliError;
use crate::output::{CommandOutput, TurnReport, TurnReportFacts, turn_error};

/// Turn that has ended.
pub(crate) struct FollowedTurn {
    pub(crate) result: TurnResult,
    duration_ms: u64,
    trace: FollowedTrace,
}

/// Trace of a followed turn.
struct FollowedTrace {
    instance: InstanceId,
    trace_id: String,
    /// Usage of the trace.
    ledger: UsageLedger,
    /// Answers of later turns in the trace that no input began.
    later: Vec<TurnReport>,
    /// Error of the first later turn that failed.
    later_error: Option<CliError>,
}

impl FollowedTurn {
    /// Takes the error of the turn, or of the first later turn that failed.
    pub(crate) fn take_error(&mut self) -> Option<CliError> {
        turn_error(&self.result).or_else(|| self.trace.later_error.take())
    }

    /// Returns the JSON report, later answers included.
    pub(crate) fn report(self) -> TurnReport {
        let FollowedTrace {
            instance,
            trace_id,
            ledger,
            later,
            ..
        } = self.trace;
        let usage = ledger.of(&trace_id);
        let facts = TurnReportFacts {
            instance,
            trace_id,
            duration_ms: self.duration_ms,
        };
        TurnReport::result(None, facts, &self.result, usage).with_later(later)
    }
}

/// Shows all events in `view` until the turn of the client ends.
pub(crate) async fn follow<C: SwarmClient>(
    client: &mut C,
    view: &mut TurnView,
    output: &CommandOutput,
) -> Result<FollowedTurn, TurnFailure> {
    let begin = Instant::now();
    let mut trace = FollowedTrace {
        instance: InstanceId::new("", ""),
        trace_id: String::new(),
        ledger: UsageLedger::default(),
        later: Vec::new(),
        later_error: None,
    };
    loop {
        match client.next().await? {
            ClientUpdate::Ended(result) => {
                return Ok(FollowedTurn {
                    result: *result?,
                    duration_ms: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
                    trace,
                });
            }
            update => trace.show(update, client, view, output).await?,
        }
    }
}

/// Follows the trace of an ended turn until no work is left.
/// Agents may still work on answers that the turn did not wait for. Returns at once after a failed
/// or cancelled turn.
pub(crate) async fn follow_chain<C: SwarmClient>(
    followed: &mut FollowedTurn,
    client: &mut C,
    view: &mut TurnView,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let reason = followed.result.finish_reason;
    if matches!(reason, FinishReason::Error | FinishReason::Cancelled) {
        return Ok(());
    }
    view.resume();
    let trace = &mut followed.trace;
    let mut settled = client.settled(&trace.trace_id);
    loop {
        let update = tokio::select! {
            biased;
            update = client.next() => update?,
            () = &mut settled => break,
        };
        trace.show(update, client, view, output).await?;
    }
    // Events published before the end may still be waiting.
    while let Some(update) = client.next().now_or_never() {
        trace.show(update?, client, view, output).await?;
    }
    view.pause();
    Ok(())
}

impl FollowedTrace {
    /// Shows an update, or handles it.
    async fn show<C: SwarmClient>(
        &mut self,
        update: ClientUpdate,
        client: &mut C,
        view: &mut TurnView,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        match update {
            ClientUpdate::Begun { instance, trace_id } => {
                self.ledger.follow(&trace_id);
                view.begin(&instance);
                view.resume();
                (self.instance, self.trace_id) = (instance, trace_id);
            }
            ClientUpdate::Event(event) => self.show_event(&event, client, view, output)?,
            ClientUpdate::Question(question) => {
                view.pause();
                client.show_approval_request(question).await?;
                view.resume();
            }
            ClientUpdate::Reloaded(notice) if view.is_for_people() => {
                view.pause();
                output.note(&notice)?;
            }
            ClientUpdate::Signal(signal) => {
                view.pause();
                client.interrupt(signal)?;
            }
            ClientUpdate::Reloaded(_) | ClientUpdate::Ended(_) => {}
        }
        Ok(())
    }

    /// Shows an event, and the answers of turns that no input started.
    fn show_event<C: SwarmClient>(
        &mut self,
        event: &SwarmEvent,
        client: &C,
        view: &mut TurnView,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        if let SwarmEvent::Runtime(event) = event
            && matches!(event.kind, RuntimeEventKind::TurnStarted { .. })
        {
            self.ledger.follow(&event.trace.trace_id);
        }
        self.ledger.note(event);
        let is_mine = |event_id: &str| client.is_mine(event_id);
        if let Some(notice) = resumed_turn_notice(event, is_mine) {
            view.pause();
            output.note(&notice)?;
        }
        view.show(event)?;
        let Some(answer) = UnpromptedAnswer::of(event, is_mine) else {
            return Ok(());
        };
        let in_followed_trace = answer.trace_id == self.trace_id;
        view.answer(&answer, in_followed_trace, || {
            self.ledger.of(answer.trace_id)
        })?;
        if in_followed_trace {
            self.later.push(TurnReport::answer(&answer, None));
            self.later_error = self
                .later_error
                .take()
                .or_else(|| turn_error(answer.result));
        }
        Ok(())
    }
}
