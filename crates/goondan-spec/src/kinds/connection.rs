//! `kind: Connection`.

use std::collections::BTreeMap;

use crate::{ResourceId, ValueSource};

/// A configured connector, with routes into a swarm.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// The connector it configures.
    pub connector: ResourceId,
    /// The swarm it feeds; the bundle's first by default.
    pub swarm: Option<ResourceId>,
    /// Settings.
    pub config: BTreeMap<String, ValueSource>,
    /// Secrets.
    pub secrets: BTreeMap<String, ValueSource>,
    /// The first rule that matches routes an event; none means the entry agent.
    pub ingress: Vec<IngressRule>,
}

/// A route for some events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressRule {
    /// Only events of this name.
    pub event: Option<String>,
    /// Only events with these properties.
    pub properties: BTreeMap<String, String>,
    /// The agent that gets them; the entry agent by default.
    pub agent: Option<ResourceId>,
    /// Under which key.
    pub instance_key: InstanceKeyRoute,
}

/// How a route finds the instance key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceKeyRoute {
    /// The event's own key.
    FromEvent,
    /// Always this one.
    Fixed(String),
    /// The value of a property, behind a prefix.
    Property {
        /// The property's name.
        name: String,
        /// May be empty.
        prefix: String,
    },
}
