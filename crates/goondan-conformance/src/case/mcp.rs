//! MCP servers that are played while a case runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A server that stands in for that of a Tool, whatever its `spec.mcp` says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct McpFixture {
    /// The revision of the protocol that it speaks: `2025-11-25`, or `2026-07-28`, which has no handshake.
    pub protocol: Option<String>,
    /// What it does when it is started, one for each time; the last one is what it goes on doing.
    pub starts: Vec<McpStart>,
    /// Its tools, as it says them.
    pub tools: Vec<McpToolFixture>,
    /// What it answers to calls, by tool, in order. Without a list for a tool it answers with the arguments.
    pub replies: BTreeMap<String, Vec<McpReply>>,
}

/// What a server does when it is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpStart {
    /// It answers.
    #[default]
    Answers,
    /// It ends at once.
    Dies,
    /// It says nothing.
    Hangs,
    /// It prints words that are no messages, and no end of them.
    Chatters,
    /// It prints one line that never ends.
    Floods,
}

/// A tool, as a server says it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct McpToolFixture {
    /// What the server calls it.
    pub name: String,
    /// What it says of it.
    #[serde(default)]
    pub description: Option<String>,
    /// The schema of its arguments; any object by default.
    #[serde(default)]
    pub input_schema: Option<Map<String, Value>>,
    /// Hints, such as `readOnlyHint`.
    #[serde(default)]
    pub annotations: Option<Map<String, Value>>,
}

/// What a server answers to a call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct McpReply {
    /// A text.
    pub text: Option<String>,
    /// Blocks of content, as they are in the protocol.
    pub content: Option<Vec<Value>>,
    /// `structuredContent`.
    pub structured: Option<Value>,
    /// The tool says that it failed.
    pub is_error: bool,
    /// The server refuses the call.
    pub error: Option<McpRefusal>,
    /// How long it takes.
    pub delay_ms: u64,
    /// What it tells of its progress before that: `{progress, total, message}`.
    pub progress: Vec<Map<String, Value>>,
    /// What it prints before the answer, in a line of its own.
    pub noise: Option<String>,
    /// It ends, and does not answer.
    pub dies: bool,
    /// It never answers.
    pub hangs: bool,
    /// Its tools from then on. It tells that they are other ones.
    pub tools: Option<Vec<McpToolFixture>>,
    /// Tools that it has no more from then on, which it keeps to itself.
    pub forgets: Vec<String>,
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpRefusal {
    /// Such as -32602.
    pub code: i64,
    /// What is wrong.
    pub message: String,
}

/// What is wrong with servers that are well-formed.
pub(super) fn problems(
    servers: &BTreeMap<String, McpFixture>,
) -> impl Iterator<Item = String> + '_ {
    servers
        .iter()
        .filter_map(|(name, server)| match server.protocol.as_deref() {
            None | Some("2025-11-25" | "2026-07-28") => None,
            Some(other) => Some(format!(
                "{name}: `{other}` is neither `2025-11-25` nor `2026-07-28`"
            )),
        })
}
