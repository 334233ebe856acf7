//! Recording of conversations as test cases.
//!
//! The stored data suffices. Events link an input to the turns that it caused, and conversations
//! contain model answers and tool results. The test case mocks both, so it needs no API key and
//! changes nothing outside of its own directories. Parts that cannot be mocked are refused with a
//! reason, and no file is written.
//!
//! This module does not depend on the storage of conversations or on the destination of the test
//! case.

mod env;
mod history;
mod replies;
mod tools;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use goondan::event::FinishReason;
use goondan::ids::InstanceId;
use goondan::message::Message;
use goondan::models::CassetteMask;
use goondan::spec::Bundle;
use serde_json::{Map, Value, json};

pub use history::CaseHistory;

use history::RecordedTurn;
use replies::RecordedReplies;

/// The reason why a conversation cannot be recorded, as a complete sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordingError(pub String);

/// Data for a recorded test case, in addition to its history.
pub struct RecordingSource<'s> {
    /// Name of the test case.
    pub name: String,
    /// Project directory, relative to the file of the test case.
    pub project: String,
    /// The project.
    pub bundle: &'s Bundle,
    /// Conversations of all instances of the history.
    pub conversations: BTreeMap<InstanceId, Vec<Arc<Message>>>,
    /// Secrets to mask.
    pub mask: &'s CassetteMask,
    /// Runs the tools instead of mocking their results.
    pub runs_tools: bool,
}

/// Returns the test case as YAML.
pub fn record(
    history: &CaseHistory,
    source: &RecordingSource<'_>,
) -> Result<String, RecordingError> {
    let replies = RecordedReplies::from_history(history, source)?;
    let mut case = Map::new();
    let mut put = |key: &str, value: Value| {
        let is_empty = value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            case.insert(key.to_owned(), value);
        }
    };
    put("case", json!(source.name));
    put(
        "about",
        json!(format!(
            "A recorded conversation of {}.",
            history.instance()
        )),
    );
    put("project", json!(source.project));
    put("env", env::placeholders(source.bundle));
    put("models", replies.models(history));
    put("mcp", tools::mocked_servers(source.bundle, &replies));
    if !source.runs_tools {
        put("tools", tools::mocked_results(history, source, &replies));
    }
    put("steps", steps(history, source)?);
    put("expect", build_expect(&replies));
    let case = source.mask.apply(Value::Object(case));
    let head = "# yaml-language-server: \
        $schema=https://raw.githubusercontent.com/goondan/gdn/main/schemas/conformance-case.schema.json\n";
    Ok(format!("{head}{}", yaml::write(&case)))
}

/// Returns a step for each input, preceded by the answers to its approval requests.
fn steps(history: &CaseHistory, source: &RecordingSource<'_>) -> Result<Value, RecordingError> {
    let mut steps = Vec::new();
    for turn in history.inputs() {
        steps.extend(
            history
                .approvals(turn)
                .map(|approval| json!({"approve": approval})),
        );
        let messages = source
            .conversations
            .get(&turn.instance)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let input = history::input_of(turn, messages)?;
        let mut send = Map::from_iter([("input".to_owned(), json!(input))]);
        send.insert("agent".to_owned(), json!(turn.instance.agent));
        send.insert("instanceKey".to_owned(), json!(turn.instance.instance_key));
        let mut expected = Map::from_iter([("finishReason".to_owned(), json!(turn.finish_reason))]);
        if turn.finish_reason == Some(FinishReason::TextResponse) {
            expected.insert(
                "response".to_owned(),
                json!(history::answer_of(turn, messages)?),
            );
        }
        steps.push(json!({"send": send, "expect": expected}));
    }
    Ok(Value::Array(steps))
}

/// Returns the expected tool results and the calls of each agent.
fn build_expect(replies: &RecordedReplies) -> Value {
    let mut expect = Map::new();
    let results = replies.call_statuses();
    if !results.is_empty() {
        // Calls of several conversations end in no fixed order.
        let results = if replies.conversation_count() > 1 {
            json!({"$unordered": results})
        } else {
            json!(results)
        };
        expect.insert("toolResults".to_owned(), results);
    }
    let trajectories: Vec<Value> = replies
        .calls_by_agent()
        .into_iter()
        .map(|(agent, tools)| json!({"agent": agent, "inOrder": tools}))
        .collect();
    if !trajectories.is_empty() {
        expect.insert("trajectory".to_owned(), Value::Array(trajectories));
    }
    Value::Object(expect)
}

/// Returns the name of a turn in messages.
fn turn_name(turn: &RecordedTurn) -> String {
    match turn.number {
        Some(number) => format!("turn {number} of {}", turn.instance),
        None => format!("the turn {} of {}", turn.id, turn.instance),
    }
}
