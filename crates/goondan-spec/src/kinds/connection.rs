//! `kind: Connection`: reads and checks the spec of a connection.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::DecodeScope;
use super::connection_access::{self, AllowShape, ConnectionAccess};
use super::connector_manifest::ConnectorManifest;
use super::connector_manifest::ConnectorSetting;
use super::connector_manifest::SettingRequirement;
use super::ingress::{self, IngressRule, IngressShape};
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic_sink::DiagnosticSink;
use crate::meta::Kind;
use crate::references::RefShape;
use crate::text::{closest, format_alternatives};
use crate::value_source::{self, TextOrSourceShape, ValueSourceShape};
use crate::{ResourceId, ValueSource};

/// Configured connector, with routes into a swarm.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Connector that is configured.
    pub connector: ResourceId,
    /// Target swarm. `None` for the first swarm of the bundle.
    pub swarm: Option<ResourceId>,
    /// Settings by key.
    pub config: BTreeMap<String, ValueSource>,
    /// Secrets by key.
    pub secrets: BTreeMap<String, ValueSource>,
    /// Routing rules. The first match decides; without a match, the entry agent gets the event.
    pub ingress: Vec<IngressRule>,
    /// Delivery of answers. `None` if the field is not set; the tools of the receiving agents then
    /// determine the delivery.
    pub reply: Option<ReplyMode>,
    /// Accepted senders. `None` applies the connector's default.
    pub allow: Option<ConnectionAccess>,
}

/// Delivery of answers to the source of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Reply")]
pub enum ReplyMode {
    /// Answers stay in the swarm.
    None,
    /// The text of each answer is sent back.
    Auto,
    /// The answer is sent back while it is being written, as one growing message.
    Stream,
}

const REPLIES: [(&str, ReplyMode); 3] = [
    ("none", ReplyMode::None),
    ("auto", ReplyMode::Auto),
    ("stream", ReplyMode::Stream),
];

