//! The format of a case: what a `*.case.yaml` document may hold.
//!
//! Everything here is data that was found to be right; [`read`](read::read) makes it from text and is the only way to.

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
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

pub use expect::Expect;
pub use file::{FileContent, ProjectPath};
pub use live::{Live, MOST_RUNS};
pub use mcp::{McpFixture, McpRefusal, McpReply, McpStart, McpToolFixture};
pub use nodes::{MOST_NODES, NodeName, Separation};
pub use step::{Action, Step};
pub use tool::{PlayedError, PlayedResult};
pub use web::Page;

pub use goondan::models::scripted::Reply;

/// What `gdn test` runs: files, scripted models, steps, and what must come of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Case {
    /// Its name: kebab-case, unique among the cases of a run.
    pub case: String,
    /// What it shows, in a sentence.
    #[serde(default)]
    pub about: String,
    /// The ids of the rules that it checks, such as `T4`.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Programs that must be on the `PATH`, such as `node`. Where one is not, the case is skipped and says so.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Files of the project, by path. Laid over `project` where both are given.
    #[serde(default)]
    pub files: BTreeMap<ProjectPath, FileContent>,
    /// A project folder, relative to the case's file. It is copied.
    #[serde(default)]
    pub project: Option<PathBuf>,
    /// The whole environment that value sources see.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What time it is when the case begins; the time of day if not given. The clock runs on from there.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub clock: Option<DateTime<Utc>>,
    /// Scripted replies by agent, in the order of that agent's model calls, or by instance (`agent:key`) where each has its own.
    /// They stand in for every Model. Without them a Model whose provider is `scripted` or `replay` plays its own script.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<reply::ReplyShape>>")]
    pub models: BTreeMap<String, Vec<Reply>>,
    /// Pages, by path, that a server on this machine gives. `${web.url}` in a step stands for its address.
    #[serde(default)]
    pub web: BTreeMap<String, Page>,
    /// MCP servers, by the Tool whose server they stand in for.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpFixture>,
    /// Results of tools, by the name that models see, which are played instead of being made. Each call takes the first result
    /// that fits it and was not used yet, or else the last one that fits.
    #[serde(default)]
    pub tools: BTreeMap<String, Vec<PlayedResult>>,
    /// Lets the case be run with the real models of its project, by `gdn test --live`.
    #[serde(default)]
    pub live: Option<Live>,
    /// So many nodes run the case, which share the database of `--store`; without one, the case is skipped. The first leads to begin
    /// with, and the others run the turns.
    #[serde(default)]
    #[schemars(range(min = 2, max = MOST_NODES))]
    pub nodes: Option<usize>,
    /// Whether the swarm reloads by itself when a file of the project changes (`gdn run --watch`).
    #[serde(default)]
    pub watch: bool,
    /// What is done, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What must be so in the end.
    #[serde(default)]
    pub expect: Expect,
}

/// A mistake in a case: it says nothing about the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}: {message}", place(file, *line, *column))]
#[serde(rename_all = "camelCase")]
pub struct CaseError {
    /// The file.
    pub file: PathBuf,
    /// Counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// In characters, counted from 1; 0 where the line as a whole is meant.
    pub column: usize,
    /// A sentence that stands alone.
    pub message: String,
}

/// The JSON Schema of a case, for editors.
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
    let derived = schemars::schema_for!(Case).to_value();
    for (key, value) in derived.as_object().into_iter().flatten() {
        schema.entry(key).or_insert_with(|| value.clone());
    }
    schema.into()
}

fn place(file: &std::path::Path, line: usize, column: usize) -> String {
    let mut text = file.display().to_string();
    for number in [line, column].into_iter().take_while(|number| *number > 0) {
        text.push_str(&format!(":{number}"));
    }
    text
}
