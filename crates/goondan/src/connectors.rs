//! Which connectors are built in, what they take, and the connections of a running swarm. What runs them is another crate.

use std::collections::BTreeMap;

use goondan_engine::delivery::schedule::cron::Schedule;
use goondan_spec::kinds::{
    Allow, Connection, ConnectorEvent, ConnectorManifest, IngressRule, Need, PropertyType, Reply, Setting,
};
use goondan_spec::{Bundle, Environment, Resource, Secret, ValueSource};

use crate::project::base_connector;
use crate::swarm::Swarm;

/// A connection of a swarm, with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The name of the Connection.
    pub name: String,
    /// The name of the built-in connector that runs it.
    pub connector: String,
    /// The events of its Connector.
    pub events: Vec<String>,
    /// Its settings.
    pub config: BTreeMap<String, Secret>,
    /// Its secrets.
    pub secrets: BTreeMap<String, Secret>,
    /// Its routes.
    pub ingress: Vec<IngressRule>,
    /// Whether answers go back.
    pub reply: Reply,
    /// Who may send events.
    pub allow: Option<Allow>,
}

/// A connection that can't run as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The name of the Connection.
    pub name: String,
    /// A sentence that stands alone.
    pub problem: String,
}

impl Bound {
    /// A connection without its values, to see where its events go; `None` for one whose connector is not built in.
    pub fn without_values(bundle: &Bundle, connection: &Resource<Connection>) -> Option<Bound> {
        let spec = &connection.spec;
        let connector = &bundle.connectors().get(&spec.connector)?.spec;
        Some(Bound {
            name: connection.id.name.clone(),
            connector: connector.builtin()?.to_owned(),
            events: connector.events.iter().map(|event| event.name.clone()).collect(),
            config: BTreeMap::new(),
            secrets: BTreeMap::new(),
            ingress: spec.ingress.clone(),
            reply: spec.reply,
            allow: spec.allow.clone(),
        })
    }

    /// As [`Bound::without_values`], with the values.
    fn of(
        bundle: &Bundle,
        connection: &Resource<Connection>,
        environment: &Environment,
    ) -> Option<Result<Bound, Unusable>> {
        let bound = Bound::without_values(bundle, connection)?;
        let manifest = base_connector(&bound.connector)?;
        let spec = &connection.spec;
        let values = values(&spec.config, &manifest.config, environment)
            .and_then(|config| Ok((config, values(&spec.secrets, &manifest.secrets, environment)?)));
        Some(match values {
            Ok((config, secrets)) => Ok(Bound { config, secrets, ..bound }),
            Err(problem) => Err(Unusable { name: bound.name, problem }),
        })
    }

    /// A setting; the empty text where it is not set.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(Secret::expose)
    }

    /// A secret; the empty text where it is not set. A built-in connector has all that it needs, or it is not started.
    pub fn secret(&self, name: &str) -> &str {
        self.secrets.get(name).map_or("", Secret::expose)
    }
}

impl Swarm {
    /// The connections that feed it as it is now. Those whose connector is not built in are left out.
    pub async fn connections(&self) -> Vec<Result<Bound, Unusable>> {
        let environment = self.inner().reloading.lock().await.environment().clone();
        let bundle = self.bundle();
        let Ok(swarm) = bundle.choose_swarm(Some(&self.name())) else { return Vec::new() };
        bundle.connections_of(&swarm.id).filter_map(|connection| Bound::of(&bundle, connection, &environment)).collect()
    }
}

/// What the sources come to. What is written in the file was checked with it; what is looked up is checked here.
fn values(
    sources: &BTreeMap<String, ValueSource>,
    known: &[Setting],
    environment: &Environment,
) -> Result<BTreeMap<String, Secret>, String> {
    let value = |(name, source): (&String, &ValueSource)| {
        let value = environment
            .resolve(source, name)
            .map_err(|tried| format!("The value of `{name}` is not there: {} is not set.", tried.join(" or ")))?;
        let setting = known.iter().find(|setting| setting.name == name);
        setting
            .map_or(Ok(()), |setting| (setting.check)(value.expose()))
            .map_err(|problem| format!("The value of `{name}` {problem}."))?;
        Ok((name.clone(), value))
    };
    sources.iter().map(value).collect()
}

/// All built-in connectors.
pub(crate) fn manifests() -> Vec<ConnectorManifest> {
    vec![webhook(), cron(), telegram(), slack(), github(), discord()]
}

fn webhook() -> ConnectorManifest {
    ConnectorManifest {
        takes_any_event: true,
        config: vec![optional("signatureHeader", header_name)],
        secrets: vec![needed("signingSecret", signing_key)],
        ..manifest("webhook", &[("webhook_message", &[])])
    }
}

