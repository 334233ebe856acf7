//! Routes of a Connection: the agent and conversation key of each event.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use super::DecodeScope;
use crate::ResourceId;
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic_sink::DiagnosticSink;
use crate::meta::Kind;
use crate::references::RefShape;
use crate::text::{closest, format_alternatives};

/// Route for matching events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressRule {
    /// Event name to match. `None` matches all events.
    pub event: Option<String>,
    /// Property values to match. All must be equal.
    pub properties: BTreeMap<String, String>,
    /// Target agent. `None` for the entry agent.
    pub agent: Option<ResourceId>,
    /// Source of the conversation key.
    pub instance_key: InstanceKeyRoute,
}

/// Source of a route's conversation key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceKeyRoute {
    /// Key of the event.
    FromEvent,
    /// Fixed key.
    Fixed(String),
    /// Prefix and property value.
    Property {
        /// Property name.
        name: String,
        /// Prefix, possibly empty.
        prefix: String,
    },
}

/// Agents and events that the routes of one connection may name. `None` if unknown.
pub(crate) struct RouteTargets {
    agents: Option<Vec<ResourceId>>,
    events: Option<Vec<String>>,
}

impl RouteTargets {
    /// Returns the targets for a connection to `swarm`, or to the first swarm of the bundle.
    pub(crate) fn for_connection(
        connector: Option<&ResourceId>,
        swarm: Option<&ResourceId>,
        scope: &DecodeScope<'_>,
    ) -> Self {
        let swarm = match swarm {
            Some(id) => scope.decoded_resources().swarms.get(id),
            None => scope
                .decoded_resources()
                .swarms
                .first()
                .map(|(_, swarm)| swarm),
        };
        let connector = connector.and_then(|id| scope.decoded_resources().connectors.get(id));
        RouteTargets {
            agents: swarm.map(|swarm| swarm.spec.agents.clone()),
            events: connector.map(|found| {
                found
                    .spec
                    .events
                    .iter()
                    .map(|event| event.name.clone())
                    .collect()
            }),
        }
    }
}

/// Reads `ingress`: the rules that select the agent and conversation of an event.
pub(crate) fn read(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    targets: &RouteTargets,
    findings: &mut DiagnosticSink,
) -> Option<Vec<IngressRule>> {
    let mut fields = field.fields(findings)?;
    let rules = fields
        .optional("rules")
        .map_or(Some(Vec::new()), |rules| rules.list(findings));
    fields.finish(findings);
    Some(
        rules?
            .iter()
            .filter_map(|rule| read_rule(rule, scope, targets, findings))
            .collect(),
    )
}

/// Reads a rule with its condition and its route.
fn read_rule(
    item: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    targets: &RouteTargets,
    findings: &mut DiagnosticSink,
) -> Option<IngressRule> {
    let mut fields = item.fields(findings)?;
    let matched = fields
        .optional("match")
        .map(|field| read_match(&field, targets, findings));
    let route = fields
        .required("route", findings)
        .and_then(|field| read_route(&field, scope, targets, findings));
    fields.finish(findings);
    let (event, properties) = matched.unwrap_or_else(|| Some((None, BTreeMap::new())))?;
    let (agent, instance_key) = route?;
    Some(IngressRule {
        event,
        properties,
        agent,
        instance_key,
    })
}

type EventMatch = (Option<String>, BTreeMap<String, String>);

/// Reads the condition of a rule.
fn read_match(
    field: &FieldReader<'_>,
    targets: &RouteTargets,
    findings: &mut DiagnosticSink,
) -> Option<EventMatch> {
    let mut fields = field.fields(findings)?;
    let event = fields
        .optional("event")
        .and_then(|event| read_event(&event, targets, findings));
    let properties = fields
        .optional("properties")
        .and_then(|properties| read_properties(&properties, findings));
    fields.finish(findings);
    Some((event, properties.unwrap_or_default()))
}

/// Reads an event name; reports a name that the connector does not declare.
fn read_event(
    field: &FieldReader<'_>,
    targets: &RouteTargets,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let event = field.text(findings)?;
    if let Some(declared) = targets
        .events
        .as_ref()
        .filter(|declared| !declared.iter().any(|name| name == event))
    {
        let diagnostic = field.invalid_value(format!("The connector has no event `{event}`."));
        findings.add(match closest(event, declared) {
            Some(near) => field.did_you_mean(diagnostic, near),
            None => diagnostic.suggest(format!("use {}", format_alternatives(declared))),
        });
    }
    Some(event.to_owned())
}