/// Decodes the spec of a Connection; `None` if a field is invalid.
pub(crate) fn decode(
    spec: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Connection> {
    let mut fields = spec.fields(findings)?;
    let connector = fields
        .required("connectorRef", findings)
        .and_then(|field| scope.resolve(&field, Kind::Connector, findings));
    let swarm_field = fields.optional("swarmRef");
    let swarm_reference = swarm_field
        .as_ref()
        .map(|field| scope.resolve(field, Kind::Swarm, findings));
    let swarm = swarm_reference.map_or(Some(None), |swarm| swarm.map(Some));
    let manifest = connector
        .as_ref()
        .and_then(|id| scope.connector_manifest(id));
    let file = connector
        .as_ref()
        .and_then(|id| scope.decoded_resources().connectors.get(id));
    let answers = manifest.is_some_and(|manifest| manifest.answers)
        || file.is_some_and(|file| file.spec.answers);
    let reply = read_reply(
        fields.optional("reply").as_ref(),
        manifest,
        answers,
        findings,
    );
    let config = read_settings(
        spec,
        &mut fields,
        "config",
        findings,
        manifest.map(|known| &*known.config),
        reply,
    );
    let secrets = read_settings(
        spec,
        &mut fields,
        "secrets",
        findings,
        manifest.map(|known| &*known.secrets),
        reply,
    );
    let allow_field = fields.optional("allow");
    let approvers_field = fields.optional("approvers");
    let allow = connection_access::read(
        allow_field.as_ref(),
        approvers_field.as_ref(),
        manifest,
        findings,
    );
    if let (Some(field), Some(Some(allow)), Some(Some(ReplyMode::None))) = (
        approvers_field.as_ref().or(allow_field.as_ref()),
        &allow,
        reply,
    ) && !allow.approvers.is_empty()
    {
        let message = "`approvers` needs replies: approval requests go to the reply channel, and \
                       `reply: none` turns it off.";
        findings.add(
            field
                .invalid_value(message)
                .suggest("remove `reply: none` or `approvers`"),
        );
    }
    let ingress = fields.optional("ingress").map(|field| {
        let targets = ingress::RouteTargets::for_connection(
            connector.as_ref(),
            swarm.clone().flatten().as_ref(),
            scope,
        );
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
        allow: allow?,
    })
}

/// Reads `reply`. Without the field, connectors that cannot send answers get `ReplyMode::None`.
fn read_reply(
    field: Option<&FieldReader<'_>>,
    manifest: Option<&ConnectorManifest>,
    answers: bool,
    findings: &mut DiagnosticSink,
) -> Option<Option<ReplyMode>> {
    let Some(field) = field else {
        return Some((!answers).then_some(ReplyMode::None));
    };
    let reply = field.one_of(&REPLIES, findings)?;
    if reply == ReplyMode::Stream && answers && !manifest.is_some_and(|manifest| manifest.streams) {
        let name = manifest
            .map(|manifest| format!(" `{}`", manifest.name))
            .unwrap_or_default();
        let message = format!("The connector{name} cannot edit a message after sending it.");
        findings.add(field.invalid_value(message).suggest("write `reply: auto`"));
        return None;
    }
    if let (ReplyMode::Auto | ReplyMode::Stream, false) = (reply, answers) {
        let name = manifest
            .map(|manifest| format!(" `{}`", manifest.name))
            .unwrap_or_default();
        let message = format!("The connector{name} has no way to send answers back.");
        findings.add(
            field
                .invalid_value(message)
                .suggest("remove `reply`; an agent can answer with a tool"),
        );
        return None;
    }
    Some(Some(reply))
}

/// Reads the map `name`, and reports unknown and missing settings. `known` are the settings of the
/// connector, if it is known; `reply` is the reply mode, which some settings depend on.
fn read_settings(
    spec: &FieldReader<'_>,
    fields: &mut MapReader<'_>,
    name: &'static str,
    findings: &mut DiagnosticSink,
    known: Option<&[ConnectorSetting]>,
    reply: Option<Option<ReplyMode>>,
) -> Option<BTreeMap<String, ValueSource>> {
    let mut map = BTreeMap::new();
    let mut wrong = Vec::new();
    let field = fields.optional(name);
    for entry in field
        .as_ref()
        .map_or_else(|| Some(Vec::new()), |field| field.entries(findings))?
    {
        let setting = known
            .into_iter()
            .flatten()
            .find(|setting| setting.matches_key(entry.key));
        let source = match name {
            "config" => value_source::read_setting(&entry, setting.is_some(), findings),
            _ => value_source::read(&entry, findings),
        };
        let Some(source) = source else {
            // The wrong value is reported, so that its setting is not also missing.
            wrong.extend(setting.map(|setting| setting.name));
            continue;
        };
        if let Some(known) = known {
            check_value(&entry, &source, known, findings);
        }
        let name = setting.map_or(entry.key, |setting| setting.name);
        if map.insert(name.to_owned(), source).is_some() {
            findings.add(entry.invalid_value(format!(
                "`{}` means `{name}`, which is already set.",
                entry.path
            )));
        }
    }
    let is_needed = |setting: &&ConnectorSetting| match setting.need {
        SettingRequirement::Never => false,
        SettingRequirement::Always => true,
        SettingRequirement::ForReplies => reply.is_some_and(|reply| reply != Some(ReplyMode::None)),
    };
    // Settings with an environment variable are looked up when the connection starts.
    let is_missing = |setting: &&ConnectorSetting| {
        setting.variable.is_none()
            && !map.contains_key(setting.name)
            && !wrong.contains(&setting.name)
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

/// Reports an unknown key, which would have no effect, or an invalid value.
fn check_value(
    entry: &FieldReader<'_>,
    source: &ValueSource,
    known: &[ConnectorSetting],
    findings: &mut DiagnosticSink,
) {
    let names: Vec<&str> = known.iter().map(|setting| setting.name).collect();
    let Some(setting) = known.iter().find(|setting| setting.matches_key(entry.key)) else {
        let diagnostic =
            entry.invalid_value(format!("The connector does not support `{}`.", entry.path));
        findings.add(match closest(entry.key, &names) {
            Some(near) => entry.did_you_mean_key(diagnostic, near),
            None if names.is_empty() => {
                diagnostic.suggest("remove it; the connector accepts nothing here")
            }
            None => diagnostic.suggest(format!("use {}", format_alternatives(&names))),
        });
        return;
    };
    // Looked-up values are checked when the connection starts. Messages never quote a value,
    // because it may be a secret.
    if let ValueSource::Value(value) = source
        && let Err(problem) = (setting.check)(value.expose())
    {
        findings.add(entry.invalid_value(format!("`{}` {problem}.", entry.path)));
    }
}

/// Creates the error for a setting that the connector requires.
fn missing_value(at: &FieldReader<'_>, map: &str, setting: &ConnectorSetting) -> crate::Diagnostic {
    let name = setting.name;
    let message = format!("`spec.{map}.{name}` is missing, and the connector needs it.");
    let variable = variable_name(name);
    at.invalid_value(message)
        .suggest(match (map, setting.need) {
            (_, SettingRequirement::ForReplies) => {
                format!(
                    "add `{name}: {{valueFrom: {{env: {variable}}}}}` to `{map}`, or write `reply: \
                none`"
                )
            }
            ("secrets", _) => {
                format!("add `{name}: {{valueFrom: {{env: {variable}}}}}` to `secrets`")
            }
            _ => format!("add `{name}: …` to `{map}`"),
        })
}

/// Converts a key such as `botToken` to a variable name, `BOT_TOKEN`.
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
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ConnectionSpec {
    /// The Connector.
    #[schemars(extend("x-goondan-names" = "Connector"))]
    connector_ref: RefShape,
    /// The Swarm that gets the events. Without it, the first Swarm of the project.
    #[schemars(extend("x-goondan-names" = "Swarm"))]
    swarm_ref: Option<RefShape>,
    /// Settings for the connector, by name.
    config: Option<BTreeMap<String, TextOrSourceShape>>,
    /// Secrets for the connector, by name.
    secrets: Option<BTreeMap<String, ValueSourceShape>>,
    /// The routes of events to agents. Without it, every event goes to the entry agent.
    ingress: Option<IngressShape>,
    /// The delivery of answers to the source of the event. `auto` sends each answer when it is
    /// complete, `stream` shows it while it is being written. By default, answers are sent if the
    /// connector can send them. They are not sent if every agent that gets the events has the
    /// platform's built-in tool, such as `slack`, to answer with.
    reply: Option<ReplyMode>,
    /// The senders of accepted events. By default, telegram and discord accept senders approved
    /// with `gdn connection approve`. Other connectors accept every request with a valid signature.
    allow: Option<AllowShape>,
    /// The ids of users who may answer approval requests in the channel. It does not permit them to
    /// send events. Without it, `gdn` sends no approval requests to the channel.
    approvers: Option<Vec<String>>,
}
