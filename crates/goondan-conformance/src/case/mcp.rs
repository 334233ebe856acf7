//! MCP servers that a test case mocks: their tools and scripted replies.

use std::collections::BTreeMap;
use std::time::Duration;

use goondan::spec::DurationText;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Mocked MCP server of a Tool. It replaces the server in `spec.mcp`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct McpFixture {
    /// Protocol revision: `2025-11-25`, or `2026-07-28`, which has no handshake.
    pub protocol: Option<String>,
    /// Behavior at each start. The last entry also applies to all later starts.
    pub starts: Vec<McpStart>,
    /// Tools that the server lists.
    pub tools: Vec<McpToolFixture>,
    /// Replies to calls, by tool, in order. Default for a tool: its arguments.
    pub replies: BTreeMap<String, Vec<McpReply>>,
}

/// Behavior of a server at its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpStart {
    /// The server answers.
    #[default]
    Answers,
    /// The server exits immediately.
    Dies,
    /// The server sends nothing.
    Hangs,
    /// The server endlessly prints lines that are not messages.
    Chatters,
    /// The server prints one endless line.
    Floods,
}

/// Tool that a server lists.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct McpToolFixture {
    /// Tool name.
    pub name: String,
    /// Tool description.
    #[serde(default)]
    pub description: Option<String>,
    /// Schema of the arguments. Default: any object.
    #[serde(default)]
    pub input_schema: Option<Map<String, Value>>,
    /// Hints, such as `readOnlyHint`.
    #[serde(default)]
    pub annotations: Option<Map<String, Value>>,
}

/// Reply to a call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct McpReply {
    /// Text content.
    pub text: Option<String>,
    /// Content blocks, in the form of the protocol.
    pub content: Option<Vec<Value>>,
    /// `structuredContent`.
    pub structured: Option<Value>,
    /// The tool reports a failure.
    pub is_error: bool,
    /// The server rejects the call.
    pub error: Option<McpRefusal>,
    /// Delay before the reply. Default: none.
    pub delay: Option<DurationText>,
    /// Older name of `delay`, with a number of milliseconds.
    #[schemars(extend("deprecated" = true))]
    pub delay_ms: Option<u64>,
    /// Progress notifications before the reply: `{progress, total, message}`.
    pub progress: Vec<Map<String, Value>>,
    /// Line that the server prints before the reply.
    pub noise: Option<String>,
    /// The server exits without a reply.
    pub dies: bool,
    /// The server never replies.
    pub hangs: bool,
    /// New list of tools. The server announces the change.
    pub tools: Option<Vec<McpToolFixture>>,
    /// Tools that the server removes without announcing it.
    pub forgets: Vec<String>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpRefusal {
    /// Error code, such as -32602.
    pub code: i64,
    /// Error message.
    pub message: String,
}

/// Returns errors in the settings of servers that the types cannot exclude, each with the name of
/// the server.
pub(super) fn validation_errors(
    servers: &BTreeMap<String, McpFixture>,
) -> impl Iterator<Item = String> + '_ {
    servers.iter().filter_map(|(name, server)| {
        let problem = match server.protocol.as_deref() {
            None | Some("2025-11-25" | "2026-07-28") => server.delay_problem()?,
            Some(other) => format!("`{other}` is neither `2025-11-25` nor `2026-07-28`"),
        };
        Some(format!("{name}: {problem}"))
    })
}

impl McpFixture {
    /// Returns an error for a reply that states its delay twice.
    fn delay_problem(&self) -> Option<String> {
        let mut replies = self.replies.values().flatten();
        replies.find_map(|reply| reply.wait().err())
    }
}

impl McpReply {
    /// Returns the delay before the reply. Fails if both names are given.
    pub fn wait(&self) -> Result<Option<Duration>, String> {
        DurationText::one_of(self.delay, self.delay_ms, "delay")
    }
}
