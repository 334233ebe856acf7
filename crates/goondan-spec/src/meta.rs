//! Who a resource is: kinds, names, ids and references.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only `apiVersion` that this program reads.
pub const API_VERSION: &str = "goondan.ai/v1";

/// The package that is always there and holds the built-in tools and extensions.
pub const BASE_PACKAGE: &str = "@goondan/base";

/// A kind of resource.
// Rule L4.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Kind {
    /// A language model of a provider.
    Model,
    /// A model with a prompt, tools and permissions.
    Agent,
    /// Agents that run together.
    Swarm,
    /// Functions that a model may call.
    Tool,
    /// Middleware around an agent's turns, steps and tool calls.
    Extension,
    /// A source of events from outside.
    Connector,
    /// A connector's settings, and the routes of its events into a swarm.
    Connection,
    /// The name, version and dependencies of a project.
    Package,
}

impl Kind {
    /// Every kind, in the order of the documentation.
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

    /// The word that stands in YAML.
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

    /// The kind that `word` names, exactly as written.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The identity of a resource: unique by kind inside a package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    /// The package that holds it; `None` for a project without a Package document.
    pub package: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// Its `metadata.name`.
    pub name: String,
}

impl ResourceId {
    /// A resource of the built-in package.
    pub fn base(kind: Kind, name: impl Into<String>) -> Self {
        ResourceId {
            package: Some(BASE_PACKAGE.to_owned()),
            kind,
            name: name.into(),
        }
    }

    /// Whether the resource belongs to the built-in package.
    pub fn is_base(&self) -> bool {
        self.package.as_deref() == Some(BASE_PACKAGE)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// A reference as it stands in YAML, before it is resolved (rule L7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// The package it insists on, if any.
    pub package: Option<String>,
    /// The kind it names.
    pub kind: Kind,
    /// The name it names.
    pub name: String,
}
