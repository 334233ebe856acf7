//! `kind: Connection`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Scope;
use super::allow::{self, Allow, AllowShape};
use super::connector::{ConnectorManifest, Need, Setting};
use super::ingress::{self, IngressRule, IngressShape};
use crate::decode::{Field, Fields};
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::RefShape;
use crate::text::{alternatives, closest};
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
    /// Whether answers go back to where the event came from; `None` leaves it to the agents that get the events.
    pub reply: Option<Reply>,
    /// Who may send events; `None` leaves it to the connector.
    pub allow: Option<Allow>,
}

/// Whether answers go back to where the event came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum Reply {
    /// Answers stay in the swarm.
    None,
    /// The text of each answer goes back.
    Auto,
    /// It goes back while it is being written: one message grows until it is the answer.
    Stream,
}

const REPLIES: [(&str, Reply); 3] = [
    ("none", Reply::None),
    ("auto", Reply::Auto),
    ("stream", Reply::Stream),
];

pub(crate) fn decode(
    spec: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Connection> {
    let mut fields = spec.fields(findings)?;
    let connector = fields
        .required("connectorRef", findings)
        .and_then(|field| scope.resolve(&field, Kind::Connector, findings));
    let swarm_field = fields.optional("swarmRef");
    let named = swarm_field
        .as_ref()
        .map(|field| scope.resolve(field, Kind::Swarm, findings));
    let swarm = named.map_or(Some(None), |swarm| swarm.map(Some));
    let manifest = connector.as_ref().and_then(|id| scope.manifest(id));
    let file = connector
        .as_ref()
        .and_then(|id| scope.decoded().connectors.get(id));
    let answers = manifest.is_some_and(|manifest| manifest.answers)
        || file.is_some_and(|file| file.spec.answers);
    let reply = read_reply(
        fields.optional("reply").as_ref(),
        manifest,
        answers,
        findings,
    );
    let config = values(
        spec,
        &mut fields,
        "config",
        findings,
        manifest.map(|known| &*known.config),
        reply,
    );
    let secrets = values(
        spec,
        &mut fields,
        "secrets",
        findings,
        manifest.map(|known| &*known.secrets),
        reply,
    );
    let allow_field = fields.optional("allow");
    let allow = allow_field
        .as_ref()
        .map(|field| allow::read(field, manifest, findings));
    if let (Some(field), Some(Some(allow)), Some(Some(Reply::None))) = (&allow_field, &allow, reply)
        && !allow.approvers.is_empty()
    {
        let message =
            "`approvers` are asked where answers go, and `reply: none` sends nothing there.";
        findings.add(
            field
                .invalid(message)
                .suggest("remove `reply: none` or `approvers`"),
        );
    }
    let ingress = fields.optional("ingress").map(|field| {
        let targets =
            ingress::Targets::of(connector.as_ref(), swarm.clone().flatten().as_ref(), scope);
        ingress::read(&field, scope, &targets, findings)
    });
    fields.finish(findings);
    Some(Connection {
        connector: connector?,
        swarm: swarm?,
        config: config?,
        secrets: secrets?,
        ingress: ingress.unwrap_or_else(|| Some(Vec::new()))?,
        reply: reply?,
        allow: allow.map_or(Some(None), |allow| allow.map(Some))?,
    })
}

/// By default answers go back wherever there is a way, unless the agents answer by a tool.
fn read_reply(
    field: Option<&Field<'_>>,
    manifest: Option<&ConnectorManifest>,
    answers: bool,
    findings: &mut Findings,
) -> Option<Option<Reply>> {
    let Some(field) = field else {
        return Some((!answers).then_some(Reply::None));
    };
    let reply = field.one_of(&REPLIES, findings)?;
    if reply == Reply::Stream && answers && !manifest.is_some_and(|manifest| manifest.streams) {
        let name = manifest
            .map(|manifest| format!(" `{}`", manifest.name))
            .unwrap_or_default();
        let message = format!("The connector{name} can't change a message that it has sent.");
        findings.add(field.invalid(message).suggest("write `reply: auto`"));
        return None;
    }
    if let (Reply::Auto | Reply::Stream, false) = (reply, answers) {
        let name = manifest
            .map(|manifest| format!(" `{}`", manifest.name))
            .unwrap_or_default();
        let message = format!("The connector{name} has no way to send answers back.");
        findings.add(
            field
                .invalid(message)
                .suggest("remove `reply`; an agent can answer by a tool"),
        );
        return None;
    }
    Some(Some(reply))
}

fn values(
    spec: &Field<'_>,
    fields: &mut Fields<'_>,
    name: &'static str,
    findings: &mut Findings,
    known: Option<&[Setting]>,
    reply: Option<Option<Reply>>,
) -> Option<BTreeMap<String, ValueSource>> {
    let mut map = BTreeMap::new();
    let field = fields.optional(name);
    for entry in field
        .as_ref()
        .map_or_else(|| Some(Vec::new()), |field| field.entries(findings))?
    {
        let Some(source) = value_source::read(&entry, findings) else {
            continue;
        };
        if let Some(known) = known {
            check_value(&entry, &source, known, findings);
        }
        let setting = known
            .into_iter()
            .flatten()
            .find(|setting| setting.is_called(entry.key));
        let name = setting.map_or(entry.key, |setting| setting.name);
        if map.insert(name.to_owned(), source).is_some() {
            findings.add(entry.invalid(format!(
                "`{}` means `{name}`, which is there already.",
                entry.path
            )));
        }
    }
    let is_needed = |setting: &&Setting| match setting.need {
        Need::Never => false,
        Need::Always => true,
        Need::ForReplies => reply.is_some_and(|reply| reply != Some(Reply::None)),
    };
    // What a variable may hold is looked up when the connection starts.
    let is_missing = |setting: &&Setting| {
        setting.variable.is_none()
            && !map.contains_key(setting.name)
            && setting.unless.is_none_or(|other| !map.contains_key(other))
    };
    for missing in known
        .into_iter()
        .flatten()
        .filter(is_needed)
        .filter(is_missing)
    {
        findings.add(missing_value(field.as_ref().unwrap_or(spec), name, missing));
    }
    Some(map)
}

/// A key that the connector does not know would have no effect.
fn check_value(
    entry: &Field<'_>,
    source: &ValueSource,
    known: &[Setting],
    findings: &mut Findings,
) {
    let names: Vec<&str> = known.iter().map(|setting| setting.name).collect();
    let Some(setting) = known.iter().find(|setting| setting.is_called(entry.key)) else {
        let diagnostic = entry.invalid(format!("The connector does not know `{}`.", entry.path));
        findings.add(match closest(entry.key, &names) {
            Some(near) => entry.did_you_mean_key(diagnostic, near),
            None if names.is_empty() => {
                diagnostic.suggest("remove it; the connector takes nothing here")
            }
            None => diagnostic.suggest(format!("it takes {}", alternatives(&names))),
        });
        return;
    };
    // What is looked up is checked when the connection starts. The value itself may be a secret and is never quoted.
    if let ValueSource::Value(value) = source
        && let Err(problem) = (setting.check)(value.expose())
    {
        findings.add(entry.invalid(format!("`{}` {problem}.", entry.path)));
    }
}

fn missing_value(at: &Field<'_>, map: &str, setting: &Setting) -> crate::Diagnostic {
    let name = setting.name;
    let message = format!("`spec.{map}.{name}` is missing, and the connector needs it.");
    let variable = variable_name(name);
    at.invalid(message).suggest(match (map, setting.need) {
        (_, Need::ForReplies) => {
            format!("add `{name}: {{valueFrom: {{env: {variable}}}}}` to `{map}`, or write `reply: none`")
        }
        ("secrets", _) => format!("add `{name}: {{valueFrom: {{env: {variable}}}}}` to `secrets`"),
        _ => format!("add `{name}: {{value: …}}` to `{map}`"),
    })
}

/// `botToken` as the name of a variable, `BOT_TOKEN`.
fn variable_name(name: &str) -> String {
    let parts = name
        .chars()
        .flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain([c]));
    parts.map(|c| c.to_ascii_uppercase()).collect()
}

/// A connector's settings, and the routes of its events into a swarm.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Connection")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ConnectionSpec {
    /// The Connector.
    #[schemars(extend("x-goondan-names" = "Connector"))]
    connector_ref: RefShape,
    /// The Swarm that gets the events. Without it, the first Swarm of the project.
    #[schemars(extend("x-goondan-names" = "Swarm"))]
    swarm_ref: Option<RefShape>,
    /// Settings for the connector, by name.
    config: Option<BTreeMap<String, ValueSourceShape>>,
    /// Secrets for the connector, by name.
    secrets: Option<BTreeMap<String, ValueSourceShape>>,
    /// Which event goes to which agent. Without it, every event goes to the entry agent.
    ingress: Option<IngressShape>,
    /// Whether the text of each answer goes back to where the event came from: `auto` sends it when it is complete, `stream` shows
    /// it while it is being written. By default it does wherever the connector has a
    /// way to send it, unless every agent that gets the events has the built-in tool of the platform, such as `slack`, and so
    /// answers by itself.
    reply: Option<Reply>,
    /// Who may send events. Without it, it depends on the connector: telegram and discord let in whom `gdn connection approve`
    /// names; the others everybody whose requests carry the right signature.
    allow: Option<AllowShape>,
}
