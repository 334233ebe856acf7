//! Senders and secrets of connections.

use goondan_spec::Bundle;
use goondan_spec::Resource;
use goondan_spec::kinds::{Connection, ConnectorEntry, ConnectorManifest};

use super::RequestedCapability;
use crate::adapters::connectors;

/// Returns connections to external people and programs. They send inputs and may answer approval
/// requests.
pub(super) fn connections(bundle: &Bundle) -> Vec<RequestedCapability> {
    bundle
        .connections()
        .values()
        .filter_map(|connection| connection_request(bundle, connection))
        .collect()
}

/// Returns the request of a connection; `None` for the terminal and the clock, and for an unknown
/// connector.
fn connection_request(
    bundle: &Bundle,
    connection: &Resource<Connection>,
) -> Option<RequestedCapability> {
    let connector = bundle.connectors().get(&connection.spec.connector)?;
    let (platform, manifest) = match &connector.spec.entry {
        // The terminal user and the clock are not external.
        ConnectorEntry::Builtin(name) if name == "cli" || name == "cron" => return None,
        ConnectorEntry::Builtin(name) => (
            name.as_str(),
            connectors::manifests()
                .into_iter()
                .find(|manifest| manifest.name == *name),
        ),
        ConnectorEntry::Module(_) | ConnectorEntry::Library(_) => {
            (connector.id.name.as_str(), None)
        }
    };
    let mut predicate = format!(
        "receives inputs from `{platform}` through {}",
        connection.id
    );
    let has_approvers = connection
        .spec
        .allow
        .as_ref()
        .is_some_and(|allow| !allow.approvers.is_empty());
    if has_approvers {
        predicate += ", and lets people there answer approval requests";
    }
    let variables = manifest
        .map(|manifest| default_variables(&manifest, &connection.spec))
        .unwrap_or_default();
    if !variables.is_empty() {
        predicate += &format!(", with the value of {}", variables.join(", "));
    }
    Some(RequestedCapability::new(
        predicate,
        connection.origin.as_ref(),
    ))
}

/// Returns the default variables of the values that the Connection does not set.
fn default_variables(manifest: &ConnectorManifest, connection: &Connection) -> Vec<&'static str> {
    let is_set = |name: &&str| {
        connection.secrets.contains_key(*name) || connection.config.contains_key(*name)
    };
    let unset = manifest
        .secrets
        .iter()
        .chain(&manifest.config)
        .filter(|setting| ![setting.name].iter().chain(setting.also).any(is_set));
    unset.filter_map(|setting| setting.variable).collect()
}
