//! What the tools returned, as results that a case plays.

use std::collections::{BTreeMap, BTreeSet};

use goondan::spec::Bundle;
use goondan::spec::kinds::Entry;
use serde_json::{Map, Value, json};

use super::Source;
use super::history::History;
use super::replies::{Played, Replies};

/// Built-in tools that make agents talk to each other: what they do is what is recorded.
const TALKING: [&str; 3] = ["agents", "squad", "task"];

/// Results by tool. Calls by which agents asked each other are made, not played.
pub(super) fn results(history: &History, source: &Source<'_>, replies: &Replies) -> Value {
    let asking = history.asking_calls();
    let is_played = |call: &&Played| {
        is_a_resource(source.bundle, resource(&call.tool))
            && !asking.contains(&(call.key.0.as_str(), call.key.1.as_str()))
    };
    let mut tools = Map::new();
    for call in replies.calls().filter(is_played) {
        let list = tools.entry(call.tool.clone()).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(result(call));
        }
    }
    Value::Object(tools)
}

fn resource(tool: &str) -> &str {
    tool.split("__").next().unwrap_or_default()
}

/// Whether a Tool of that name stands for more than talk; what extensions offer is no Tool.
fn is_a_resource(bundle: &Bundle, name: &str) -> bool {
    let tool = bundle.tools().values().find(|tool| tool.id.name == name);
    tool.is_some_and(|tool| !matches!(&tool.spec.entry, Entry::Builtin(name) if TALKING.contains(&name.as_str())))
}

fn result(call: &Played) -> Value {
    match &call.result.error {
        Some(error) => json!({"call": call.id, "error": error}),
        None => json!({"call": call.id, "output": call.result.output}),
    }
}

/// Servers in the place of those of MCP tools: none is started. They have the tools that were called.
pub(super) fn servers(bundle: &Bundle, replies: &Replies) -> Value {
    let mut called: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for call in replies.calls() {
        if let Some((resource, export)) = call.tool.split_once("__") {
            called.entry(resource).or_default().insert(export);
        }
    }
    let served = bundle
        .tools()
        .values()
        .filter(|tool| matches!(tool.spec.entry, Entry::Mcp(_)));
    let server = |name: &str| {
        let exports = called.get(name).into_iter().flatten();
        let tools: Vec<Value> = exports
            .map(|export| json!({"name": export, "inputSchema": {"type": "object"}}))
            .collect();
        (name.to_owned(), json!({"tools": tools}))
    };
    served
        .map(|tool| server(&tool.id.name))
        .collect::<Map<_, _>>()
        .into()
}
