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
        .filter_map(|connection| want(bundle, connection))
        .collect()
}

fn want(bundle: &Bundle, connection: &Resource<Connection>) -> Option<RequestedCapability> {
    let connector = bundle.connectors().get(&connection.spec.connector)?;
    let (platform, manifest) = match &connector.spec.entry {
        // The terminal user and the clock are not external.
        ConnectorEntry::Builtin(name) if name == "cli" || name == "cron" => return None,
        ConnectorEntry::Builtin(name) => (
            name.as_str(),
            connectors::manifests()
                .into_iter()
                .find(|one| one.name == *name),
        ),
        ConnectorEntry::Module(_) | ConnectorEntry::Library(_) => {
            (connector.id.name.as_str(), None)
        }
    };
    let mut what = format!(
        "receives inputs from `{platform}` through {}",
        connection.id
    );
    let approves = connection
        .spec
        .allow
        .as_ref()
        .is_some_and(|allow| !allow.approvers.is_empty());
    if approves {
        what += ", and lets people there answer approval requests";
    }
    let variables = manifest
        .map(|manifest| customary(&manifest, &connection.spec))
        .unwrap_or_default();
    if !variables.is_empty() {
        what += &format!(", with the value of {}", variables.join(", "));
    }
    Some(RequestedCapability::new(what, connection.origin.as_ref()))
}

/// Returns the default variables of the values that the Connection does not set.
fn customary(manifest: &ConnectorManifest, connection: &Connection) -> Vec<&'static str> {
    let is_stated = |name: &&str| {
        connection.secrets.contains_key(*name) || connection.config.contains_key(*name)
    };
    let unstated = manifest
        .secrets
        .iter()
        .chain(&manifest.config)
        .filter(|setting| ![setting.name].iter().chain(setting.also).any(is_stated));
    unstated.filter_map(|setting| setting.variable).collect()
}
