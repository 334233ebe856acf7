//! Recognizes turns that end the process again and again, such as a turn that calls a library that
//! aborts. Without a limit such a turn would end each process that resumes it.

use std::sync::Arc;

use futures::FutureExt as _;
use goondan_core::event::TurnError;
use goondan_core::ports::journal::{
    EffectKind, EffectOutcome, InterruptionPolicy, JournalProgress, TurnEffect, TurnJournal,
};
use goondan_core::ports::store::StoreError;
use goondan_spec::Code;
use serde_json::Value;

/// Process ends in the same tool call after which its turn fails.
const MAX_TOOL_ENDS: usize = 3;

/// Process ends at any other place after which a turn fails. Model calls take long, so a turn that
/// waits for its model is often a bystander when the process ends.
const MAX_OTHER_ENDS: usize = 10;

/// Records that a turn starts again after the process ended. Returns an error if the process ended
/// too often at the same place.
pub(super) async fn record_start(
    journal: &Arc<dyn TurnJournal>,
) -> Result<Option<TurnError>, StoreError> {
    let progress = journal.progress();
    let (mut number, mut marks) = (0, Vec::new());
    while journal.has_outcome(&start_effect(number)) {
        marks.push(run_start(journal, number, 0).await?);
        number += 1;
    }
    // The starts themselves are no progress.
    let outcomes = progress.outcomes - number;
    let is_stuck = |mark: &&usize| **mark == outcomes;
    let ends = 1 + marks.iter().rev().take_while(is_stuck).count();
    if max_ends(&progress).is_some_and(|limit| ends >= limit) {
        return Ok(Some(poisoned(ends)));
    }
    run_start(journal, number, outcomes).await?;
    Ok(None)
}

/// Returns the limit of process ends at the same place; `None` for a turn that waits for an
/// approval or for another agent, which any number of restarts may interrupt.
fn max_ends(progress: &JournalProgress) -> Option<usize> {
    let repeats = |kind| progress.repeated.contains(&kind);
    if repeats(EffectKind::Approval) {
        None
    } else if repeats(EffectKind::ToolCall) {
        Some(MAX_TOOL_ENDS)
    } else if repeats(EffectKind::AgentRequest) {
        None
    } else {
        Some(MAX_OTHER_ENDS)
    }
}

/// Returns the recorded number of outcomes at a start, or records `outcomes`.
async fn run_start(
    journal: &Arc<dyn TurnJournal>,
    number: usize,
    outcomes: usize,
) -> Result<usize, StoreError> {
    let effect = TurnEffect {
        id: start_effect(number),
        kind: EffectKind::Start,
        intent: Value::Null,
        when_interrupted: InterruptionPolicy::RunAgain,
    };
    match journal.run(effect, async move { outcomes }.boxed()).await? {
        EffectOutcome::Done { value, .. } => Ok(value),
        EffectOutcome::Interrupted => unreachable!("a start is recorded again"),
    }
}

/// Returns the effect id of a start, counted from 0.
fn start_effect(number: usize) -> String {
    format!("start-{number}")
}

/// Returns the error of a turn that does not start again.
fn poisoned(ends: usize) -> TurnError {
    let message =
        format!("The gdn process ended {ends} times in a row during the same call of this turn.");
    TurnError::new(Code::TURN_POISON, message).suggest(
        "Find the last call with `gdn instance show`, repair its tool, then run `gdn instance \
            retry`.",
    )
}