/// Reads the property values that an event must have.
fn read_properties(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<BTreeMap<String, String>> {
    let mut properties = BTreeMap::new();
    for entry in field.entries(findings)? {
        let text = match entry.node.to_json() {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => {
                let message = format!(
                    "`{}` must be a string, a number or a boolean, but is {}.",
                    entry.path,
                    entry.node.type_phrase()
                );
                findings.add(entry.invalid_value(message));
                continue;
            }
        };
        properties.insert(entry.key.to_owned(), text);
    }
    Some(properties)
}

type Route = (Option<ResourceId>, InstanceKeyRoute);

/// Reads the agent and the conversation key of a route.
fn read_route(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    targets: &RouteTargets,
    findings: &mut DiagnosticSink,
) -> Option<Route> {
    let mut fields = field.fields(findings)?;
    let agent_field = fields.optional("agentRef");
    let agent = agent_field
        .as_ref()
        .map(|field| scope.resolve(field, Kind::Agent, findings));
    if let (Some(field), Some(Some(agent)), Some(agents)) = (&agent_field, &agent, &targets.agents)
        && !agents.contains(agent)
    {
        let names: Vec<String> = agents.iter().map(ToString::to_string).collect();
        let diagnostic = field.invalid_value(format!(
            "`{agent}` is not an agent of this connection's swarm."
        ));
        findings.add(diagnostic.suggest(format!(
            "use {}, or add it to the swarm",
            format_alternatives(&names)
        )));
    }
    let instance_key = read_instance_key(&mut fields, findings);
    fields.finish(findings);
    Some((
        agent.map_or(Some(None), |agent| agent.map(Some))?,
        instance_key?,
    ))
}

/// Reads where the conversation key comes from: a fixed text, a property or the event.
fn read_instance_key(
    fields: &mut MapReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<InstanceKeyRoute> {
    let fixed = fields.optional("instanceKey");
    let property = fields.optional("instanceKeyProperty");
    let prefix = fields.optional("instanceKeyPrefix");
    if let (Some(_), Some(property)) = (&fixed, &property) {
        let message = "A route has `instanceKey` or `instanceKeyProperty`, not both.";
        findings.add(
            property
                .invalid_value(message)
                .suggest("keep one of the two"),
        );
        return None;
    }
    if let (None, Some(prefix)) = (&property, &prefix) {
        let message = "`instanceKeyPrefix` has no effect without `instanceKeyProperty`.";
        findings.add(
            prefix
                .invalid_value(message)
                .suggest("add `instanceKeyProperty`, or write the whole key as `instanceKey`"),
        );
        return None;
    }
    match (fixed, property) {
        (Some(fixed), _) => Some(InstanceKeyRoute::Fixed(fixed.text(findings)?.to_owned())),
        (None, Some(property)) => Some(InstanceKeyRoute::Property {
            name: property.text(findings)?.to_owned(),
            prefix: prefix
                .map_or(Some(""), |prefix| prefix.text(findings))?
                .to_owned(),
        }),
        (None, None) => Some(InstanceKeyRoute::FromEvent),
    }
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ingress")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct IngressShape {
    /// The rules, in order. The first one that matches an event routes it. An event without a rule
    /// goes to the entry agent.
    rules: Option<Vec<IngressRuleShape>>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IngressRule")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct IngressRuleShape {
    /// The events that the rule matches. Without it, all events.
    r#match: Option<MatchShape>,
    /// The target of these events.
    route: RouteShape,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IngressMatch")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct MatchShape {
    /// The name of the event.
    #[schemars(extend("x-goondan-names" = "event"))]
    event: Option<String>,
    /// Values of properties, by name. All must be equal.
    properties: Option<BTreeMap<String, PropertyValueShape>>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "IngressPropertyValue")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum PropertyValueShape {
    /// A string.
    Text(String),
    /// A number.
    Number(f64),
    /// A boolean.
    Boolean(bool),
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IngressRoute")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct RouteShape {
    /// The agent that gets the events. Without it, the entry agent.
    #[schemars(extend("x-goondan-names" = "Agent"))]
    agent_ref: Option<RefShape>,
    /// The key of the conversation. Without it and `instanceKeyProperty`, the event's own key.
    #[schemars(length(min = 1))]
    instance_key: Option<String>,
    /// The property whose value is the key of the conversation. It excludes `instanceKey`.
    #[schemars(length(min = 1))]
    instance_key_property: Option<String>,
    /// A string that is put before the value of `instanceKeyProperty`.
    instance_key_prefix: Option<String>,
}
