//! Manifests of the built-in connectors, and the connections of a running swarm. Another crate runs
//! the connectors.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
pub use goondan_core::connector_host::ConnectorHost;
use goondan_core::connector_host::ConnectorStart;
use goondan_core::ports::tool::HandlerError;
use goondan_engine::delivery::schedule::cron::CronSchedule;
use goondan_spec::kinds::{
    Connection, ConnectionAccess, ConnectorEntry, ConnectorManifest, ConnectorSetting,
    EventDeclaration, IngressRule, PropertyType, ReplyMode, SettingRequirement, ToolEntry,
};
use goondan_spec::{Bundle, Environment, Fingerprint, Resource, ResourceId, Secret, ValueSource};
/// Marker at the end of GitHub comments that agents wrote.
pub use goondan_tools::GITHUB_MARK;

use crate::start::project::base_connector;
use crate::start::swarm::Swarm;

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

/// Handler file or library that runs a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectorFile {
    id: ResourceId,
    entry: ConnectorEntry,
    /// Project directory.
    root: PathBuf,
    /// Fingerprints of the file and its imports.
    contents: Vec<Fingerprint>,
}

impl ConnectorFile {
    /// Returns the file of a Connector; `None` for a built-in one.
    fn of(id: &ResourceId, entry: &ConnectorEntry, bundle: &Bundle) -> Option<ConnectorFile> {
        let files = match entry {
            ConnectorEntry::Builtin(_) => return None,
            ConnectorEntry::Module(module) => &module.files[..],
            ConnectorEntry::Library(path) => std::slice::from_ref(path),
        };
        // The connector runtime reports unreadable files.
        let of_file = |file: &String| {
            File::open(bundle.root().join(file))
                .and_then(Fingerprint::of_stream)
                .unwrap_or_default()
        };
        let contents = files.iter().map(of_file).collect();
        Some(ConnectorFile {
            id: id.clone(),
            entry: entry.clone(),
            root: bundle.root().to_owned(),
            contents,
        })
    }
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
    fn with_values(
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

impl Swarm {
    /// Runs the file of `bound` until it ends; `host` handles its requests.
    ///
    /// # Errors
    /// Fails if the connector cannot start or fails, or if its process exits.
    pub async fn run_connector(
        &self,
        bound: &BoundConnection,
        host: Arc<dyn ConnectorHost>,
    ) -> Result<(), HandlerError> {
        let Some(ConnectorFile {
            id, entry, root, ..
        }) = &bound.file
        else {
            return Ok(());
        };
        let exposed = |values: &BTreeMap<String, Secret>| {
            values
                .iter()
                .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                .collect()
        };
        let values = ConnectorStart {
            connection: bound.name.clone(),
            connector: bound.connector.clone(),
            config: exposed(&bound.config),
            secrets: exposed(&bound.secrets),
            ..ConnectorStart::default()
        };
        self.inner()
            .tools
            .run_connector((id, entry), root, values, host)
            .await
    }

    /// Returns the connections of the current generation.
    pub async fn connections(&self) -> Vec<Result<BoundConnection, UnusableConnection>> {
        let environment = self.inner().reloading.lock().await.environment().clone();
        let bundle = self.bundle();
        let Ok(swarm) = bundle.choose_swarm(Some(&self.name())) else {
            return Vec::new();
        };
        bundle
            .connections_of(&swarm.id)
            .filter_map(|connection| {
                BoundConnection::with_values(&bundle, connection, &environment)
            })
            .collect()
    }
}

/// Returns the agents that receive the events of a connection.
pub(crate) fn receivers<'b>(
    bundle: &'b Bundle,
    connection: &'b Resource<Connection>,
) -> Vec<&'b ResourceId> {
    let swarm = match &connection.spec.swarm {
        Some(swarm) => bundle.swarms().get(swarm),
        None => bundle.swarms().values().next(),
    };
    let entry = swarm.map(|swarm| &swarm.spec.entry_agent);
    let rules = &connection.spec.ingress;
    let routed_agents = rules
        .iter()
        .filter_map(|rule| rule.agent.as_ref().or(entry));
    // Unmatched events go to the entry agent. With routing rules for all events, it receives none.
    let mut agents: Vec<&ResourceId> = if rules.is_empty() {
        entry.into_iter().collect()
    } else {
        routed_agents.collect()
    };
    agents.dedup();
    agents
}

