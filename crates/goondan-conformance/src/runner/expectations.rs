//! Comparison of a test case's final state with its expectations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan::event::RuntimeEvent;
use goondan::message::Message;
use goondan::spec::Severity;
use serde_json::{Value, json};

use super::evidence::CaseEvidence;
use super::{events, trajectory, view};
use crate::case::expect::{CaseExpectation, RootedPath};
use crate::matcher::{ValueMatcher, child_path};
use crate::report::CheckFailure;

/// Returns all failed expectations.
pub(super) fn check_expectations(
    expect: &CaseExpectation,
    evidence: &CaseEvidence<'_>,
) -> Vec<CheckFailure> {
    let mut failures = check_diagnostics(expect, evidence);
    if !failures.is_empty() && !evidence.started {
        // All other failures would only be consequences.
        return failures;
    }
    failures.extend(catalog(expect, evidence));
    failures.extend(check_requests(expect, evidence));
    failures.extend(conversations(expect, evidence));
    failures.extend(tool_results(expect, evidence));
    failures.extend(event_sequence(expect, &evidence.events));
    failures.extend(trajectory::check_trajectory(&expect.trajectory, evidence));
    failures.extend(check_mcp_messages(expect, evidence));
    failures.extend(files(expect, evidence));
    failures
}

/// Returns the failures of one matcher; none if the value matches.
fn check_value(place: &str, matcher: &ValueMatcher, actual: Option<&Value>) -> Vec<CheckFailure> {
    CheckFailure::of_mismatches(place, "not as expected", matcher.check(actual))
}

/// Checks the diagnostics. Without an expectation, the bundle must have no errors.
fn check_diagnostics(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let place = "expect.diagnostics";
    match &expect.diagnostics {
        Some(matcher) => check_value(
            place,
            &matcher.clone().in_any_order(),
            Some(&view::diagnostics(&evidence.diagnostics)),
        ),
        None => {
            let errors = evidence
                .diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.severity == Severity::Error);
            let errors: Vec<_> = errors.cloned().collect();
            let message = || format!("the bundle has errors:{}", view::diagnostics_text(&errors));
            if errors.is_empty() {
                Vec::new()
            } else {
                vec![CheckFailure::new(place, message())]
            }
        }
    }
}

/// Checks the tool names of each agent.
fn catalog(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let compare = |(agent, matcher): (&String, &ValueMatcher)| {
        let names = evidence.catalog.get(agent).map(|names| json!(names));
        check_value(
            &child_path("expect.catalog", agent),
            &matcher.clone().in_any_order(),
            names.as_ref(),
        )
    };
    expect.catalog.iter().flat_map(compare).collect()
}

/// Checks the model requests of each agent.
fn check_requests(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let compare = |(agent, matcher): (&String, &ValueMatcher)| {
        let agent_requests = evidence
            .requests
            .iter()
            .filter(|request| request.instance.agent == *agent);
        let views: Value = agent_requests.map(view::request).collect();
        check_value(&child_path("expect.requests", agent), matcher, Some(&views))
    };
    expect.requests.iter().flat_map(compare).collect()
}

/// Checks the messages that each mocked MCP server received.
fn check_mcp_messages(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let compare = |(tool, matcher): (&String, &ValueMatcher)| {
        check_value(
            &child_path("expect.mcp", tool),
            matcher,
            evidence.mcp.received_messages(tool).as_ref(),
        )
    };
    expect.mcp.iter().flat_map(compare).collect()
}

/// Checks the messages of each conversation.
fn conversations(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let messages_by_conversation: BTreeMap<String, &Vec<Arc<Message>>> = evidence
        .conversations
        .iter()
        .map(|(id, messages)| (id.to_string(), messages))
        .collect();
    let compare = |(instance, matcher): (&String, &ValueMatcher)| {
        let messages = messages_by_conversation
            .get(instance)
            .map(|messages| view::messages(messages));
        check_value(
            &child_path("expect.conversation", instance),
            matcher,
            messages.as_ref(),
        )
    };
    expect.conversation.iter().flat_map(compare).collect()
}

/// Results are in the order in which they were appended, over all conversations.
fn tool_results(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let Some(matcher) = &expect.tool_results else {
        return Vec::new();
    };
    let mut messages: Vec<&Arc<Message>> = evidence.conversations.values().flatten().collect();
    messages.sort_by_key(|message| message.created_at);
    let results: Value = messages
        .into_iter()
        .flat_map(|message| message.tool_results())
        .map(view::result)
        .collect();
    check_value("expect.toolResults", matcher, Some(&results))
}

