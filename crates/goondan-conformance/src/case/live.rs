//! What makes a case an evaluation: it can be run with the real models of its project.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Action, Case, Reply};

/// How a case is run with `--live`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Live {
    /// How often; once by default. `--runs` says otherwise.
    #[schemars(range(min = 1, max = 1000))]
    pub runs: Option<u32>,
    /// The share of runs that must pass, from 0 to 1; all of them by default. `--pass-rate` says otherwise.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pass_rate: Option<f64>,
    /// The Model of the project that answers `judge` checks, such as `Model/critic`. `--judge` says otherwise; with neither, it is
    /// the only Model of the project.
    pub judge: Option<String>,
}

/// The most runs of a case.
pub const MOST_RUNS: u32 = 1_000;

/// What makes no sense in a case that is run live, by the top-level key that is concerned.
pub(super) fn problems(case: &Case) -> Vec<(&'static str, String)> {
    let Some(live) = &case.live else {
        return judged(case)
            .map(|what| {
                (
                    "case",
                    format!("{what} is asked with `live` alone: add `live: {{}}`"),
                )
            })
            .collect();
    };
    let mut problems = Vec::new();
    if live
        .runs
        .is_some_and(|runs| !(1..=MOST_RUNS).contains(&runs))
    {
        problems.push(("live", format!("`runs` is a number from 1 to {MOST_RUNS}")));
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
            "a case with `live` has no `clock`: providers go by the time of day".to_owned(),
        ));
    }
    if case.watch {
        problems.push(("watch", "a case with `live` has no `watch`".to_owned()));
    }
    for (index, step) in case.steps.iter().enumerate() {
        if let Some(name) = not_live(&step.action) {
            problems.push((
                "steps",
                format!(
                    "step {}: `{name}` makes no sense in a case with `live`",
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
                "reply {} of {agent} fails on purpose, which no live model does: put it into a case without `live`",
                index + 1
            );
            problems.push(("models", message));
        }
    }
    problems
}

impl Case {
    /// Whether it has checks that only a judge can answer.
    pub fn is_judged(&self) -> bool {
        judged(self).next().is_some()
    }
}

/// The checks of a case that only a judge can answer.
fn judged(case: &Case) -> impl Iterator<Item = String> + '_ {
    let steps = case
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.judge.is_some());
    let steps = steps.map(|(index, _)| format!("`judge` of step {}", index + 1));
    steps.chain((!case.expect.judge.is_empty()).then(|| "`expect.judge`".to_owned()))
}

/// What needs a runtime that can be killed at will, or a clock of the case's own.
fn not_live(action: &Action) -> Option<&'static str> {
    match action {
        Action::Kill(_) => Some("kill"),
        Action::Restart(_) => Some("restart"),
        Action::Second => Some("second"),
        Action::Advance(_) => Some("advance"),
        Action::AwaitReload(_) => Some("awaitReload"),
        Action::Connect(_) => Some("connect"),
        _ => None,
    }
}

fn fails_on_purpose(reply: &Reply) -> bool {
    reply.error.is_some() || reply.break_after.is_some() || !reply.raw_calls.is_empty()
}