/// Returns true if every agent that receives events of `connection` has the built-in tool `tool`.
fn all_receivers_have(bundle: &Bundle, connection: &Resource<Connection>, tool: &str) -> bool {
    let agents = receivers(bundle, connection);
    let is_the_tool = |id: &ResourceId| {
        bundle
            .tools()
            .get(id)
            .is_some_and(|definition| definition.spec.entry == ToolEntry::Builtin(tool.to_owned()))
    };
    let has_tool = |agent: &&ResourceId| {
        bundle
            .agents()
            .get(*agent)
            .is_some_and(|agent| agent.spec.tools.iter().any(|used| is_the_tool(&used.tool)))
    };
    !agents.is_empty() && agents.iter().all(has_tool)
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

/// Returns the manifests of all built-in connectors.
pub(crate) fn manifests() -> Vec<ConnectorManifest> {
    // Other software uses this name for Telegram bots that poll.
    let telegram_polling = ConnectorManifest {
        name: "telegram-polling".to_owned(),
        ..telegram()
    };
    vec![
        webhook(),
        cron(),
        cli(),
        telegram(),
        telegram_polling,
        slack(),
        github(),
        discord(),
    ]
}

/// Declares the connector for webhooks.
fn webhook() -> ConnectorManifest {
    ConnectorManifest {
        takes_any_event: true,
        config: vec![optional("signatureHeader", header_name)],
        secrets: vec![needed("signingSecret", webhook_secret)],
        ..manifest("webhook", &[("webhook_message", &[])])
    }
}

/// Declares the connector that sends an input on schedule.
fn cron() -> ConnectorManifest {
    ConnectorManifest {
        config: vec![
            needed("schedule", |text| {
                CronSchedule::parse(text, "UTC")
                    .map(drop)
                    .map_err(|error| invalid_value(&error))
            }),
            needed("text", not_empty),
            optional("timezone", |zone| {
                CronSchedule::parse("0 0 * * *", zone)
                    .map(drop)
                    .map_err(|error| invalid_value(&error))
            }),
        ],
        ..manifest("cron", &[("cron_tick", &["scheduledAt"])])
    }
}

/// Formats an error without the full stop at its end.
fn invalid_value(error: &impl std::fmt::Display) -> String {
    format!("is wrong: {}", error.to_string().trim_end_matches('.'))
}

/// Declares the connector that reads typed lines.
fn cli() -> ConnectorManifest {
    ConnectorManifest {
        takes_any_event: true,
        answers: true,
        ..manifest("cli", &[("stdin_message", &[])])
    }
}

/// Declares the Telegram connector.
fn telegram() -> ConnectorManifest {
    ConnectorManifest {
        config: vec![
            optional("apiBaseUrl", address).also(&["TELEGRAM_API_BASE_URL"]),
            optional("webhookUrl", public_address),
            optional("files", files),
            optional("unsupported", |text| match text {
                "log" | "reply" => Ok(()),
                _ => Err("must be `log` or `reply`".to_owned()),
            }),
            optional("pollTimeoutSeconds", |text| integer_within(text, 0, 50))
                .also(&["TELEGRAM_POLL_TIMEOUT_SECONDS"]),
        ],
        secrets: vec![
            needed("botToken", not_empty)
                .also(&["TELEGRAM_BOT_TOKEN", "BOT_TOKEN", "TELEGRAM_TOKEN"])
                .with_variable("TELEGRAM_BOT_TOKEN"),
        ],
        answers: true,
        streams: true,
        asks: true,
        knows_senders: true,
        tool: Some("telegram"),
        ..manifest(
            "telegram",
            &[(
                "telegram_message",
                &[
                    "chatId",
                    "chatType",
                    "messageId",
                    "threadId",
                    "mediaGroupId",
                    "senderId",
                    "username",
                    "fileId",
                ],
            )],
        )
    }
}

/// Declares the Slack connector.
fn slack() -> ConnectorManifest {
    let properties: &[&str] = &[
        "channelId",
        "channelType",
        "messageTs",
        "threadTs",
        "userId",
        "teamId",
    ];
    ConnectorManifest {
        config: vec![
            optional("apiBaseUrl", address),
            optional("files", files),
            optional("messageMode", |mode| match mode {
                "all" | "mention" | "channel_and_threads" => Ok(()),
                _ => Err("must be `all` or `mention`".to_owned()),
            })
            .also(&["SLACK_MESSAGE_MODE"]),
            optional("port", |text| integer_within(text, 1, 65_535))
                .also(&["SLACK_WEBHOOK_PORT", "PORT"]),
            optional("path", |path| match path.starts_with('/') {
                true => Ok(()),
                false => Err("must begin with `/`".to_owned()),
            })
            .also(&["SLACK_WEBHOOK_PATH"]),
        ],
        secrets: vec![
            needed("signingSecret", signing_key)
                .also(&["SLACK_SIGNING_SECRET"])
                .with_variable("SLACK_SIGNING_SECRET")
                .unless("appToken"),
            optional("appToken", app_token).also(&["SLACK_APP_TOKEN"]),
            for_replies("botToken", not_empty)
                .also(&["SLACK_BOT_TOKEN", "SLACK_TOKEN"])
                .with_variable("SLACK_BOT_TOKEN"),
        ],
        answers: true,
        streams: true,
        asks: true,
        knows_senders: true,
        tool: Some("slack"),
        ..manifest(
            "slack",
            &[("app_mention", properties), ("message_im", properties)],
        )
    }
}

/// Declares the GitHub connector.
fn github() -> ConnectorManifest {
    let properties: &[&str] = &["repository", "action", "number", "ref", "sender"];
    let events = [
        "github_push",
        "github_pull_request",
        "github_issue",
        "github_issue_comment",
    ];
    ConnectorManifest {
        config: vec![optional("apiBaseUrl", address)],
        secrets: vec![
            needed("webhookSecret", signing_key),
            for_replies("token", not_empty),
        ],
        answers: true,
        asks: true,
        knows_senders: true,
        tool: Some("github"),
        ..manifest("github", &events.map(|name| (name, properties)))
    }
}

/// Declares the Discord connector.
fn discord() -> ConnectorManifest {
    let properties: &[&str] = &[
        "command",
        "subcommand",
        "channelId",
        "guildId",
        "userId",
        "username",
    ];
    ConnectorManifest {
        config: vec![
            optional("apiBaseUrl", address),
            optional("files", files),
            needed("publicKey", |key| {
                let is_key = key.len() == 64 && key.bytes().all(|digit| digit.is_ascii_hexdigit());
                if is_key {
                    Ok(())
                } else {
                    Err(
                        "must be the 64 hexadecimal digits of the application's public key"
                            .to_owned(),
                    )
                }
            }),
        ],
        answers: true,
        streams: true,
        asks: true,
        knows_senders: true,
        tool: Some("discord"),
        ..manifest(
            "discord",
            &[
                ("slash_command", properties),
                ("component_interaction", properties),
            ],
        )
    }
}

/// Returns a manifest with these events, whose properties are all optional. It takes no values and
/// sends no replies.
fn manifest(name: &str, events: &[(&str, &[&str])]) -> ConnectorManifest {
    let event = |(name, properties): &(&str, &[&str])| EventDeclaration {
        name: (*name).to_owned(),
        properties: properties
            .iter()
            .map(|name| ((*name).to_owned(), (PropertyType::String, true)))
            .collect(),
    };
    ConnectorManifest {
        name: name.to_owned(),
        events: events.iter().map(event).collect(),
        ..ConnectorManifest::default()
    }
}

/// Check of a value. The error completes the sentence "The value of `name` …".
type ValueCheck = fn(&str) -> Result<(), String>;

/// Declares a value that is always required.
fn needed(name: &'static str, check: ValueCheck) -> ConnectorSetting {
    ConnectorSetting::new(name, SettingRequirement::Always, check)
}

/// Declares a value that is required if the connection sends replies.
fn for_replies(name: &'static str, check: ValueCheck) -> ConnectorSetting {
    ConnectorSetting::new(name, SettingRequirement::ForReplies, check)
}

/// Declares an optional value.
fn optional(name: &'static str, check: ValueCheck) -> ConnectorSetting {
    ConnectorSetting::new(name, SettingRequirement::Never, check)
}

/// Rejects a blank value.
fn not_empty(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        Err("must not be empty".to_owned())
    } else {
        Ok(())
    }
}

