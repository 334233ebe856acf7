//! Connectors by name: creation and sample events.

use std::sync::Arc;

use goondan::adapters::connectors::BoundConnection;
use serde_json::Value;

use super::{PlatformConnector, cli, cron, discord, github, script, slack, telegram, webhook};
use crate::console::LineConsole;
use crate::event::PlatformEvent;

/// Creates the connector of a connection.
pub(crate) fn make(
    bound: &BoundConnection,
    console: Option<&Arc<LineConsole>>,
) -> Result<Arc<dyn PlatformConnector>, String> {
    if bound.file.is_some() {
        return Ok(Arc::new(script::ScriptConnector::new(console.cloned())));
    }
    Ok(match bound.connector.as_str() {
        "webhook" => Arc::new(webhook::WebhookConnector::new(bound)),
        "cli" => Arc::new(cli::CliConnector::new(console.cloned())?),
        "cron" => Arc::new(cron::CronConnector::new(bound)?),
        "slack" => Arc::new(slack::SlackConnector::new(bound)),
        "github" => Arc::new(github::GitHubConnector::new(bound)),
        "discord" => Arc::new(discord::DiscordConnector::new(bound)),
        "telegram" | "telegram-polling" => Arc::new(telegram::TelegramConnector::new(bound)),
        other => return Err(format!("There is no connector `{other}`.")),
    })
}

/// Returns a sentence that explains why approving senders has no effect on a connection, or `None`
/// if it has one.
pub fn needs_no_approval(bound: &BoundConnection) -> Option<String> {
    let knows_senders =
        bound.file.is_some() || !matches!(bound.connector.as_str(), "cli" | "cron" | "webhook");
    if !knows_senders {
        return Some(format!(
            "Events of the connector `{}` have no sender.",
            bound.connector
        ));
    }
    let is_guarded = bound.file.is_none()
        && matches!(
            bound.connector.as_str(),
            "discord" | "telegram" | "telegram-polling"
        );
    let lets_everybody_in = match bound
        .allow
        .as_ref()
        .filter(|allow| allow.restricts_senders())
    {
        Some(allow) => allow.accepts_all_senders(),
        None => !is_guarded,
    };
    lets_everybody_in.then(|| {
        format!(
            "The connection `{}` already accepts all senders.",
            bound.name
        )
    })
}

/// Returns a sample event of a connection. `given` is a JSON object that overrides fields.
///
/// # Errors
/// A sentence about the invalid part of `given`.
pub fn sample(bound: &BoundConnection, given: Option<&Value>) -> Result<PlatformEvent, String> {
    let name = given
        .and_then(|given| given.get("name"))
        .and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !bound.events.iter().any(|event| event == name)) {
        let event_names = bound.events.join(", ");
        return Err(format!(
            "The connector `{}` has no event `{name}`. Use one of: {event_names}.",
            bound.connector
        ));
    }
    let event = match bound.connector.as_str() {
        _ if bound.file.is_some() => script::sample(bound),
        "cli" => cli::sample(&bound.name),
        "cron" => cron::sample(bound),
        "telegram" | "telegram-polling" => telegram::sample(),
        "slack" => slack::sample(),
        "github" => github::sample(name.unwrap_or_default()),
        "discord" => discord::sample(),
        _ => webhook::sample(bound),
    };
    given.map_or(Ok(event.clone()), |given| apply_overrides(event, given))
}

/// Replaces fields of an event by the fields of `overrides`. Fails for an unknown field or a wrong
/// type.
fn apply_overrides(mut event: PlatformEvent, overrides: &Value) -> Result<PlatformEvent, String> {
    let object = overrides
        .as_object()
        .ok_or("The event must be a JSON object.")?;
    for (name, value) in object {
        let text = || {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or(format!("`{name}` of the event must be a string."))
        };
        match name.as_str() {
            "name" => event.name = text()?,
            "text" => event.text = text()?,
            "instanceKey" => event.key = text()?,
            "sender" => {
                event.sender = Some(crate::event::EventSender {
                    id: text()?,
                    name: String::new(),
                })
            }
            "channel" => event.channel = Some(text()?),
            "properties" => {
                let stated_properties = value
                    .as_object()
                    .ok_or("`properties` of the event must be an object.")?;
                event
                    .properties
                    .extend(crate::event::plain_values(stated_properties));
            }
            other => {
                let known_fields = "name, text, instanceKey, sender, channel and properties";
                return Err(format!(
                    "An event has no field `{other}`. Use {known_fields}."
                ));
            }
        }
    }
    Ok(event)
}
