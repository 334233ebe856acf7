//! Text of reload outcomes (rule R5).

use std::time::Duration;

use goondan::internal::{render, untrusted_text};
use goondan::spec::{AgentChange, AgentEffect, AgentPart, Diagnostic, ReloadPlan};
use goondan::{BuildOutcome, ReloadOutcome};

use super::style;

/// Maximum number of names in a line; the remaining names are counted.
const MAX_NAMED_RESOURCES: usize = 6;

/// Renders the outcome of a reload as one line, followed by the diagnostics.
pub(crate) fn outcome_words(outcome: &ReloadOutcome, serving: u64, colour: bool) -> String {
    let faint = style::FAINT;
    let took = milliseconds(outcome.timing.total());
    let (line, diagnostics) = match &outcome.result {
        Ok(generation) => {
            let good = style::GOOD;
            let words = plan_words(&outcome.plan);
            (
                format!("{good}Generation {generation}{good:#}: {words} {faint}({took}){faint:#}"),
                &outcome.warnings,
            )
        }
        Err(diagnostics) => {
            let error = style::ERROR;
            let count = errors(diagnostics);
            (
                format!(
                    "{error}Not reloaded{error:#}: {count}; generation {serving} keeps running \
                    {faint}({took}){faint:#}"
                ),
                diagnostics,
            )
        }
    };
    match render::shown_each(diagnostics, &outcome.sources, colour).trim_end_matches('\n') {
        "" => line,
        below => format!("{line}\n{below}"),
    }
}

/// Renders the output of a failed build, followed by a summary line.
pub(crate) fn build_words(outcome: &BuildOutcome, serving: u64) -> String {
    let (error, took) = (style::ERROR, milliseconds(outcome.duration));
    let line = format!(
        "{error}Not built{error:#}: {}: {}; generation {serving} keeps running ({took})",
        untrusted_text::line(&outcome.tool),
        untrusted_text::line(&outcome.end)
    );
    match untrusted_text::lines(outcome.output.trim_end())
        .to_string()
        .as_str()
    {
        "" => line,
        output => format!("{output}\n{line}"),
    }
}

/// Renders a reload plan as one line.
pub(crate) fn plan_words(plan: &ReloadPlan) -> String {
    if plan.is_empty() {
        return "no changes".to_owned();
    }
    let resources = [
        ("added", &plan.added),
        ("changed", &plan.changed),
        ("removed", &plan.removed),
    ];
    let resources = resources.into_iter().filter(|(_, names)| !names.is_empty());
    let mut words: Vec<String> = resources
        .map(|(word, names)| format!("{word} {}", list(names)))
        .collect();
    if !plan.agents.is_empty() {
        words.push(list(
            &plan.agents.iter().map(agent_words).collect::<Vec<_>>(),
        ));
    }
    if plan.limits {
        words.push("limits: next turn".to_owned());
    }
    words.join("; ")
}

fn agent_words(change: &AgentChange) -> String {
    let when = match &change.effect {
        AgentEffect::Added => "new".to_owned(),
        AgentEffect::Draining => "draining".to_owned(),
        AgentEffect::Changed {
            next_step,
            next_turn,
        } => {
            let parts = [(next_step, "next step"), (next_turn, "next turn")];
            let parts = parts.into_iter().filter(|(parts, _)| !parts.is_empty());
            parts
                .map(|(parts, when)| format!("{} {when}", part_words(parts)))
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    format!("{} ({when})", change.name)
}

fn part_words(parts: &[AgentPart]) -> String {
    parts
        .iter()
        .map(|part| part.as_str())
        .collect::<Vec<_>>()
        .join(" and ")
}

fn list(names: &[String]) -> String {
    let named = untrusted_text::line(names[..names.len().min(MAX_NAMED_RESOURCES)].join(", "));
    match names.len().saturating_sub(MAX_NAMED_RESOURCES) {
        0 => named.to_string(),
        more => format!("{named} and {more} more"),
    }
}

fn errors(diagnostics: &[Diagnostic]) -> String {
    match diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count()
    {
        1 => "the project has an error".to_owned(),
        count => format!("the project has {count} errors"),
    }
}

fn milliseconds(time: Duration) -> String {
    match time.as_millis() {
        0 => "under 1 ms".to_owned(),
        some => format!("{some} ms"),
    }
}
