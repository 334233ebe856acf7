//! Results of the live runs of a test case: outcome, usage and duration.

use std::time::Duration;

use serde::Serialize;

use super::checks::check_rates;
use super::{CheckRate, JudgeVerdict, LiveCase, ModelSpending};
use crate::case::ConformanceCase;
use crate::report::{CaseOutcome, CheckFailure};

/// Result of one run.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// Run number, from 1.
    pub run: u32,
    /// True if all expectations are met.
    pub passed: bool,
    /// Failures of the run.
    pub failures: Vec<CheckFailure>,
    /// Number of steps performed.
    pub steps: usize,
    /// Duration of the steps, in milliseconds.
    pub duration_ms: u64,
    /// Usage of the test case's models.
    pub spent: ModelSpending,
    /// Usage of the judge.
    pub judge: ModelSpending,
    /// Verdicts of the judge.
    pub verdicts: Vec<JudgeVerdict>,
}

/// Result of all runs of a test case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    /// Number of runs that passed.
    pub passed: usize,
    /// Number of runs that must pass.
    pub required: usize,
    /// Runs, in order.
    pub runs: Vec<RunReport>,
    /// Pass rates of the checks.
    pub checks: Vec<CheckRate>,
    /// Usage of all runs, including the judge.
    pub total: ModelSpending,
}

impl LiveReport {
    /// Summarizes the runs of a live test case.
    pub(crate) fn from_runs(
        case: &ConformanceCase,
        live: &LiveCase,
        mut runs: Vec<RunReport>,
    ) -> Self {
        runs.sort_by_key(|run| run.run);
        let mut total = ModelSpending::default();
        for run in &runs {
            total.add(&run.spent);
            total.add(&run.judge);
        }
        let passed = runs.iter().filter(|run| run.passed).count();
        LiveReport {
            passed,
            required: live.required_passes(),
            checks: check_rates(case, &runs),
            runs,
            total,
        }
    }

    /// Returns the outcome of the test case, with the failures of its failed runs.
    pub(crate) fn outcome(&self, live: &LiveCase) -> CaseOutcome {
        if live.is_enough(self.passed) {
            return CaseOutcome::Passed;
        }
        let message = format!(
            "{} of {} runs passed, and {} must",
            self.passed,
            self.runs.len(),
            self.required
        );
        let run_outcome = |run: &RunReport| {
            let number = run.run;
            run.failures
                .clone()
                .into_iter()
                .map(move |one| CheckFailure {
                    place: format!("run {number}: {}", one.place),
                    ..one
                })
        };
        let failures = self.runs.iter().flat_map(run_outcome);
        CaseOutcome::Failed(
            [CheckFailure::new("the runs", message)]
                .into_iter()
                .chain(failures)
                .collect(),
        )
    }

    /// Returns the median and the longest duration.
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