/// Rejects short keys, because they can be guessed.
fn signing_key(text: &str) -> Result<(), String> {
    if text.len() < 16 {
        Err("must have at least 16 characters: try `openssl rand -hex 32`".to_owned())
    } else {
        Ok(())
    }
}

/// Accepts what the decoders of most senders accept: missing padding, and unused bits at the end.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Prefix of a base64-encoded webhook key.
const WEBHOOK_KEY_PREFIX: &str = "whsec_";

/// Returns the key in the signing secret of a webhook; `None` for base64 that cannot be decoded.
pub fn webhook_key(secret: &str) -> Option<Vec<u8>> {
    match secret.trim().strip_prefix(WEBHOOK_KEY_PREFIX) {
        Some(encoded) => LENIENT_BASE64.decode(encoded).ok(),
        None => Some(secret.as_bytes().to_owned()),
    }
}

/// Rejects base64 that cannot be decoded, because no signature would match, and short keys.
fn webhook_secret(text: &str) -> Result<(), String> {
    signing_key(text)?;
    let key = webhook_key(text).ok_or(
        "begins with `whsec_`, but the rest is not base64: copy the secret of the sender again",
    )?;
    match key.len() {
        0..16 => Err("must have at least 16 bytes after `whsec_`, in base64".to_owned()),
        _ => Ok(()),
    }
}

