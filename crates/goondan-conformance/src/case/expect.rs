//! What must be so in the end.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::fmt;

use super::trajectory::Trajectory;
use crate::matcher::Matcher;

/// What must be so in the end. What is absent is not looked at, `diagnostics` excepted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expect {
    /// The exact list of diagnostics of loading and starting, in any order. Absent: no errors.
    pub diagnostics: Option<Matcher>,
    /// By agent: the exact set of tool names that its model is offered at the first step.
    #[serde(default)]
    pub catalog: BTreeMap<String, Matcher>,
    /// By agent: what its model was sent, in order.
    #[serde(default)]
    pub requests: BTreeMap<String, Matcher>,
    /// By instance (`agent:key`): the messages of its conversation.
    #[serde(default)]
    pub conversation: BTreeMap<String, Matcher>,
    /// All tool results of all conversations, in the order in which they were appended.
    pub tool_results: Option<Matcher>,
    /// Runtime events that happened in this order, others in between.
    pub events: Option<Vec<Matcher>>,
    /// What the models called and whom they asked on the way to their answers.
    #[serde(default)]
    pub trajectory: Vec<Trajectory>,
    /// With `--live`: criteria that all answers of a run must meet. A model of the project judges them.
    #[serde(default)]
    pub judge: Vec<String>,
    /// By Tool: what the server that the case plays for it was told, in order: `{call, arguments}` and `{cancelled: true}`.
    #[serde(default)]
    pub mcp: BTreeMap<String, Matcher>,
    /// Files, by place.
    #[serde(default)]
    pub files: BTreeMap<FilePlace, Matcher>,
}

/// Where a file lies: `project:PATH`, `workdir:AGENT:KEY/PATH` or `state:PATH`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "FilePlaceText")]
pub enum FilePlace {
    /// In the project folder.
    Project {
        /// Below it.
        path: String,
    },
    /// Where the tools of an instance work.
    Workdir {
        /// The agent.
        agent: String,
        /// The instance's key.
        instance_key: String,
        /// Below it.
        path: String,
    },
    /// In the workspace's folder, else in the state root.
    State {
        /// Below it; `*` stands for anything in a file name.
        path: String,
    },
}

/// For the schema: what a place looks like as text.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "the schema is derived from it; it is never made")]
struct FilePlaceText(
    #[schemars(regex(pattern = "^(project:.+|workdir:[^:/]+:[^/]+/.+|state:.+)$"))] String,
);

impl FilePlace {
    /// Reads a place.
    pub fn parse(text: &str) -> Result<FilePlace, String> {
        let place = text.split_once(':').and_then(|(root, rest)| match root {
            "project" => Some(FilePlace::Project { path: inner(rest)? }),
            "state" => Some(FilePlace::State { path: inner(rest)? }),
            "workdir" => {
                let (instance, path) = rest.split_once('/')?;
                let (agent, key) = instance
                    .split_once(':')
                    .filter(|(agent, key)| !agent.is_empty() && !key.is_empty())?;
                Some(FilePlace::Workdir {
                    agent: agent.to_owned(),
                    instance_key: key.to_owned(),
                    path: inner(path)?,
                })
            }
            _ => None,
        });
        place.ok_or_else(|| {
            format!("`{text}` is not a place of a file: `project:PATH`, `workdir:AGENT:KEY/PATH` or `state:PATH`")
        })
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePlace::Project { path } => write!(f, "project:{path}"),
            FilePlace::Workdir {
                agent,
                instance_key,
                path,
            } => write!(f, "workdir:{agent}:{instance_key}/{path}"),
            FilePlace::State { path } => write!(f, "state:{path}"),
        }
    }
}

/// A path that does not leave its root.
fn inner(path: &str) -> Option<String> {
    super::ProjectPath::new(path)
        .ok()
        .map(|path| path.as_str().to_owned())
}

impl<'de> Deserialize<'de> for FilePlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FilePlace::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let workdir = FilePlace::Workdir {
            agent: "assistant".into(),
            instance_key: "telegram:12".into(),
            path: "a/out.txt".into(),
        };
        assert_eq!(
            FilePlace::parse("workdir:assistant:telegram:12/a/out.txt"),
            Ok(workdir)
        );
        assert_eq!(
            FilePlace::parse("project:a.txt"),
            Ok(FilePlace::Project {
                path: "a.txt".into()
            })
        );
        assert_eq!(
            FilePlace::parse("state:instances/*"),
            Ok(FilePlace::State {
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
            assert!(FilePlace::parse(wrong).is_err(), "{wrong}");
        }
    }
}
