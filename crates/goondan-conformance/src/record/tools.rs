//! Converts recorded tool results to the tool mocks of a test case.

use std::collections::{BTreeMap, BTreeSet};

use goondan::spec::Bundle;
use goondan::spec::kinds::ToolEntry;
use serde_json::{Map, Value, json};

use super::RecordingSource;
use super::history::CaseHistory;
use super::replies::{RecordedCall, RecordedReplies};

/// Built-in tools for messages between agents. Their effects are recorded as turns, so they run for
/// real.
const MESSAGING_TOOLS: [&str; 3] = ["agents", "squad", "task"];

/// Returns the mocked results by tool, without the calls that started turns of other agents.
pub(super) fn mocked_results(
    history: &CaseHistory,
    source: &RecordingSource<'_>,
    replies: &RecordedReplies,
) -> Value {
    let asking = history.asking_calls();
    let is_played = |call: &&RecordedCall| {
        is_a_resource(source.bundle, resource_name(&call.tool))
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

/// Returns the name of the Tool in a tool name such as `tool__export`.
fn resource_name(tool: &str) -> &str {
    tool.split("__").next().unwrap_or_default()
}

/// Returns true if a Tool resource with this name exists and is not for messages between agents.
/// Tools of extensions have no resource.
fn is_a_resource(bundle: &Bundle, name: &str) -> bool {
    let tool = bundle.tools().values().find(|tool| tool.id.name == name);
    tool.is_some_and(|tool| !matches!(&tool.spec.entry, ToolEntry::Builtin(name) if MESSAGING_TOOLS.contains(&name.as_str())))
}

/// Converts the result of a call to a tool mock.
fn result(call: &RecordedCall) -> Value {
    match &call.result.error {
        Some(error) => json!({"call": call.id, "error": error}),
        None => json!({"call": call.id, "output": call.result.output}),
    }
}

/// Returns mocked MCP servers with the tools that were called, so that no server is started.
pub(super) fn mocked_servers(bundle: &Bundle, replies: &RecordedReplies) -> Value {
    let mut called: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for call in replies.calls() {
        if let Some((resource, export)) = call.tool.split_once("__") {
            called.entry(resource).or_default().insert(export);
        }
    }
    let served = bundle
        .tools()
        .values()
        .filter(|tool| matches!(tool.spec.entry, ToolEntry::Mcp(_)));
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
