//! Several nodes in a case, and what happens to them.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Action, Case};

/// So many nodes a case can have at most.
pub const MOST_NODES: usize = 5;

/// So long a partition can last that ends by itself.
const MOST_SECONDS: u32 = 60;

/// Which node is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    /// The one of that number, from 1. The first leads to begin with.
    Number(usize),
    /// The one that leads.
    Leader,
    /// The one on which the model of an instance (`agent:key`) was asked last.
    Of(String),
}

impl<'de> Deserialize<'de> for NodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

/// A number or a text. Not an untagged enum: that would lose what is wrong.
struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = NodeName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a node, `leader`, or an instance such as `writer:main`, whose turn it runs")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<NodeName, E> {
        match usize::try_from(number) {
            Ok(number @ 1..=MOST_NODES) => Ok(NodeName::Number(number)),
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
            "description": "The number of a node, from 1; `leader`; or an instance such as `writer:main`, whose turn it runs.",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST_NODES},
                {"type": "string", "pattern": "^(leader|.+:.+)$"}
            ]
        })
    }
}

/// A node, or all.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SomeNode {
    /// With `nodes`: this node alone.
    pub node: Option<NodeName>,
}

/// A node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneNode {
    /// The node.
    pub node: NodeName,
}

/// Keeps a node from its database.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// The node.
    pub node: NodeName,
    /// What becomes of its connections.
    #[serde(default)]
    pub how: Separation,
    /// It ends by itself after that many seconds; otherwise with `heal`.
    #[schemars(range(min = 1, max = MOST_SECONDS))]
    pub seconds: Option<u32>,
}

impl Partition {
    fn is_brief(&self) -> bool {
        self.seconds
            .is_none_or(|seconds| (1..=MOST_SECONDS).contains(&seconds))
    }
}

/// What becomes of the connections of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Separation {
    /// They stay open, and nothing comes through.
    #[default]
    Silent,
    /// They are closed, and new ones too.
    Cut,
}

/// What makes no sense with the number of nodes that a case has, by the top-level key that is concerned.
pub(super) fn problems(case: &Case) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if case
        .nodes
        .is_some_and(|nodes| !(2..=MOST_NODES).contains(&nodes))
    {
        problems.push((
            "nodes",
            format!("`nodes` is a number from 2 to {MOST_NODES}"),
        ));
    }
    if case.nodes.is_some() && case.live.is_some() {
        problems.push(("nodes", "a case with `live` has no `nodes`".to_owned()));
    }
    if case.nodes.is_some() && case.watch {
        problems.push(("nodes", "a case with `watch` has no `nodes`".to_owned()));
    }
    for (index, step) in case.steps.iter().enumerate() {
        let problem = problem_of(&step.action, case.nodes);
        problems.extend(problem.map(|problem| ("steps", format!("step {}: {problem}", index + 1))));
    }
    problems
}

fn problem_of(action: &Action, nodes: Option<usize>) -> Option<String> {
    let name = action.name();
    let node = match action {
        Action::Kill(some) | Action::Restart(some) | Action::Resume(some) | Action::Heal(some) => {
            some.node.as_ref()
        }
        Action::Pause(one) => Some(&one.node),
        Action::Partition(partition) => Some(&partition.node),
        _ => None,
    };
    let is_for_nodes = matches!(
        action,
        Action::Pause(_) | Action::Resume(_) | Action::Partition(_) | Action::Heal(_)
    );
    match (nodes, node) {
        (None, None) if is_for_nodes => Some(format!("`{name}` is for a case with `nodes`")),
        (None, Some(_)) => Some(format!(
            "`{name}` names a node, which is for a case with `nodes`"
        )),
        (Some(nodes), Some(NodeName::Number(number))) if *number > nodes => Some(format!(
            "there is no node {number}: the case has `nodes: {nodes}`"
        )),
        (Some(_), _) if matches!(action, Action::Partition(partition) if !partition.is_brief()) => {
            Some(format!("`seconds` is a number from 1 to {MOST_SECONDS}"))
        }
        (Some(_), _)
            if matches!(
                action,
                Action::Reload | Action::AwaitReload(_) | Action::Second
            ) =>
        {
            Some(format!("`{name}` makes no sense in a case with `nodes`"))
        }
        _ => None,
    }
}