fn cron() -> ConnectorManifest {
    ConnectorManifest {
        config: vec![
            needed("schedule", |text| {
                Schedule::parse(text, "UTC").map(drop).map_err(|error| format!("is wrong: {error}"))
            }),
            needed("text", filled),
            optional("timezone", |zone| {
                Schedule::parse("0 0 * * *", zone).map(drop).map_err(|error| format!("is wrong: {error}"))
            }),
        ],
        ..manifest("cron", &[("cron_tick", &["scheduledAt"])])
    }
}

fn telegram() -> ConnectorManifest {
    ConnectorManifest {
        config: vec![optional("apiBaseUrl", address), optional("pollTimeoutSeconds", |text| within(text, 0, 50))],
        secrets: vec![needed("botToken", filled)],
        answers: true,
        knows_senders: true,
        ..manifest(
            "telegram",
            &[("telegram_message", &["chatId", "chatType", "messageId", "threadId", "senderId", "username", "fileId"])],
        )
    }
}

fn slack() -> ConnectorManifest {
    let properties: &[&str] = &["channelId", "channelType", "messageTs", "threadTs", "userId", "teamId"];
    ConnectorManifest {
        config: vec![
            optional("apiBaseUrl", address),
            optional("messageMode", |mode| match mode {
                "all" | "mention" => Ok(()),
                _ => Err("must be `all` or `mention`".to_owned()),
            }),
        ],
        secrets: vec![needed("signingSecret", signing_key), for_replies("botToken", filled)],
        answers: true,
        knows_senders: true,
        ..manifest("slack", &[("app_mention", properties), ("message_im", properties)])
    }
}

fn github() -> ConnectorManifest {
    let properties: &[&str] = &["repository", "action", "number", "ref", "sender"];
    let events = ["github_push", "github_pull_request", "github_issue", "github_issue_comment"];
    ConnectorManifest {
        config: vec![optional("apiBaseUrl", address)],
        secrets: vec![needed("webhookSecret", signing_key), for_replies("token", filled)],
        answers: true,
        knows_senders: true,
        ..manifest("github", &events.map(|name| (name, properties)))
    }
}

fn discord() -> ConnectorManifest {
    let properties: &[&str] = &["command", "channelId", "guildId", "userId", "username"];
    ConnectorManifest {
        config: vec![
            optional("apiBaseUrl", address),
            needed("publicKey", |key| {
                let is_key = key.len() == 64 && key.bytes().all(|digit| digit.is_ascii_hexdigit());
                if is_key {
                    Ok(())
                } else {
                    Err("must be the 64 hexadecimal digits of the application's public key".to_owned())
                }
            }),
        ],
        answers: true,
        knows_senders: true,
        ..manifest("discord", &[("slash_command", properties), ("component_interaction", properties)])
    }
}

/// A connector whose events have these properties, none of which is always there. It takes no values and answers nobody.
fn manifest(name: &str, events: &[(&str, &[&str])]) -> ConnectorManifest {
    let event = |(name, properties): &(&str, &[&str])| ConnectorEvent {
        name: (*name).to_owned(),
        properties: properties.iter().map(|name| ((*name).to_owned(), (PropertyType::String, true))).collect(),
    };
    ConnectorManifest {
        name: name.to_owned(),
        events: events.iter().map(event).collect(),
        takes_any_event: false,
        config: Vec::new(),
        secrets: Vec::new(),
        answers: false,
        knows_senders: false,
    }
}

type Check = fn(&str) -> Result<(), String>;

fn needed(name: &'static str, check: Check) -> Setting {
    Setting { name, need: Need::Always, check }
}

fn for_replies(name: &'static str, check: Check) -> Setting {
    Setting { name, need: Need::ForReplies, check }
}

fn optional(name: &'static str, check: Check) -> Setting {
    Setting { name, need: Need::Never, check }
}

fn filled(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("must not be empty".to_owned()) } else { Ok(()) }
}

/// A short key can be guessed.
fn signing_key(text: &str) -> Result<(), String> {
    if text.len() < 16 {
        Err("must have at least 16 characters: try `openssl rand -hex 32`".to_owned())
    } else {
        Ok(())
    }
}

fn address(text: &str) -> Result<(), String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') && !host.contains(char::is_whitespace) => Ok(()),
        _ => Err("must be an address that begins with `http://` or `https://`".to_owned()),
    }
}

fn header_name(text: &str) -> Result<(), String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name { Ok(()) } else { Err("must be the name of a header".to_owned()) }
}

fn within(text: &str, least: u64, most: u64) -> Result<(), String> {
    match text.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(()),
        _ => Err(format!("must be a whole number from {least} to {most}")),
    }
}