/// Searches each expected event after the previous match.
fn event_sequence(expect: &CaseExpectation, all: &[RuntimeEvent]) -> Vec<CheckFailure> {
    let actual: Vec<Value> = all.iter().map(events::to_json).collect();
    let mut next = 0;
    for (index, matcher) in expect.events.iter().flatten().enumerate() {
        match actual[next..]
            .iter()
            .position(|event| matcher.matches(Some(event)))
        {
            Some(offset) => next += offset + 1,
            None => {
                let rest: Vec<String> = actual[next..].iter().map(short_event).collect();
                let rest = if rest.is_empty() {
                    "nothing".to_owned()
                } else {
                    rest.join("\n  ")
                };
                let expected = matcher.to_value();
                let message = format!(
                    "no event like {expected} after the previous match; the later events are\n  \
                        {rest}"
                );
                return vec![CheckFailure::new(
                    format!("expect.events[{index}]"),
                    message,
                )];
            }
        }
    }
    Vec::new()
}

/// Removes ids and prompts from an event, for short messages.
fn short_event(event: &Value) -> String {
    let boring = [
        "timestamp",
        "traceId",
        "spanId",
        "parentSpanId",
        "turnId",
        "stepId",
        "eventId",
        "llmInputMessages",
    ];
    let shown_fields = event
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !boring.contains(&key.as_str()));
    Value::Object(
        shown_fields
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
    .to_string()
}

/// Checks the contents of files.
fn files(expect: &CaseExpectation, evidence: &CaseEvidence<'_>) -> Vec<CheckFailure> {
    let compare = |(place, matcher): (&RootedPath, &ValueMatcher)| {
        let content = resolve_path(place, evidence).and_then(|path| read(&path));
        check_value(
            &child_path("expect.files", &place.to_string()),
            matcher,
            content.as_ref(),
        )
    };
    expect.files.iter().flat_map(compare).collect()
}

/// Returns the path of a file; `None` if it does not exist or its agent is unknown.
fn resolve_path(place: &RootedPath, evidence: &CaseEvidence<'_>) -> Option<PathBuf> {
    match place {
        RootedPath::Project { path } => Some(evidence.project.join(path)),
        RootedPath::Workdir {
            agent,
            instance_key,
            path,
        } => Some(evidence.workdir(agent, instance_key)?.join(path)),
        RootedPath::State { path } => {
            let mut roots = evidence
                .workspaces
                .iter()
                .map(|workspace| workspace.dir.as_path());
            roots
                .find_map(|root| expand(root, path))
                .or_else(|| expand(&evidence.state_root, path))
        }
    }
}

/// Colon in names of state files. Test cases use the Unix form; Windows forbids colons in file
/// names.
const STATE_NAME_COLON: &str = if cfg!(windows) { "%3A" } else { ":" };

/// Returns the first matching path below `root`. `*` matches any part of a name.
fn expand(root: &Path, pattern: &str) -> Option<PathBuf> {
    let mut paths = vec![root.to_owned()];
    for part in pattern.replace(':', STATE_NAME_COLON).split('/') {
        let matches_part = |folder: &PathBuf| {
            if part.contains('*') {
                names_like(folder, part)
                    .into_iter()
                    .map(|name| folder.join(name))
                    .collect()
            } else {
                vec![folder.join(part)]
            }
        };
        paths = paths
            .iter()
            .flat_map(matches_part)
            .filter(|path| path.exists())
            .collect();
    }
    paths.into_iter().next()
}

/// Returns the sorted names in a directory that match a pattern with `*`.
fn names_like(folder: &Path, pattern: &str) -> Vec<String> {
    let regex = regex::escape(pattern).replace("\\*", ".*");
    let regex = regex::Regex::new(&format!("^{regex}$"))
        .expect("an escaped pattern is a regular expression");
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| regex.is_match(name));
    names.sort();
    names
}

/// Returns the content of a file, or the sorted names in a directory.
fn read(path: &Path) -> Option<Value> {
    if path.is_dir() {
        return Some(json!(
            names_like(path, "*")
                .iter()
                .map(|name| name.replace(STATE_NAME_COLON, ":"))
                .collect::<Vec<_>>()
        ));
    }
    let bytes = std::fs::read(path).ok()?;
    Some(Value::String(String::from_utf8_lossy(&bytes).into_owned()))
}
