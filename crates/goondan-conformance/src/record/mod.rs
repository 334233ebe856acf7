//! Makes a case of a conversation that has happened.
//!
//! What the store keeps is enough: the events of a swarm say which turns an input has caused, and the conversations what the
//! models answered and what the tools returned. The case plays both, so that it needs no key and changes nothing outside of its
//! own folders. What can't be played is refused with a reason, and nothing is written.
//!
//! It deliberately does not know where conversations are kept, or where the case goes.

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
use goondan::models::Mask;
use goondan::spec::Bundle;
use serde_json::{Map, Value, json};

pub use history::History;

use history::Turn;
use replies::Replies;

/// Why there is no case: a sentence that stands alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unrecordable(pub String);

/// What a case is made of, beside its history.
pub struct Source<'s> {
    /// The name of the case.
    pub name: String,
    /// The project folder, relative to the case's file.
    pub project: String,
    /// The project.
    pub bundle: &'s Bundle,
    /// The conversations of all instances of the history.
    pub conversations: BTreeMap<InstanceId, Vec<Arc<Message>>>,
    /// What must not be written down.
    pub mask: &'s Mask,
    /// Whether the case runs the tools, instead of playing what they returned.
    pub runs_tools: bool,
}

/// The case as YAML.
pub fn record(history: &History, source: &Source<'_>) -> Result<String, Unrecordable> {
    let replies = Replies::of(history, source)?;
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
            "A conversation of {} as it happened.",
            history.instance()
        )),
    );
    put("project", json!(source.project));
    put("env", env::placeholders(source.bundle));
    put("models", replies.models(history));
    put("mcp", tools::servers(source.bundle, &replies));
    if !source.runs_tools {
        put("tools", tools::results(history, source, &replies));
    }
    put("steps", steps(history, source)?);
    put("expect", expect(&replies));
    let case = source.mask.apply(Value::Object(case));
    let head = "# yaml-language-server: $schema=https://raw.githubusercontent.com/goondan/gdn/main/schemas/conformance-case.schema.json\n";
    Ok(format!("{head}{}", yaml::write(&case)))
}

/// Each input, with the answers of the person who was asked about calls before it.
fn steps(history: &History, source: &Source<'_>) -> Result<Value, Unrecordable> {
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
        send.insert("instance".to_owned(), json!(turn.instance.instance_key));
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

/// What the tools came to, and the way of each agent.
fn expect(replies: &Replies) -> Value {
    let mut expect = Map::new();
    let results = replies.results();
    if !results.is_empty() {
        // Calls of several conversations end in no certain order.
        let results = if replies.instances() > 1 {
            json!({"$unordered": results})
        } else {
            json!(results)
        };
        expect.insert("toolResults".to_owned(), results);
    }
    let ways: Vec<Value> = replies
        .calls_by_agent()
        .into_iter()
        .map(|(agent, tools)| json!({"agent": agent, "inOrder": tools}))
        .collect();
    if !ways.is_empty() {
        expect.insert("trajectory".to_owned(), Value::Array(ways));
    }
    Value::Object(expect)
}

/// A turn for a message.
fn named(turn: &Turn) -> String {
    match turn.number {
        Some(number) => format!("turn {number} of {}", turn.instance),
        None => format!("the turn {} of {}", turn.id, turn.instance),
    }
}
