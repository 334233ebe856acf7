//! Invariants that hold in every test case, independent of its expectations.

mod nesting;
mod pairing;
mod secrets;

use std::collections::BTreeSet;

use crate::report::CheckFailure;
use crate::runner::evidence::CaseEvidence;

/// Returns a message for each violation of an invariant.
type InvariantCheck = fn(&CaseEvidence<'_>) -> Vec<String>;

/// All invariants, by their title in reports.
const INVARIANTS: &[(&str, InvariantCheck)] = &[
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
        project_changes,
    ),
];

/// Checks all invariants and returns their violations.
pub(crate) fn check_invariants(evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let mut failures = Vec::new();
    for (title, check) in INVARIANTS {
        for message in check(evidence) {
            failures.push(CheckFailure::new(format!("always: {title}"), message));
        }
    }
    failures
}

/// Returns violations: tool calls and results in stored conversations that do not match.
fn results_in_conversations(evidence: &CaseEvidence<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    for (id, messages) in &evidence.conversations {
        let messages = messages.iter().map(AsRef::as_ref);
        for problem in pairing::find_violations(messages, evidence.cut_off) {
            violations.push(format!("{id}: {problem}"));
        }
    }
    violations
}

/// Returns violations: tool calls and results in model requests that do not match.
fn results_in_requests(evidence: &CaseEvidence<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    for (index, request) in evidence.requests.iter().enumerate() {
        let messages = request.messages.iter().map(AsRef::as_ref);
        for problem in pairing::find_violations(messages, false) {
            violations.push(format!("request {index} ({}): {problem}", request.instance));
        }
    }
    violations
}

/// Returns violations: message ids that occur twice in a conversation.
fn message_ids(evidence: &CaseEvidence<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for (instance, messages) in &evidence.conversations {
        let mut seen_ids = BTreeSet::new();
        let twice = messages
            .iter()
            .filter(|message| !seen_ids.insert(&message.id));
        problems.extend(
            twice.map(|message| format!("{instance}: two messages have the id {}", message.id)),
        );
    }
    problems
}

/// Returns violations: files that gdn created, changed or removed in the project directory.
fn project_changes(evidence: &CaseEvidence<'_>) -> Vec<String> {
    // gdn stores permanent approvals in `.goondan`, and may write no other files.
    let is_approval_file = |change: &String| change.starts_with(".goondan/");
    evidence
        .unexpected_changes
        .iter()
        .flatten()
        .filter(|change| !is_approval_file(change))
        .cloned()
        .collect()
}
