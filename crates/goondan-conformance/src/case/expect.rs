//! Expectations for the end of a test case.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::fmt;

use super::trajectory::TrajectoryExpectation;
use crate::matcher::ValueMatcher;

/// Expectations for the end of a test case. Absent fields are not checked, except `diagnostics`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "Expect")]
pub struct CaseExpectation {
    /// Exact list of diagnostics from loading and starting, in any order. Default: no errors.
    pub diagnostics: Option<ValueMatcher>,
    /// Exact set of tool names offered to the model at the first step, by agent.
    #[serde(default)]
    pub catalog: BTreeMap<String, ValueMatcher>,
    /// Requests sent to the model in order, by agent.
    #[serde(default)]
    pub requests: BTreeMap<String, ValueMatcher>,
    /// Messages of a conversation, by instance (`agent:key`).
    #[serde(default)]
    pub conversation: BTreeMap<String, ValueMatcher>,
    /// All tool results of all conversations, in the order in which they were appended.
    pub tool_results: Option<ValueMatcher>,
    /// Runtime events in this order. Other events may occur in between.
    pub events: Option<Vec<ValueMatcher>>,
    /// Tool calls and requests between agents that lead to the answers.
    #[serde(default)]
    pub trajectory: Vec<TrajectoryExpectation>,
    /// With `--live`: criteria that all answers of a run must meet. A Model of the project judges
    /// them.
    #[serde(default)]
    pub judge: Vec<String>,
    /// Messages that a mocked MCP server received in order, by Tool: `{call, arguments}` and
    /// `{cancelled: true}`.
    #[serde(default)]
    pub mcp: BTreeMap<String, ValueMatcher>,
    /// Files, by path.
    #[serde(default)]
    pub files: BTreeMap<RootedPath, ValueMatcher>,
}

/// File path with its root: `project:PATH`, `workdir:AGENT:KEY/PATH` or `state:PATH`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "RootedPathSchema")]
pub enum RootedPath {
    /// File in the project directory.
    Project {
        /// Path relative to the directory.
        path: String,
    },
    /// File in the working directory of an instance's tools.
    Workdir {
        /// Agent name.
        agent: String,
        /// Instance key.
        instance_key: String,
        /// Path relative to the directory.
        path: String,
    },
    /// File in the workspace directory, or else in the state root.
    State {
        /// Path relative to the directory. `*` matches any part of a file name.
        path: String,
    },
}

/// String form of a file path, for the schema.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only used to derive the schema")]
struct RootedPathSchema(
    #[schemars(regex(pattern = "^(project:.+|workdir:[^:/]+:[^/]+/.+|state:.+)$"))] String,
);

impl RootedPath {
    /// Parses a file path with its root.
    pub fn parse(text: &str) -> Result<RootedPath, String> {
        let rooted = text.split_once(':').and_then(|(root, rest)| match root {
            "project" => Some(RootedPath::Project {
                path: contained_path(rest)?,
            }),
            "state" => Some(RootedPath::State {
                path: contained_path(rest)?,
            }),
            "workdir" => {
                let (instance, path) = rest.split_once('/')?;
                let (agent, key) = instance
                    .split_once(':')
                    .filter(|(agent, key)| !agent.is_empty() && !key.is_empty())?;
                Some(RootedPath::Workdir {
                    agent: agent.to_owned(),
                    instance_key: key.to_owned(),
                    path: contained_path(path)?,
                })
            }
            _ => None,
        });
        rooted.ok_or_else(|| {
            format!(
                "`{text}` is not a file path with a root: `project:PATH`, \
                    `workdir:AGENT:KEY/PATH` or `state:PATH`"
            )
        })
    }
}

impl fmt::Display for RootedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootedPath::Project { path } => write!(f, "project:{path}"),
            RootedPath::Workdir {
                agent,
                instance_key,
                path,
            } => write!(f, "workdir:{agent}:{instance_key}/{path}"),
            RootedPath::State { path } => write!(f, "state:{path}"),
        }
    }
}

/// Returns the path if it stays inside its root.
fn contained_path(path: &str) -> Option<String> {
    super::CaseFilePath::new(path)
        .ok()
        .map(|path| path.as_str().to_owned())
}

impl<'de> Deserialize<'de> for RootedPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RootedPath::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooted_paths_are_parsed() {
        let workdir = RootedPath::Workdir {
            agent: "assistant".into(),
            instance_key: "telegram:12".into(),
            path: "a/out.txt".into(),
        };
        assert_eq!(
            RootedPath::parse("workdir:assistant:telegram:12/a/out.txt"),
            Ok(workdir)
        );
        assert_eq!(
            RootedPath::parse("project:a.txt"),
            Ok(RootedPath::Project {
                path: "a.txt".into()
            })
        );
        assert_eq!(
            RootedPath::parse("state:instances/*"),
            Ok(RootedPath::State {
                path: "instances/*".into()
            })
        );
        for wrong in [
            "a.txt",
            "home:a",
            "project:",
            "project:../a",
            "workdir:assistant",
            "workdir:a/b",
            "state:/etc",
        ] {
            assert!(RootedPath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
