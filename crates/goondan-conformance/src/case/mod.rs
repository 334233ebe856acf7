//! Format of a test case: the content of a `*.case.yaml` document.
//!
//! All values of these types are valid. [`read`](read::read) parses them, and nothing else creates
//! them.

pub mod conversation;
pub mod expect;
pub mod file;
mod live;
mod mcp;
mod nodes;
pub mod read;
mod reply;
pub mod step;
mod tool;
pub mod trajectory;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Map;

pub use expect::CaseExpectation;
pub use file::{CaseFilePath, FileContent};
pub use live::{LiveCaseOptions, MAX_RUNS};
pub use mcp::{McpFixture, McpRefusal, McpReply, McpStart, McpToolFixture};
pub use nodes::{MAX_NODES, NodeName, PartitionMode};
pub use step::{CaseStep, StepAction};
pub use tool::{MockedError, MockedResult};
pub use web::WebPageFixture;

pub use goondan::models::scripted::ScriptReply;

/// A test case for `gdn test`: files, scripted models, steps and expectations.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConformanceCase {
    /// Name in kebab-case, unique among the test cases of a run.
    pub case: String,
    /// Purpose of the test case, as a sentence.
    #[serde(default)]
    pub about: String,
    /// Ids of the rules that it checks, such as `T4`.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Programs that must be on the `PATH`, such as `node`. If one is missing, the test case is
    /// skipped.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Project files, by path. They replace files of `project`.
    #[serde(default)]
    pub files: BTreeMap<CaseFilePath, FileContent>,
    /// Project directory to copy, relative to the file of the test case.
    #[serde(default)]
    pub project: Option<PathBuf>,
    /// Complete environment that value sources can read.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Time at the start of the test case. The clock continues from there. Default: the current
    /// time.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub clock: Option<DateTime<Utc>>,
    /// Scripted replies by agent, in the order of the agent's model calls, or by instance
    /// (`agent:key`) for separate replies. They replace every Model. Without them, a Model with the
    /// provider `scripted` or `replay` plays its own script.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<reply::ReplyShape>>")]
    pub models: BTreeMap<String, Vec<ScriptReply>>,
    /// Pages of a local web server, by path. `${web.url}` in a step is the server's URL.
    #[serde(default)]
    pub web: BTreeMap<String, WebPageFixture>,
    /// Mocked MCP servers, by the Tool whose server they replace.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpFixture>,
    /// Mocked tool results, by the tool name that models use. A call gets the first unused result
    /// that matches, or else the last one that matches.
    #[serde(default)]
    pub tools: BTreeMap<String, Vec<MockedResult>>,
    /// Lets `gdn test --live` run the test case with the real models of its project.
    #[serde(default)]
    pub live: Option<LiveCaseOptions>,
    /// Number of nodes that run the test case with the database of `--store`. Without a database,
    /// the test case is skipped. The first node is the initial leader; the other nodes run the
    /// turns.
    #[serde(default)]
    #[schemars(range(min = 2, max = MAX_NODES))]
    pub nodes: Option<usize>,
    /// Reload automatically when a project file changes (`gdn run --watch`).
    #[serde(default)]
    pub watch: bool,
    /// Steps, in order.
    #[serde(default)]
    pub steps: Vec<CaseStep>,
    /// Expectations that are checked after the last step.
    #[serde(default)]
    pub expect: CaseExpectation,
}

/// Writes a path as text, with replacement characters if it is not UTF-8.
pub(crate) fn shown_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// An error in the file of a test case, independent of the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}: {message}", format_location(file, *line, *column))]
#[serde(rename_all = "camelCase")]
pub struct CaseError {
    /// Path of the test case file.
    #[serde(serialize_with = "shown_path")]
    pub file: PathBuf,
    /// Line, from 1; 0 for an error about the whole file.
    pub line: usize,
    /// Column in characters, from 1; 0 for an error about the whole line.
    pub column: usize,
    /// Message, a complete sentence.
    pub message: String,
}

/// Returns the JSON Schema of a test case, for editors.
pub fn schema() -> serde_json::Value {
    let id = "https://goondan.ai/schemas/conformance-case.schema.json";
    let head = [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("$id", id),
        ("title", "Conformance case"),
    ];
    let mut schema: Map<String, serde_json::Value> = head
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let derived = schemars::schema_for!(ConformanceCase).to_value();
    for (key, value) in derived.as_object().into_iter().flatten() {
        schema.entry(key).or_insert_with(|| value.clone());
    }
    schema.into()
}

/// Returns `FILE`, `FILE:LINE` or `FILE:LINE:COLUMN`; numbers that are 0 are left out.
fn format_location(file: &std::path::Path, line: usize, column: usize) -> String {
    let mut text = file.display().to_string();
    for number in [line, column].into_iter().take_while(|number| *number > 0) {
        text.push_str(&format!(":{number}"));
    }
    text
}
