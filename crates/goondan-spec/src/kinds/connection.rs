//! `kind: Connection`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Scope;
use super::ingress::{self, IngressRule, IngressShape};
use crate::decode::{Field, Fields};
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::RefShape;
use crate::value_source::{self, ValueSourceShape};
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

pub(crate) fn decode(spec: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Connection> {
    let mut fields = spec.fields(findings)?;
    let connector =
        fields.required("connectorRef", findings).and_then(|field| scope.resolve(&field, Kind::Connector, findings));
    let swarm_field = fields.optional("swarmRef");
    let named = swarm_field.as_ref().map(|field| scope.resolve(field, Kind::Swarm, findings));
    let swarm = named.map_or(Some(None), |swarm| swarm.map(Some));
    let config = values(&mut fields, "config", findings);
    let secrets = values(&mut fields, "secrets", findings);
    let ingress = fields.optional("ingress").map(|field| {
        let targets = ingress::Targets::of(connector.as_ref(), swarm.clone().flatten().as_ref(), scope);
        ingress::read(&field, scope, &targets, findings)
    });
    fields.finish(findings);
    Some(Connection {
        connector: connector?,
        swarm: swarm?,
        config: config?,
        secrets: secrets?,
        ingress: ingress.unwrap_or_else(|| Some(Vec::new()))?,
    })
}

fn values(
    fields: &mut Fields<'_>,
    name: &'static str,
    findings: &mut Findings,
) -> Option<BTreeMap<String, ValueSource>> {
    let mut map = BTreeMap::new();
    let Some(field) = fields.optional(name) else { return Some(map) };
    for entry in field.entries(findings)? {
        if let Some(source) = value_source::read(&entry, findings) {
            map.insert(entry.key.to_owned(), source);
        }
    }
    Some(map)
}

/// A connector's settings, and the routes of its events into a swarm.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Connection")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ConnectionSpec {
    /// The Connector.
    connector_ref: RefShape,
    /// The Swarm that gets the events. Without it, the first Swarm of the project.
    swarm_ref: Option<RefShape>,
    /// Settings for the connector, by name.
    config: Option<BTreeMap<String, ValueSourceShape>>,
    /// Secrets for the connector, by name.
    secrets: Option<BTreeMap<String, ValueSourceShape>>,
    /// Which event goes to which agent. Without it, every event goes to the entry agent.
    ingress: Option<IngressShape>,
}
