//! What must be so in every case, whatever it expects.

mod nesting;
mod pairing;
mod secrets;

use std::collections::BTreeSet;

use crate::report::Failure;
use crate::runner::evidence::Evidence;

type Check = fn(&Evidence<'_>) -> Vec<String>;

/// Every check, under the words that a report shows.
const CHECKS: &[(&str, Check)] = &[
    (
        "each tool call has exactly one result",
        results_in_conversations,
    ),
    ("message ids are unique in a conversation", message_ids),
    ("requests pair tool results with calls", results_in_requests),
    ("runtime events nest and share a trace", nesting::check),
    ("secrets stay secret", secrets::check),
    ("nothing is written into the project folder", project_folder),
];

/// Everything that must always be so and is not.
pub(crate) fn judge(evidence: &Evidence<'_>) -> Vec<Failure> {
    let failures = |(name, check): &(&str, Check)| {
        let messages = check(evidence);
        messages
            .into_iter()
            .map(|message| Failure::new(format!("always: {name}"), message))
            .collect::<Vec<_>>()
    };
    CHECKS.iter().flat_map(failures).collect()
}

fn results_in_conversations(evidence: &Evidence<'_>) -> Vec<String> {
    let problems = |(id, messages): (&_, &Vec<_>)| {
        let problems = pairing::problems(messages.iter().map(AsRef::as_ref), evidence.cut_off);
        problems
            .into_iter()
            .map(|problem| format!("{id}: {problem}"))
            .collect::<Vec<_>>()
    };
    evidence.conversations.iter().flat_map(problems).collect()
}

fn results_in_requests(evidence: &Evidence<'_>) -> Vec<String> {
    let problems = |(index, request): (usize, &goondan::ports::model::ModelRequest)| {
        let problems = pairing::problems(request.messages.iter().map(AsRef::as_ref), false);
        let name = format!("request {index} ({})", request.instance);
        problems
            .into_iter()
            .map(|problem| format!("{name}: {problem}"))
            .collect::<Vec<_>>()
    };
    evidence
        .requests
        .iter()
        .enumerate()
        .flat_map(problems)
        .collect()
}

fn message_ids(evidence: &Evidence<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for (instance, messages) in &evidence.conversations {
        let mut seen = BTreeSet::new();
        let twice = messages.iter().filter(|message| !seen.insert(&message.id));
        problems.extend(
            twice.map(|message| format!("{instance}: two messages have the id {}", message.id)),
        );
    }
    problems
}

fn project_folder(evidence: &Evidence<'_>) -> Vec<String> {
    // What people allow for good is the one thing that belongs there.
    let kept = |problem: &String| problem.starts_with(".goondan/");
    evidence
        .strange_files
        .iter()
        .flatten()
        .filter(|problem| !kept(problem))
        .cloned()
        .collect()
}
