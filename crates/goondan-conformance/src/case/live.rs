//! Evaluations: test cases that can run with the real models of their project.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConformanceCase, ScriptReply, StepAction};

/// Options for `--live`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(rename = "Live")]
pub struct LiveCaseOptions {
    /// Number of runs. Default: 1. `--runs` overrides it.
    #[schemars(range(min = 1, max = 1000))]
    pub runs: Option<u32>,
    /// Share of runs that must pass, from 0 to 1. Default: 1. `--pass-rate` overrides it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pass_rate: Option<f64>,
    /// Model of the project that answers `judge` checks, such as `Model/critic`. Default: the only
    /// Model of the project. `--judge` overrides it.
    pub judge: Option<String>,
}

/// Maximum number of runs of a test case.
pub const MAX_RUNS: u32 = 1_000;

/// Returns errors in the live options of a test case, with the top-level key that they concern.
pub(super) fn validation_errors(case: &ConformanceCase) -> Vec<(&'static str, String)> {
    let Some(live) = &case.live else {
        return judge_checks(case)
            .map(|what| {
                (
                    "case",
                    format!("{what} is only checked with `live`: add `live: {{}}`"),
                )
            })
            .collect();
    };
    let mut problems = Vec::new();
    if live
        .runs
        .is_some_and(|runs| !(1..=MAX_RUNS).contains(&runs))
    {
        problems.push(("live", format!("`runs` is a number from 1 to {MAX_RUNS}")));
    }
    if live
        .pass_rate
        .is_some_and(|rate| !(0.0..=1.0).contains(&rate))
    {
        problems.push(("live", "`passRate` is a number from 0 to 1".to_owned()));
    }
    if case.clock.is_some() {
        problems.push((
            "clock",
            "a case with `live` can't have a `clock`: providers use the real time".to_owned(),
        ));
    }
    if case.watch {
        problems.push(("watch", "a case with `live` can't have `watch`".to_owned()));
    }
    for (index, step) in case.steps.iter().enumerate() {
        if let Some(name) = unsupported_live_action(&step.action) {
            problems.push((
                "steps",
                format!(
                    "step {}: `{name}` can't be used in a case with `live`",
                    index + 1
                ),
            ));
        }
    }
    for (agent, replies) in &case.models {
        for (index, _) in replies
            .iter()
            .enumerate()
            .filter(|(_, reply)| fails_on_purpose(reply))
        {
            let message = format!(
                "reply {} of {agent} fails intentionally, which a live model can't do: move the \
                    reply to a case without `live`",
                index + 1
            );
            problems.push(("models", message));
        }
    }
    problems
}

impl ConformanceCase {
    /// Returns true if the test case has `judge` checks.
    pub fn is_judged(&self) -> bool {
        judge_checks(self).next().is_some()
    }
}

/// Returns the `judge` checks of a test case.
fn judge_checks(case: &ConformanceCase) -> impl Iterator<Item = String> + '_ {
    let steps = case
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.judge.is_some());
    let steps = steps.map(|(index, _)| format!("`judge` of step {}", index + 1));
    steps.chain((!case.expect.judge.is_empty()).then(|| "`expect.judge`".to_owned()))
}

/// Returns the name of an action that a live run does not support, because the action controls the
/// runtime process or its clock, waits for a file change, or runs no swarm. Returns `None` for all
/// other actions.
fn unsupported_live_action(action: &StepAction) -> Option<&'static str> {
    match action {
        StepAction::Kill(_) => Some("kill"),
        StepAction::Restart(_) => Some("restart"),
        StepAction::Second => Some("second"),
        StepAction::Advance(_) => Some("advance"),
        StepAction::AwaitReload(_) => Some("awaitReload"),
        StepAction::Connect(_) => Some("connect"),
        _ => None,
    }
}

/// Returns true if the reply simulates an error, an interrupted answer or malformed calls.
fn fails_on_purpose(reply: &ScriptReply) -> bool {
    reply.error.is_some() || reply.break_after.is_some() || !reply.raw_calls.is_empty()
}
