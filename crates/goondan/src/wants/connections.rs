//! Whom connections let in, and with which keys.

use goondan_spec::Bundle;
use goondan_spec::Resource;
use goondan_spec::kinds::{Connection, ConnectorEntry, ConnectorManifest};

use super::Want;
use crate::connectors;

/// Connections to people and programs that are not there already: they send inputs, and may answer the questions of policies.
pub(super) fn connections(bundle: &Bundle) -> Vec<Want> {
    bundle
        .connections()
        .values()
        .filter_map(|connection| want(bundle, connection))
        .collect()
}

fn want(bundle: &Bundle, connection: &Resource<Connection>) -> Option<Want> {
    let connector = bundle.connectors().get(&connection.spec.connector)?;
    let (platform, manifest) = match &connector.spec.entry {
        // Whoever is at the terminal, and the clock.
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
    let mut what = format!("takes inputs from `{platform}` by {}", connection.id);
    let approves = connection
        .spec
        .allow
        .as_ref()
        .is_some_and(|allow| !allow.approvers.is_empty());
    if approves {
        what += ", and lets people there answer approval questions";
    }
    let variables = manifest
        .map(|manifest| customary(&manifest, &connection.spec))
        .unwrap_or_default();
    if !variables.is_empty() {
        what += &format!(", with the value of {}", variables.join(", "));
    }
    Some(Want::new(what, connection.origin.as_ref()))
}

/// The variables that hold what the Connection does not state.
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
