//! `messaging`: sends messages to users and agents over configured channels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{AgentEventInput, HandlerError, LogLevel, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission;
use goondan_spec::{Code, Environment};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::builtin_tool::BuiltinTool;
use crate::config_error::ConfigError;
use crate::http::{HttpClient, HttpToolRequest};
use crate::net_guard::NetworkGuard;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};
use crate::value_sources;

/// Maximum time of a webhook call.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bytes read of a webhook's answer.
const MAX_WEBHOOK_ANSWER_BYTES: usize = 2_000;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "messaging",
    about: "Sends messages over channels. A channel is `{webhook: {url: VALUE}}`, where VALUE is \
        a value source such as `{valueFrom: {env: OPS_WEBHOOK}}`; `{agent: NAME}`, optionally \
        with an `instanceKey`; or `{log: info}`. A webhook receives JSON with `to`, `content`, \
        `text` (equal to `content`), `agent` and `instanceKey`.",
    config: &[
        ("channels", "the channels by name"),
        (
            "allowPrivateNetwork",
            "`true` to allow webhooks at private, loopback and link-local addresses",
        ),
        (
            "allowHosts",
            "a list of webhook hosts that are allowed at any address, such as `chat.internal`",
        ),
    ],
    open: |opening| {
        let config: MessagingConfig = opening.config()?;
        let channels = config.channels.into_iter();
        let channels = channels.map(|(name, stated)| {
            Ok((
                name.clone(),
                build_channel(&name, stated, opening.environment)?,
            ))
        });
        let shared = MessagingState {
            channels: channels.collect::<Result<_, ConfigError>>()?,
            http: HttpClient::new(NetworkGuard::new(
                config.allow_private_network,
                config.allow_hosts,
            )),
        };
        Ok(vec![
            ToolExport::new::<SendChannelMessage>("message", &Arc::new(shared))
                .with_permission(Permission::Network),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MessagingConfig {
    #[serde(default)]
    channels: BTreeMap<String, ChannelConfig>,
    #[serde(default)]
    allow_private_network: bool,
    #[serde(default)]
    allow_hosts: Vec<String>,
}

/// A channel in the config: one of webhook, agent and log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChannelConfig {
    webhook: Option<WebhookConfig>,
    agent: Option<String>,
    instance_key: Option<String>,
    log: Option<LogLevel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookConfig {
    url: Value,
}

enum MessageChannel {
    /// The URL is secret, so it must not appear in messages.
    Webhook(Url),
    Agent {
        name: String,
        instance_key: Option<String>,
    },
    Log(LogLevel),
}

struct MessagingState {
    channels: BTreeMap<String, MessageChannel>,
    http: HttpClient,
}

/// Reads the config of the channel `name`.
fn build_channel(
    name: &str,
    config: ChannelConfig,
    environment: &Environment,
) -> Result<MessageChannel, ConfigError> {
    match (config.webhook, config.agent, config.log) {
        (Some(webhook), None, None) if config.instance_key.is_none() => {
            let field = format!("channels.{name}.webhook.url");
            let secret = value_sources::resolve(&webhook.url, &field, environment)?;
            let url = Url::parse(secret.expose()).map_err(|_| ConfigError::NoUrl(field))?;
            Ok(MessageChannel::Webhook(url))
        }
        (None, Some(agent), None) => Ok(MessageChannel::Agent {
            name: agent,
            instance_key: config.instance_key,
        }),
        (None, None, Some(level)) if config.instance_key.is_none() => {
            Ok(MessageChannel::Log(level))
        }
        _ => Err(ConfigError::NoChannel(name.to_owned())),
    }
}

/// Send a message over a configured channel.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendChannelMessage {
    /// Channel, or `channel:receiver` if it has several receivers.
    #[schemars(length(min = 1))]
    to: String,
    /// Text.
    #[schemars(length(min = 1))]
    content: String,
}

impl ToolOperation for SendChannelMessage {
    type Shared = MessagingState;

    async fn run(
        self,
        ctx: &ToolContext,
        shared: &MessagingState,
    ) -> Result<ToolOutput, HandlerError> {
        let name = self
            .to
            .split_once(':')
            .map_or(self.to.as_str(), |(name, _)| name);
        let channel = shared
            .channels
            .get(name)
            .ok_or_else(|| unknown_channel(name, &shared.channels))?;
        let mut output = json!({"to": self.to, "channel": name, "sent": true});
        match channel {
            MessageChannel::Webhook(url) => {
                output["status"] = self.post_message(ctx, shared, name, url).await?.into()
            }
            MessageChannel::Agent { name, instance_key } => {
                let input = self.content.clone();
                let metadata = JsonObject::from_iter([("messageTo".to_owned(), json!(self.to))]);
                let instance_key = instance_key.clone();
                let event = AgentEventInput {
                    input,
                    instance_key,
                    metadata,
                    ..AgentEventInput::default()
                };
                output["eventId"] = ctx.runtime.send(name, event).await?.event_id.into();
            }
            MessageChannel::Log(level) => {
                let fields = JsonObject::from_iter([("to".to_owned(), json!(self.to))]);
                ctx.logger.log(*level, &self.content, fields);
            }
        }
        Ok(titled_output(
            format!("Sent a message to {}", self.to),
            output,
        ))
    }
}

impl SendChannelMessage {
    /// Posts the message to the channel. Returns the HTTP status.
    async fn post_message(
        &self,
        ctx: &ToolContext,
        shared: &MessagingState,
        name: &str,
        url: &Url,
    ) -> Result<u16, HandlerError> {
        let body = json!({
            "to": self.to,
            "content": self.content,
            // The field that most chat services use.
            "text": self.content,
            "agent": ctx.agent_name,
            "instanceKey": ctx.instance_key,
        });
        let request = HttpToolRequest {
            method: Method::POST,
            url: url.to_string(),
            headers: HeaderMap::from_iter([(
                CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )]),
            body: Some(body.to_string().into()),
            timeout: WEBHOOK_TIMEOUT,
            max_bytes: MAX_WEBHOOK_ANSWER_BYTES,
        };
        let response = shared.http.send(request).await?;
        if response.status.is_success() {
            return Ok(response.status.as_u16());
        }
        let answer = String::from_utf8_lossy(&response.body).trim().to_owned();
        let message = format!(
            "the channel `{name}` returned {}: {answer}",
            response.status
        );
        Err(HandlerError::new(message).code(Code::TOOL_HTTP))
    }
}

/// Returns the error of an unknown channel, with the known names.
fn unknown_channel(name: &str, channels: &BTreeMap<String, MessageChannel>) -> HandlerError {
    let channel_names = channels
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let error = HandlerError::new(format!("there is no channel `{name}`"))
        .code(Code::TOOL_CHANNEL_NOT_FOUND);
    error.suggest(if channel_names.is_empty() {
        "no channel is configured; the operator can add channels to the tool's `config.channels`"
            .to_owned()
    } else {
        format!("use one of: {channel_names}")
    })
}
