//! Nodes of a test case, and faults of nodes.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use goondan::spec::DurationText;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::{ConformanceCase, StepAction};

/// Maximum number of nodes of a test case.
pub const MAX_NODES: usize = 5;

/// Maximum duration of a timed partition, in seconds.
const MAX_PARTITION_SECONDS: u32 = 60;

/// Selector of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    /// Node number, from 1. Node 1 is the initial leader.
    Number(usize),
    /// The current leader.
    Leader,
    /// The node that made the last model call of an instance (`agent:key`).
    Of(String),
}

impl<'de> Deserialize<'de> for NodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

/// Accepts a number or a string. An untagged enum would lose the cause of an error.
struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = NodeName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the number of a node, `leader`, or an instance such as `writer:main`, whose \
            turn it runs",
        )
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<NodeName, E> {
        match usize::try_from(number) {
            Ok(number @ 1..=MAX_NODES) => Ok(NodeName::Number(number)),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<NodeName, E> {
        match text {
            "leader" => Ok(NodeName::Leader),
            instance
                if instance
                    .split_once(':')
                    .is_some_and(|(agent, key)| !agent.is_empty() && !key.is_empty()) =>
            {
                Ok(NodeName::Of(instance.to_owned()))
            }
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }
}

impl JsonSchema for NodeName {
    fn schema_name() -> Cow<'static, str> {
        "NodeName".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The number of a node, from 1; `leader`; or an instance such as \
                `writer:main`, whose turn it runs.",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_NODES},
                {"type": "string", "pattern": "^(leader|.+:.+)$"}
            ]
        })
    }
}

/// One node, or all nodes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SomeNode {
    /// With `nodes`: only this node.
    pub node: Option<NodeName>,
}

/// One node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneNode {
    /// The node.
    pub node: NodeName,
}

/// Separates a node from its database.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Partition")]
pub struct NodePartition {
    /// The node.
    pub node: NodeName,
    /// Effect on the node's connections.
    #[serde(default)]
    pub how: PartitionMode,
    /// Duration, at most one minute. Default: until `heal`.
    #[serde(rename = "for")]
    pub lasting: Option<DurationText>,
    /// Older form of `for`, in seconds.
    #[schemars(range(min = 1, max = MAX_PARTITION_SECONDS), extend("deprecated" = true))]
    pub seconds: Option<u32>,
}

impl NodePartition {
    /// Returns the duration; a partition without one ends with `heal`. Fails if it is stated twice
    /// or outside the limits.
    pub fn duration(&self) -> Result<Option<Duration>, String> {
        let seconds = self.seconds.map(|seconds| u64::from(seconds) * 1000);
        let duration = match (self.lasting, seconds) {
            (Some(_), Some(_)) => {
                return Err("`for` and `seconds` are the same field; keep only `for`".to_owned());
            }
            (lasting, seconds) => lasting
                .map(DurationText::duration)
                .or_else(|| seconds.map(Duration::from_millis)),
        };
        let limits = Duration::from_secs(1)..=Duration::from_secs(MAX_PARTITION_SECONDS.into());
        match duration {
            Some(duration) if !limits.contains(&duration) => Err(format!(
                "`partition` lasts from `1s` to `{MAX_PARTITION_SECONDS}s`"
            )),
            duration => Ok(duration),
        }
    }
}

/// Effect of a partition on the connections of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Separation")]
pub enum PartitionMode {
    /// Connections stay open, but no data passes.
    #[default]
    Silent,
    /// Connections are closed, and new ones are refused.
    Cut,
}

/// Returns errors that depend on the number of nodes, with the top-level key that they concern.
pub(super) fn validation_errors(case: &ConformanceCase) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if case
        .nodes
        .is_some_and(|nodes| !(2..=MAX_NODES).contains(&nodes))
    {
        problems.push((
            "nodes",
            format!("`nodes` is a number from 2 to {MAX_NODES}"),
        ));
    }
    if case.nodes.is_some() && case.live.is_some() {
        problems.push(("nodes", "a case with `live` can't have `nodes`".to_owned()));
    }
    if case.nodes.is_some() && case.watch {
        problems.push(("nodes", "a case with `watch` can't have `nodes`".to_owned()));
    }
    for (index, step) in case.steps.iter().enumerate() {
        let problem = problem_of(&step.action, case.nodes);
        problems.extend(problem.map(|problem| ("steps", format!("step {}: {problem}", index + 1))));
    }
    problems
}

/// Returns why a step does not fit the number of nodes; `None` if it does. `nodes` is `None` for a
/// test case without nodes.
fn problem_of(action: &StepAction, nodes: Option<usize>) -> Option<String> {
    let name = action.name();
    let node = match action {
        StepAction::Kill(some)
        | StepAction::Restart(some)
        | StepAction::Resume(some)
        | StepAction::Heal(some) => some.node.as_ref(),
        StepAction::Pause(one) => Some(&one.node),
        StepAction::Partition(partition) => Some(&partition.node),
        _ => None,
    };
    let is_for_nodes = matches!(
        action,
        StepAction::Pause(_)
            | StepAction::Resume(_)
            | StepAction::Partition(_)
            | StepAction::Heal(_)
    );
    match (nodes, node) {
        (None, None) if is_for_nodes => Some(format!("`{name}` needs a case with `nodes`")),
        (None, Some(_)) => Some(format!(
            "`{name}` names a node, which needs a case with `nodes`"
        )),
        (Some(nodes), Some(NodeName::Number(number))) if *number > nodes => Some(format!(
            "there is no node {number}: the case has `nodes: {nodes}`"
        )),
        (Some(_), _)
            if matches!(
                action,
                StepAction::Reload | StepAction::AwaitReload(_) | StepAction::Second
            ) =>
        {
            Some(format!("`{name}` can't be used in a case with `nodes`"))
        }
        _ => None,
    }
}
