//! The format of a case: what a `*.case.yaml` document may hold.
//!
//! Everything here is data that was found to be right; [`read`](read::read) makes it from text and is the only way to.

pub mod expect;
pub mod file;
pub mod read;
mod reply;
pub mod step;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use expect::Expect;
pub use file::{FileContent, ProjectPath};
pub use step::{Action, Step};

pub use goondan::models::scripted::Reply;

/// A case as it is written.
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
    /// Files of the project, by path. Laid over `project` where both are given.
    #[serde(default)]
    pub files: BTreeMap<ProjectPath, FileContent>,
    /// A project folder, relative to the case's file. It is copied.
    #[serde(default)]
    pub project: Option<PathBuf>,
    /// The whole environment that value sources see.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Scripted replies by agent, in the order of that agent's model calls. They stand in for every Model.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<reply::ReplyShape>>")]
    pub models: BTreeMap<String, Vec<Reply>>,
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

fn place(file: &std::path::Path, line: usize, column: usize) -> String {
    let mut text = file.display().to_string();
    for number in [line, column].into_iter().take_while(|number| *number > 0) {
        text.push_str(&format!(":{number}"));
    }
    text
}
