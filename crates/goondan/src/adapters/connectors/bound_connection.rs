//! A connection with its resolved values.

use std::collections::BTreeMap;

use goondan_spec::kinds::{
    Connection, ConnectionAccess, ConnectorSetting, IngressRule, ReplyMode, SettingRequirement,
};
use goondan_spec::{Bundle, Environment, Resource, Secret, ValueSource};

use super::connector_file::ConnectorFile;
use super::receivers::all_receivers_have;
use crate::start::project::base_connector;

/// Connection of a swarm, with its resolved values.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundConnection {
    /// Name of the Connection.
    pub name: String,
    /// Name of the built-in connector, or of the Connector with a file.
    pub connector: String,
    /// Connector file; `None` for a built-in connector.
    pub file: Option<ConnectorFile>,
    /// Events of the Connector.
    pub events: Vec<String>,
    /// Settings by name.
    pub config: BTreeMap<String, Secret>,
    /// Secrets by name.
    pub secrets: BTreeMap<String, Secret>,
    /// Routing rules.
    pub ingress: Vec<IngressRule>,
    /// Reply mode.
    pub reply: ReplyMode,
    /// True if the receiving agents reply with a tool and need the address of the sender.
    pub answers_by_tool: bool,
    /// Allowed senders.
    pub allow: Option<ConnectionAccess>,
}

/// Connection that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableConnection {
    /// Name of the Connection.
    pub name: String,
    /// Reason why the connection cannot run, as a complete sentence.
    pub problem: String,
}

/// Returns the reason why a connection cannot run with these variables, as a complete sentence.
pub(crate) fn unusable(
    bundle: &Bundle,
    connection: &Resource<Connection>,
    environment: &Environment,
) -> Option<String> {
    BoundConnection::with_values(bundle, connection, environment)?
        .err()
        .map(|unusable| unusable.problem)
}

impl BoundConnection {
    /// Returns a connection without values, for routing of its events. Returns `None` if its
    /// Connector does not exist.
    pub fn without_values(
        bundle: &Bundle,
        connection: &Resource<Connection>,
    ) -> Option<BoundConnection> {
        let spec = &connection.spec;
        let connector = &bundle.connectors().get(&spec.connector)?.spec;
        let file = ConnectorFile::of(&spec.connector, &connector.entry, bundle);
        let name = connector
            .builtin()
            .unwrap_or(&spec.connector.name)
            .to_owned();
        let tool = base_connector(&name)
            .filter(|_| file.is_none())
            .and_then(|manifest| manifest.tool);
        let answers_by_tool = tool.is_some_and(|tool| all_receivers_have(bundle, connection, tool));
        let default = if answers_by_tool {
            ReplyMode::None
        } else {
            ReplyMode::Auto
        };
        Some(BoundConnection {
            name: connection.id.name.clone(),
            connector: name,
            file,
            events: connector
                .events
                .iter()
                .map(|event| event.name.clone())
                .collect(),
            config: BTreeMap::new(),
            secrets: BTreeMap::new(),
            ingress: spec.ingress.clone(),
            reply: spec.reply.unwrap_or(default),
            answers_by_tool,
            allow: spec.allow.clone(),
        })
    }

    /// Returns a connection with its settings and secrets, or the reason why it cannot run. Returns
    /// `None` if its Connector does not exist.
    pub(super) fn with_values(
        bundle: &Bundle,
        connection: &Resource<Connection>,
        environment: &Environment,
    ) -> Option<Result<BoundConnection, UnusableConnection>> {
        let bound = BoundConnection::without_values(bundle, connection)?;
        let spec = &connection.spec;
        // A connector with a file has no built-in manifest, and so no known settings.
        let manifest = base_connector(&bound.connector).filter(|_| bound.file.is_none());
        let (known_config, known_secrets) = manifest.map_or((&[][..], &[][..]), |manifest| {
            (&manifest.config, &manifest.secrets)
        });
        let (reply, has_other_server) = (bound.reply, spec.config.contains_key("apiBaseUrl"));
        let resolve =
            |sources, known| resolve_values(sources, known, (reply, has_other_server), environment);
        let values = resolve(&spec.config, known_config)
            .and_then(|config| Ok((config, resolve(&spec.secrets, known_secrets)?)));
        Some(match values {
            Ok((config, secrets)) => Ok(BoundConnection {
                config,
                secrets,
                ..bound
            }),
            Err(problem) => Err(UnusableConnection {
                name: bound.name,
                problem,
            }),
        })
    }

    /// Returns a setting; an empty string if it is not set.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(Secret::expose)
    }

    /// Returns true if files of an event are downloaded.
    pub fn fetches_files(&self) -> bool {
        matches!(self.setting("files"), Some("fetch" | "both"))
    }

    /// Returns true if files of an answer are sent.
    pub fn sends_files(&self) -> bool {
        matches!(self.setting("files"), Some("send" | "both"))
    }

    /// Returns a secret; an empty string if it is not set. A built-in connector is only started
    /// with all required secrets.
    pub fn secret(&self, name: &str) -> &str {
        self.secrets.get(name).map_or("", Secret::expose)
    }
}

/// Resolves the value sources, and checks the values of `known` settings. Returns the reason as a
/// complete sentence if a value is missing or invalid.
///
/// Needed settings without a source get their customary variable. `reply` decides which settings are
/// needed; `has_other_server` is true if the connection uses another server than the platform.
fn resolve_values(
    sources: &BTreeMap<String, ValueSource>,
    known: &[ConnectorSetting],
    (reply, has_other_server): (ReplyMode, bool),
    environment: &Environment,
) -> Result<BTreeMap<String, Secret>, String> {
    let missing = |name: &str, variables: &[String]| {
        format!(
            "The value of `{name}` is missing: {} is not set.",
            variables.join(" or ")
        )
    };
    let mut sources = sources.clone();
    // The customary variables contain secrets of the platform, which another server must not get.
    for setting in known
        .iter()
        .filter(|_| !has_other_server)
        .filter(|setting| !sources.contains_key(setting.name))
        .collect::<Vec<_>>()
    {
        let is_replaced_by_other = setting
            .unless
            .is_some_and(|other| sources.contains_key(other));
        let is_needed = setting.need == SettingRequirement::Always
            || (setting.need == SettingRequirement::ForReplies && reply != ReplyMode::None);
        let Some(variable) = setting
            .variable
            .filter(|_| is_needed && !is_replaced_by_other)
        else {
            continue;
        };
        sources.insert(
            setting.name.to_owned(),
            ValueSource::Env(variable.to_owned()),
        );
    }
    let value = |(name, source): (&String, &ValueSource)| {
        let value = environment
            .resolve(source, name)
            .map_err(|variables| missing(name, &variables))?;
        let setting = known.iter().find(|setting| setting.name == name);
        setting
            .map_or(Ok(()), |setting| (setting.check)(value.expose()))
            .map_err(|problem| format!("The value of `{name}` {problem}."))?;
        Ok((name.clone(), value))
    };
    sources.iter().map(value).collect()
}