/// Files need an explicit setting: not every model accepts files, and tool results may not be for
/// everyone.
fn files(text: &str) -> Result<(), String> {
    match text {
        "name" | "fetch" | "send" | "both" => Ok(()),
        _ => Err("must be `name`, `fetch`, `send` or `both`".to_owned()),
    }
}

/// Requires an HTTP or HTTPS URL with a host.
fn address(text: &str) -> Result<(), String> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host)
            if !host.is_empty()
                && !host.starts_with('/')
                && !host.contains(char::is_whitespace) =>
        {
            Ok(())
        }
        _ => Err("must be a URL that begins with `http://` or `https://`".to_owned()),
    }
}

/// Requires HTTPS for the public URL, because without TLS the secret in each request could be read
/// on the network.
fn public_address(text: &str) -> Result<(), String> {
    match address(text) {
        Ok(()) if text.starts_with("https://") => Ok(()),
        _ => Err("must be a URL that begins with `https://`".to_owned()),
    }
}

/// Requires an app-level token, because Slack's token kinds are easily confused.
fn app_token(text: &str) -> Result<(), String> {
    if text.trim().starts_with("xapp-") {
        Ok(())
    } else {
        Err("must be an app-level token, which begins with `xapp-`".to_owned())
    }
}

/// Requires the name of an HTTP header.
fn header_name(text: &str) -> Result<(), String> {
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name {
        Ok(())
    } else {
        Err("must be the name of a header".to_owned())
    }
}

/// Requires an integer from `min` to `max`.
fn integer_within(text: &str, min: u64, max: u64) -> Result<(), String> {
    match text.parse::<u64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(()),
        _ => Err(format!("must be an integer from {min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_webhook_is_a_key() {
        assert_eq!(webhook_secret("abcdefghijklmnop"), Ok(()));
        for secret in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
        ] {
            assert_eq!(webhook_secret(secret), Ok(()), "{secret}");
        }
        for (secret, reason) in [
            ("short", "16 characters"),
            ("whsec_not*base64*at*all", "base64"),
            ("whsec_MfKQ9r8GKYqrTwjU", "16 bytes"),
            ("whsec_MfKQ9r8GKYqrTwj UPD8ILPZIo2LaLaSw", "base64"),
        ] {
            let refusal = webhook_secret(secret).unwrap_err();
            assert!(refusal.contains(reason), "{secret}: {refusal}");
        }
    }
}
