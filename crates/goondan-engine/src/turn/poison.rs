//! Recognizes turns that end the process again and again, such as a turn that calls a library that
//! aborts. Without a limit such a turn would end each process that resumes it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use goondan_core::event::TurnError;
use goondan_core::ports::journal::{
    EffectKind, EffectOutcome, InterruptionPolicy, JournalProgress, TurnEffect, TurnJournal,
};
use goondan_core::ports::store::StoreError;
use goondan_spec::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Process ends in a row after which a turn fails if its tool call was the only work each time.
const MAX_ENDS_ALONE: usize = 3;

/// Process ends in a row after which a turn fails if other turns ran at the same time. Most of them
/// are bystanders, and the process may also have been killed from outside.
const MAX_ENDS: usize = 10;

/// First wait of a suspected turn before it starts again. It doubles with each further end. The
/// other turns continue during the wait, and an end during the wait does not count.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Process ends after which a turn waits, if other turns ran at the same time.
const ENDS_BEFORE_WAIT: usize = 4;

/// Process ends after which a turn waits, if its tool call was the only work.
const ENDS_BEFORE_WAIT_ALONE: usize = 2;

/// Interruption of a turn by the end of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TurnInterruption {
    /// No other turn was unfinished.
    Alone,
    /// Other turns were unfinished too.
    WithOthers,
}

/// Record of a start after an interruption.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct RestartRecord {
    /// Number of outcomes in the journal, without those of restarts.
    outcomes: usize,
    interruption: TurnInterruption,
}

/// Number of process ends at one place of a turn without progress in between.
#[derive(Debug, Clone, Copy)]
struct StuckEnds {
    total: usize,
    /// Latest ends during a tool call without other unfinished turns.
    alone: usize,
}

/// Records that a turn starts again after the process ended. A turn that may be the cause waits
/// before it starts. Returns an error if the process ended too often at the same place.
pub(super) async fn record_restart(
    journal: &Arc<dyn TurnJournal>,
    interruption: TurnInterruption,
    cancel: &CancellationToken,
) -> Result<Option<TurnError>, StoreError> {
    let progress = journal.progress();
    let is_recorded = |number: &usize| journal.has_outcome(&restart_effect(*number));
    let recorded = (0..).take_while(is_recorded).count();
    let restart = RestartRecord {
        // A restart is not progress.
        outcomes: progress.outcomes - recorded,
        interruption,
    };
    let mut restarts = Vec::new();
    for number in 0..recorded {
        restarts.push(run_restart(journal, number, restart).await?);
    }
    restarts.push(restart);
    if let Some(ends) = stuck_ends(&restarts, &progress) {
        if ends.alone >= MAX_ENDS_ALONE || ends.total >= MAX_ENDS {
            return Ok(Some(poisoned_error(ends.total)));
        }
        wait_before_restart(ends, cancel).await;
    }
    run_restart(journal, recorded, restart).await?;
    Ok(None)
}

/// Counts the latest process ends without progress. Returns `None` for a turn that waits for an
/// approval or for another agent: any number of ends may interrupt it.
fn stuck_ends(restarts: &[RestartRecord], progress: &JournalProgress) -> Option<StuckEnds> {
    let is_repeated = |kind| progress.repeated.contains(&kind);
    let tool_repeats = is_repeated(EffectKind::ToolCall);
    if is_repeated(EffectKind::Approval) || !tool_repeats && is_repeated(EffectKind::AgentRequest) {
        return None;
    }
    let outcomes = restarts.last()?.outcomes;
    let stuck_restarts = || {
        let latest = restarts.iter().rev();
        latest.take_while(|restart| restart.outcomes == outcomes)
    };
    let is_alone = |restart: &&RestartRecord| restart.interruption == TurnInterruption::Alone;
    Some(StuckEnds {
        total: stuck_restarts().count(),
        alone: if tool_repeats {
            stuck_restarts().take_while(is_alone).count()
        } else {
            0
        },
    })
}

/// Waits before a suspected turn starts again, or until it is cancelled.
async fn wait_before_restart(ends: StuckEnds, cancel: &CancellationToken) {
    let doublings = if ends.alone >= ENDS_BEFORE_WAIT_ALONE {
        ends.alone - ENDS_BEFORE_WAIT_ALONE
    } else if ends.total >= ENDS_BEFORE_WAIT {
        ends.total - ENDS_BEFORE_WAIT
    } else {
        return;
    };
    let wait = FIRST_WAIT * (1 << doublings);
    tracing::warn!(
        ends = ends.total,
        ?wait,
        "the process ended repeatedly during this turn; the turn \
        waits before it starts again"
    );
    let _ = cancel.run_until_cancelled(tokio::time::sleep(wait)).await;
}

/// Returns the recorded restart of the turn. Records `restart` if there is no record.
async fn run_restart(
    journal: &Arc<dyn TurnJournal>,
    number: usize,
    restart: RestartRecord,
) -> Result<RestartRecord, StoreError> {
    let effect = TurnEffect {
        id: restart_effect(number),
        kind: EffectKind::Start,
        intent: Value::Null,
        when_interrupted: InterruptionPolicy::RunAgain,
    };
    match journal.run(effect, async move { restart }.boxed()).await? {
        EffectOutcome::Done { value, .. } => Ok(value),
        EffectOutcome::Interrupted => unreachable!("a restart is recorded again"),
    }
}

/// Returns the effect id of a restart, counted from 0.
fn restart_effect(number: usize) -> String {
    format!("restart-{number}")
}

/// Returns the error of a turn that does not start again.
fn poisoned_error(ends: usize) -> TurnError {
    let message =
        format!("The gdn process ended {ends} times in a row at the same place of this turn.");
    TurnError::new(Code::TURN_POISON, message).suggest(
        "Find the last call with `gdn conversation show`, repair its tool, then run `gdn conversation \
            retry`.",
    )
}
