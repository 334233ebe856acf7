//! What came of the runs of a case.

use std::time::Duration;

use serde::Serialize;

use super::checks::rates;
use super::{CheckRate, LiveCase, Spent, Verdict};
use crate::case::Case;
use crate::report::{Failure, Outcome};

/// What came of one run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// Its number, from 1.
    pub run: u32,
    /// Whether everything was as expected.
    pub passed: bool,
    /// What was not.
    pub failures: Vec<Failure>,
    /// How many steps were performed.
    pub steps: usize,
    /// How long the steps took, in milliseconds.
    pub duration_ms: u64,
    /// What the models of the case have used up.
    pub spent: Spent,
    /// What the judge has used up.
    pub judge: Spent,
    /// What the judge said.
    pub verdicts: Vec<Verdict>,
}

/// What came of all runs of a case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    /// How many runs passed.
    pub passed: usize,
    /// How many must.
    pub required: usize,
    /// Each run, in order.
    pub runs: Vec<RunReport>,
    /// How often each check held.
    pub checks: Vec<CheckRate>,
    /// What all runs have used up, the judge included.
    pub total: Spent,
}

impl LiveReport {
    /// Sums up `runs`, which are those of `case`.
    pub(crate) fn of(case: &Case, live: &LiveCase, mut runs: Vec<RunReport>) -> Self {
        runs.sort_by_key(|run| run.run);
        let mut total = Spent::default();
        for run in &runs {
            total.add(&run.spent);
            total.add(&run.judge);
        }
        let passed = runs.iter().filter(|run| run.passed).count();
        LiveReport {
            passed,
            required: live.required(),
            checks: rates(case, &runs),
            runs,
            total,
        }
    }

    /// How the case ended; the failures are those of the runs that failed.
    pub(crate) fn outcome(&self, live: &LiveCase) -> Outcome {
        if live.is_enough(self.passed) {
            return Outcome::Passed;
        }
        let message = format!(
            "{} of {} runs passed, and {} must",
            self.passed,
            self.runs.len(),
            self.required
        );
        let of_run = |run: &RunReport| {
            let number = run.run;
            run.failures.clone().into_iter().map(move |one| Failure {
                place: format!("run {number}: {}", one.place),
                ..one
            })
        };
        let failures = self.runs.iter().flat_map(of_run);
        Outcome::Failed(
            [Failure::new("the runs", message)]
                .into_iter()
                .chain(failures)
                .collect(),
        )
    }

    /// The middle of the durations, and the longest.
    pub fn latency(&self) -> (Duration, Duration) {
        let mut durations: Vec<u64> = self.runs.iter().map(|run| run.duration_ms).collect();
        durations.sort_unstable();
        let middle = durations
            .get(durations.len().saturating_sub(1) / 2)
            .copied()
            .unwrap_or_default();
        (
            Duration::from_millis(middle),
            Duration::from_millis(durations.last().copied().unwrap_or_default()),
        )
    }
}
