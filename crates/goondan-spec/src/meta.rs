//! Identity of resources: kinds, names, IDs and references.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only supported `apiVersion`.
pub const API_VERSION: &str = "goondan.ai/v1";

/// Package with the built-in tools and extensions. Always available.
pub const BASE_PACKAGE: &str = "@goondan/base";

/// Kind of a resource.
// Rule L4.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Kind {
    /// Language model of a provider.
    Model,
    /// Model with a prompt, tools and permissions.
    Agent,
    /// Agents that run together.
    Swarm,
    /// Functions that a model can call.
    Tool,
    /// Middleware around an agent's turns, steps and tool calls.
    Extension,
    /// Source of external events.
    Connector,
    /// Connector settings, and the routes of its events into a swarm.
    Connection,
    /// Name, version and dependencies of a project.
    Package,
}

impl Kind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Kind; 8] = [
        Kind::Model,
        Kind::Agent,
        Kind::Swarm,
        Kind::Tool,
        Kind::Extension,
        Kind::Connector,
        Kind::Connection,
        Kind::Package,
    ];

    /// Returns the name in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Model => "Model",
            Kind::Agent => "Agent",
            Kind::Swarm => "Swarm",
            Kind::Tool => "Tool",
            Kind::Extension => "Extension",
            Kind::Connector => "Connector",
            Kind::Connection => "Connection",
            Kind::Package => "Package",
        }
    }

    /// Parses a kind by its exact name.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Identity of a resource, unique by kind inside a package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    /// Package name. `None` for a project without a Package document.
    pub package: Option<String>,
    /// Kind.
    pub kind: Kind,
    /// `metadata.name`.
    pub name: String,
}

impl ResourceId {
    /// Creates the ID of a built-in resource.
    pub fn base(kind: Kind, name: impl Into<String>) -> Self {
        ResourceId {
            package: Some(BASE_PACKAGE.to_owned()),
            kind,
            name: name.into(),
        }
    }

    /// Returns true if the resource belongs to the built-in package.
    pub fn is_base(&self) -> bool {
        self.package.as_deref() == Some(BASE_PACKAGE)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Reference as written in YAML, before it is resolved (rule L7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// Explicit package, if any.
    pub package: Option<String>,
    /// Kind of the resource.
    pub kind: Kind,
    /// Name of the resource.
    pub name: String,
}
