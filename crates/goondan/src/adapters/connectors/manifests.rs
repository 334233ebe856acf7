//! Manifests of the built-in connectors. Another crate runs the connectors.

use goondan_engine::delivery::schedule::cron::CronSchedule;
use goondan_spec::kinds::{
    ConnectorManifest, ConnectorSetting, EventDeclaration, PropertyType, SettingRequirement,
};

use super::setting_checks::{
    address, app_token, files, header_name, integer_within, not_empty, public_address, signing_key,
    webhook_secret,
};

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

/// Checks the ids of Slack workspaces, separated by commas or spaces.
fn team_ids(text: &str) -> Result<(), String> {
    let mut ids = text.split([',', ' ']).filter(|id| !id.is_empty());
    let is_id = |id: &str| {
        id.starts_with(['T', 'E']) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match ids.all(is_id) {
        true => Ok(()),
        false => Err("must be ids of workspaces, such as `T0123ABCD, T4567EFGH`".to_owned()),
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
            optional("teams", team_ids),
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
