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
    let duration = milliseconds(outcome.timing.total());
    let (line, diagnostics) = match &outcome.result {
        Ok(generation) => {
            let good = style::GOOD;
            let plan = plan_words(&outcome.plan);
            (
                format!(
                    "{good}Generation {generation}{good:#}: {plan} {faint}({duration}){faint:#}"
                ),
                &outcome.warnings,
            )
        }
        Err(diagnostics) => {
            let error = style::ERROR;
            let count = error_count(diagnostics);
            (
                format!(
                    "{error}Not reloaded{error:#}: {count}; generation {serving} keeps running \
                    {faint}({duration}){faint:#}"
                ),
                diagnostics,
            )
        }
    };
    match render::shown_each(diagnostics, &outcome.sources, colour).trim_end_matches('\n') {
        "" => line,
        diagnostics_text => format!("{line}\n{diagnostics_text}"),
    }
}

/// Renders the output of a failed build, followed by a summary line.
pub(crate) fn build_words(outcome: &BuildOutcome, serving: u64) -> String {
    let (error, duration) = (style::ERROR, milliseconds(outcome.duration));
    let line = format!(
        "{error}Not built{error:#}: {}: {}; generation {serving} keeps running ({duration})",
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
        .map(|(word, names)| format!("{word} {}", name_list(names)))
        .collect();
    if !plan.agents.is_empty() {
        words.push(name_list(
            &plan
                .agents
                .iter()
                .map(agent_change_text)
                .collect::<Vec<_>>(),
        ));
    }
    if plan.limits {
        words.push("limits: next turn".to_owned());
    }
    words.join("; ")
}

/// Describes the change of an agent, and when it takes effect.
fn agent_change_text(change: &AgentChange) -> String {
    let effect = match &change.effect {
        AgentEffect::Added => "new".to_owned(),
        AgentEffect::Draining => "draining".to_owned(),
        AgentEffect::Changed {
            next_step,
            next_turn,
        } => {
            let parts = [(next_step, "next step"), (next_turn, "next turn")];
            let parts = parts.into_iter().filter(|(parts, _)| !parts.is_empty());
            parts
                .map(|(parts, effect)| format!("{} {effect}", part_names(parts)))
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    format!("{} ({effect})", change.name)
}

/// Joins the names of the changed parts.
fn part_names(parts: &[AgentPart]) -> String {
    parts
        .iter()
        .map(|part| part.as_str())
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Joins the names, and counts those after the first [`MAX_NAMED_RESOURCES`].
fn name_list(names: &[String]) -> String {
    let shown_names =
        untrusted_text::line(names[..names.len().min(MAX_NAMED_RESOURCES)].join(", "));
    match names.len().saturating_sub(MAX_NAMED_RESOURCES) {
        0 => shown_names.to_string(),
        further => format!("{shown_names} and {further} more"),
    }
}

/// Describes the number of errors in the project.
fn error_count(diagnostics: &[Diagnostic]) -> String {
    match diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count()
    {
        1 => "the project has an error".to_owned(),
        count => format!("the project has {count} errors"),
    }
}

/// Formats a duration in milliseconds.
fn milliseconds(time: Duration) -> String {
    match time.as_millis() {
        0 => "under 1 ms".to_owned(),
        millis => format!("{millis} ms"),
    }
}
