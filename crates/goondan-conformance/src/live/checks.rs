//! How often each check of a case held.

use serde::Serialize;

use super::RunReport;
use crate::case::{Action, Case};
use crate::runner::trajectory;

/// How often a check held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckRate {
    /// Its place in the case, as failures name it.
    pub check: String,
    /// In how many runs it held.
    pub passed: usize,
    /// In how many runs it was to be made.
    pub runs: usize,
}

/// A check, and how many steps must have been performed for it to be made.
struct Check {
    name: String,
    steps: usize,
}

/// The name of a step in reports, from 0.
pub(crate) fn step_place(index: usize, name: &str) -> String {
    format!("step {} ({name})", index + 1)
}

/// The name of what a judge says of a step.
pub(crate) fn judge_place(step: &str) -> String {
    format!("{step}: judge")
}

/// The name of what a judge says of a whole run, from 0.
pub(crate) fn outcome_judge_place(index: usize) -> String {
    format!("expect.judge[{index}]")
}

/// The rates of all checks of `case` in `runs`, in the order of the case. A check that a run did not come to has not held.
pub(super) fn rates(case: &Case, runs: &[RunReport]) -> Vec<CheckRate> {
    let checks = checks(case);
    let mut rates: Vec<CheckRate> = checks
        .iter()
        .map(|check| {
            let held = |run: &&RunReport| {
                run.steps >= check.steps
                    && !run
                        .failures
                        .iter()
                        .any(|one| is_of(&one.place, &check.name))
            };
            CheckRate {
                check: check.name.clone(),
                passed: runs.iter().filter(held).count(),
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
            let held =
                |run: &&RunReport| !run.failures.iter().any(|one| one.place == failure.place);
            let passed = runs.iter().filter(held).count();
            rates.push(CheckRate {
                check: failure.place.clone(),
                passed,
                runs: runs.len(),
            });
        }
    }
    rates
}

/// Whether a failure at `place` belongs to the check `name`: it is about it, or about a part of it.
fn is_of(place: &str, name: &str) -> bool {
    place
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn checks(case: &Case) -> Vec<Check> {
    let mut checks = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let place = step_place(index, step.action.name());
        if step.expect.is_some() || matches!(step.action, Action::Send(_)) {
            checks.push(Check {
                name: place.clone(),
                steps: index + 1,
            });
        }
        if step.judge.is_some() {
            checks.push(Check {
                name: judge_place(&place),
                steps: index + 1,
            });
        }
    }
    checks.extend(outcome(case).into_iter().map(|name| Check {
        name,
        steps: case.steps.len(),
    }));
    checks
}

fn outcome(case: &Case) -> Vec<String> {
    let expect = &case.expect;
    let parts = [
        ("diagnostics", expect.diagnostics.is_some()),
        ("catalog", !expect.catalog.is_empty()),
        ("requests", !expect.requests.is_empty()),
        ("conversation", !expect.conversation.is_empty()),
        ("toolResults", expect.tool_results.is_some()),
        ("events", expect.events.is_some()),
    ];
    let given = |parts: &[(&str, bool)]| -> Vec<String> {
        parts
            .iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(name, _)| format!("expect.{name}"))
            .collect()
    };
    let mut names = given(&parts);
    names.extend((0..expect.trajectory.len()).map(trajectory::place));
    names.extend(given(&[
        ("mcp", !expect.mcp.is_empty()),
        ("files", !expect.files.is_empty()),
    ]));
    names.extend((0..expect.judge.len()).map(outcome_judge_place));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_belongs_to_its_check_and_a_neighbour_does_not() {
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
