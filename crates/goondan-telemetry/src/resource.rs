//! Identity of the exporting process.

use std::collections::BTreeMap;

use crate::otlp::{InstrumentationScope, OtlpResource, attribute};

/// Identity of the exporting process.
#[derive(Debug, Clone)]
pub struct ProcessIdentity {
    /// Version of gdn.
    pub version: String,
    /// Name of the swarm; several names in a backfill of several swarms.
    pub swarm: Option<String>,
    /// Unique id of this process.
    pub instance: String,
}

impl ProcessIdentity {
    /// Returns the OTLP resource. Attributes from the environment take precedence.
    pub(crate) fn resource(&self, given: &BTreeMap<String, String>) -> OtlpResource {
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
        OtlpResource {
            attributes: attributes
                .into_iter()
                .map(|(key, value)| attribute(key, value))
                .collect(),
        }
    }

    /// Returns the OTLP instrumentation scope.
    pub(crate) fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: "goondan".to_owned(),
            version: self.version.clone(),
        }
    }
}
