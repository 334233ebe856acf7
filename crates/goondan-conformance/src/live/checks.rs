//! Pass rates of the checks of a test case.

use serde::Serialize;

use super::RunReport;
use crate::case::{ConformanceCase, StepAction};
use crate::runner::trajectory;

/// Pass rate of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckRate {
    /// Position of the check in the test case, as in failures.
    pub check: String,
    /// Number of runs in which the check passed.
    pub passed: usize,
    /// Number of runs that include the check.
    pub runs: usize,
}

/// Name of a check, and the number of steps that must be performed before it.
struct CaseCheck {
    name: String,
    steps: usize,
}

/// Returns the label of a step in reports. `index` is counted from 0.
pub(crate) fn step_label(index: usize, name: &str) -> String {
    format!("step {} ({name})", index + 1)
}

/// Returns the label of the judge check of a step.
pub(crate) fn judge_label(step: &str) -> String {
    format!("{step}: judge")
}

/// Returns the label of a judge check of the whole test case. `index` is counted from 0.
pub(crate) fn outcome_judge_label(index: usize) -> String {
    format!("expect.judge[{index}]")
}

/// Returns the rates of all checks in the order of the test case. A check that a run did not reach
/// counts as failed.
pub(super) fn check_rates(case: &ConformanceCase, runs: &[RunReport]) -> Vec<CheckRate> {
    let checks = list_checks(case);
    let mut rates: Vec<CheckRate> = checks
        .iter()
        .map(|check| {
            let has_passed = |run: &&RunReport| {
                run.steps >= check.steps
                    && !run
                        .failures
                        .iter()
                        .any(|one| is_of(&one.place, &check.name))
            };
            CheckRate {
                check: check.name.clone(),
                passed: runs.iter().filter(has_passed).count(),
                runs: runs.len(),
            }
        })
        .collect();
    let failures = runs.iter().flat_map(|run| &run.failures);
    for failure in failures.filter(|failure| {
        !checks
            .iter()
            .any(|check| is_of(&failure.place, &check.name))
    }) {
        if !rates.iter().any(|rate| rate.check == failure.place) {
            let has_passed =
                |run: &&RunReport| !run.failures.iter().any(|one| one.place == failure.place);
            let passed = runs.iter().filter(has_passed).count();
            rates.push(CheckRate {
                check: failure.place.clone(),
                passed,
                runs: runs.len(),
            });
        }
    }
    rates
}

/// Returns true if a failure at `place` belongs to the check `name` or to a part of it.
fn is_of(place: &str, name: &str) -> bool {
    place
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Lists the checks of a test case. `steps` is the number of steps that a run must reach for the
/// check.
fn list_checks(case: &ConformanceCase) -> Vec<CaseCheck> {
    let mut checks = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let place = step_label(index, step.action.name());
        if step.expect.is_some() || matches!(step.action, StepAction::Send(_)) {
            checks.push(CaseCheck {
                name: place.clone(),
                steps: index + 1,
            });
        }
        if step.judge.is_some() {
            checks.push(CaseCheck {
                name: judge_label(&place),
                steps: index + 1,
            });
        }
    }
    checks.extend(final_checks(case).into_iter().map(|name| CaseCheck {
        name,
        steps: case.steps.len(),
    }));
    checks
}

/// Lists the names of the checks after the last step.
fn final_checks(case: &ConformanceCase) -> Vec<String> {
    let expect = &case.expect;
    let parts = [
        ("diagnostics", expect.diagnostics.is_some()),
        ("catalog", !expect.catalog.is_empty()),
        ("requests", !expect.requests.is_empty()),
        ("conversation", !expect.conversation.is_empty()),
        ("toolResults", expect.tool_results.is_some()),
        ("events", expect.events.is_some()),
    ];
    let stated_names = |parts: &[(&str, bool)]| -> Vec<String> {
        parts
            .iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(name, _)| format!("expect.{name}"))
            .collect()
    };
    let mut names = stated_names(&parts);
    names.extend((0..expect.trajectory.len()).map(trajectory::check_name));
    names.extend(stated_names(&[
        ("mcp", !expect.mcp.is_empty()),
        ("files", !expect.files.is_empty()),
    ]));
    names.extend((0..expect.judge.len()).map(outcome_judge_label));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_path_belongs_to_its_check() {
        assert!(
            is_of("expect.conversation[\"a:main\"]", "expect.conversation")
                && is_of("step 1 (send)", "step 1 (send)")
        );
        assert!(
            !is_of("step 1 (send): judge", "step 1 (send)")
                && !is_of("expect.trajectory[10]", "expect.trajectory[1]")
        );
    }
}
