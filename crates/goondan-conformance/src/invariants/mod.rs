//! Invariants that hold in every test case, independent of its expectations.

mod nesting;
mod pairing;
mod secrets;

use std::collections::BTreeSet;

use crate::report::CheckFailure;
use crate::runner::evidence::CaseEvidence;

type Check = fn(&CaseEvidence<'_>) -> Vec<String>;

/// All invariants, by their title in reports.
const INVARIANTS: &[(&str, Check)] = &[
    (
        "each tool call has exactly one result",
        results_in_conversations,
    ),
    ("message ids are unique in a conversation", message_ids),
    ("requests pair tool results with calls", results_in_requests),
    ("runtime events nest and share a trace", nesting::check),
    ("secrets stay secret", secrets::check),
    (
        "nothing is written into the project directory",
        project_folder,
    ),
];

/// Returns all violations of invariants.
pub(crate) fn judge(evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let failures = |(name, check): &(&str, Check)| {
        let messages = check(evidence);
        messages
            .into_iter()
            .map(|message| CheckFailure::new(format!("always: {name}"), message))
            .collect::<Vec<_>>()
    };
    INVARIANTS.iter().flat_map(failures).collect()
}

/// Returns violations: tool calls and results in stored conversations that do not match.
fn results_in_conversations(evidence: &CaseEvidence<'_>) -> Vec<String> {
    let problems = |(id, messages): (&_, &Vec<_>)| {
        let problems = pairing::problems(messages.iter().map(AsRef::as_ref), evidence.cut_off);
        problems
            .into_iter()
            .map(|problem| format!("{id}: {problem}"))
            .collect::<Vec<_>>()
    };
    evidence.conversations.iter().flat_map(problems).collect()
}

/// Returns violations: tool calls and results in model requests that do not match.
fn results_in_requests(evidence: &CaseEvidence<'_>) -> Vec<String> {
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

/// Returns violations: message ids that occur twice in a conversation.
fn message_ids(evidence: &CaseEvidence<'_>) -> Vec<String> {
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

/// Returns violations: files that gdn left in the project directory.
fn project_folder(evidence: &CaseEvidence<'_>) -> Vec<String> {
    // Permanent approvals are stored there, and are the only allowed files.
    let is_approval = |problem: &String| problem.starts_with(".goondan/");
    evidence
        .strange_files
        .iter()
        .flatten()
        .filter(|problem| !is_approval(problem))
        .cloned()
        .collect()
}
