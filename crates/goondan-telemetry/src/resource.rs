//! Who sends.

use std::collections::BTreeMap;

use crate::otlp::{Resource, Scope, attribute};

/// What the program knows of itself.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its version.
    pub version: String,
    /// The swarm that runs in it; several, where the past of several is sent.
    pub swarm: Option<String>,
    /// Tells this process from others that run the same.
    pub instance: String,
}

impl Identity {
    /// The resource; what the environment says of it goes first.
    pub(crate) fn resource(&self, given: &BTreeMap<String, String>) -> Resource {
        let mut attributes = BTreeMap::from([
            ("service.name", "gdn"),
            ("service.version", &self.version),
            ("service.instance.id", &self.instance),
            ("telemetry.sdk.name", "goondan-telemetry"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ]);
        attributes.extend(
            self.swarm
                .as_deref()
                .map(|swarm| ("goondan.swarm.name", swarm)),
        );
        attributes.extend(
            given
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        );
        Resource {
            attributes: attributes
                .into_iter()
                .map(|(key, value)| attribute(key, value))
                .collect(),
        }
    }

    /// The part of the program that makes the spans.
    pub(crate) fn scope(&self) -> Scope {
        Scope {
            name: "goondan".to_owned(),
            version: self.version.clone(),
        }
    }
}
