//! The routes of a Connection: which event goes to which agent, under which key.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use super::Scope;
use crate::ResourceId;
use crate::decode::{Field, Fields};
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::RefShape;
use crate::text::{alternatives, closest};

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

/// What the routes of one connection may name; `None` where it is not known.
pub(crate) struct Targets {
    agents: Option<Vec<ResourceId>>,
    events: Option<Vec<String>>,
}

impl Targets {
    /// Of the connection of `connector` to `swarm`, or to the bundle's first swarm.
    pub(crate) fn of(
        connector: Option<&ResourceId>,
        swarm: Option<&ResourceId>,
        scope: &Scope<'_>,
    ) -> Self {
        let swarm = match swarm {
            Some(id) => scope.decoded().swarms.get(id),
            None => scope.decoded().swarms.first().map(|(_, swarm)| swarm),
        };
        let connector = connector.and_then(|id| scope.decoded().connectors.get(id));
        Targets {
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

/// Reads `ingress`.
pub(crate) fn read(
    field: &Field<'_>,
    scope: &Scope<'_>,
    targets: &Targets,
    findings: &mut Findings,
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

fn read_rule(
    item: &Field<'_>,
    scope: &Scope<'_>,
    targets: &Targets,
    findings: &mut Findings,
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

type Matched = (Option<String>, BTreeMap<String, String>);

fn read_match(field: &Field<'_>, targets: &Targets, findings: &mut Findings) -> Option<Matched> {
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

fn read_event(field: &Field<'_>, targets: &Targets, findings: &mut Findings) -> Option<String> {
    let event = field.text(findings)?;
    if let Some(known) = targets
        .events
        .as_ref()
        .filter(|known| !known.iter().any(|name| name == event))
    {
        let diagnostic = field.invalid(format!("The connector has no event `{event}`."));
        findings.add(match closest(event, known) {
            Some(near) => field.did_you_mean(diagnostic, near),
            None => diagnostic.suggest(format!("use {}", alternatives(known))),
        });
    }
    Some(event.to_owned())
}

fn read_properties(field: &Field<'_>, findings: &mut Findings) -> Option<BTreeMap<String, String>> {
    let mut properties = BTreeMap::new();
    for entry in field.entries(findings)? {
        let text = match entry.node.to_json() {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => {
                let message = format!(
                    "`{}` must be text, a number or a boolean, but is {}.",
                    entry.path,
                    entry.node.what()
                );
                findings.add(entry.invalid(message));
                continue;
            }
        };
        properties.insert(entry.key.to_owned(), text);
    }
    Some(properties)
}

type Route = (Option<ResourceId>, InstanceKeyRoute);

fn read_route(
    field: &Field<'_>,
    scope: &Scope<'_>,
    targets: &Targets,
    findings: &mut Findings,
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
        let diagnostic = field.invalid(format!(
            "`{agent}` is not an agent of the swarm that this connection feeds."
        ));
        findings.add(diagnostic.suggest(format!(
            "use {}, or add it to the swarm",
            alternatives(&names)
        )));
    }
    let instance_key = read_instance_key(&mut fields, findings);
    fields.finish(findings);
    Some((
        agent.map_or(Some(None), |agent| agent.map(Some))?,
        instance_key?,
    ))
}

fn read_instance_key(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<InstanceKeyRoute> {
    let fixed = fields.optional("instanceKey");
    let property = fields.optional("instanceKeyProperty");
    let prefix = fields.optional("instanceKeyPrefix");
    if let (Some(_), Some(property)) = (&fixed, &property) {
        let message = "A route has `instanceKey` or `instanceKeyProperty`, not both.";
        findings.add(property.invalid(message).suggest("keep one of the two"));
        return None;
    }
    if let (None, Some(prefix)) = (&property, &prefix) {
        let message = "`instanceKeyPrefix` means nothing without `instanceKeyProperty`.";
        findings.add(
            prefix
                .invalid(message)
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
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct IngressShape {
    /// The rules, in order. The first one that matches an event routes it. An event without a rule goes to the entry agent.
    rules: Option<Vec<RuleShape>>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IngressRule")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct RuleShape {
    /// The events that the rule is about. Without it, all events.
    r#match: Option<MatchShape>,
    /// Where these events go.
    route: RouteShape,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IngressMatch")]
#[expect(dead_code, reason = "read by the schema generator alone")]
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
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum PropertyValueShape {
    /// Text.
    Text(String),
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IngressRoute")]
#[expect(dead_code, reason = "read by the schema generator alone")]
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
    /// A text that is put before the value of `instanceKeyProperty`.
    instance_key_prefix: Option<String>,
}
