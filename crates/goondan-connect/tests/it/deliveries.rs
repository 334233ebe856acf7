//! What holds for every platform that delivers by HTTP: who has not signed is not heard, and nothing is heard twice.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::floods::hmac_hex_of;
use crate::platform::{Platform, json};
use crate::support::Running;
use crate::{discord, github, slack, webhook};

type Headers = Vec<(&'static str, String)>;

/// How a platform delivers.
struct Way {
    name: &'static str,
    connection: String,
    /// The message of an id, with a text.
    body: fn(u32, &str) -> String,
    /// What comes with it, so many seconds after it was signed.
    signed: fn(i64, u32, &str) -> Headers,
    /// The headers without which nobody is believed.
    proof: &'static [&'static str],
    signs_body: bool,
    signs_time: bool,
    /// Its conversation, and how its answer is sent; the webhook sends none.
    key: &'static str,
    answer: Option<(&'static str, &'static str)>,
}

fn ways(base: &str) -> [Way; 5] {
    [
        webhook_way(),
        slack_way(base),
        discord_way(base),
        github_way(base),
        telegram_way(base),
    ]
}

fn webhook_way() -> Way {
    Way {
        name: "hook",
        connection: webhook::HOOK.to_owned(),
        body: |_, text| json!({"text": text}).to_string(),
        signed: |age, id, body| webhook::signed(webhook::SECRET, &id.to_string(), age, body),
        proof: &["webhook-id", "webhook-timestamp", "webhook-signature"],
        signs_body: true,
        signs_time: true,
        key: "webhook:default",
        answer: None,
    }
}

fn slack_way(base: &str) -> Way {
    Way {
        name: "team",
        connection: slack::app(base),
        body: |id, text| {
            slack::message("1.2", text).replace(
                "\"ts\":\"1.2\"",
                &format!("\"ts\":\"1.{id}\",\"thread_ts\":\"1.0\""),
            )
        },
        signed: |age, _, body| slack::signed(slack::SECRET, age, body),
        proof: &["x-slack-request-timestamp", "x-slack-signature"],
        signs_body: true,
        signs_time: true,
        key: "slack:C1:1.0",
        answer: Some(("chat.postMessage", "/text")),
    }
}

fn discord_way(base: &str) -> Way {
    Way {
        name: "guild",
        connection: discord::guild(base),
        body: |id, text| discord::ask(&id.to_string(), "7", text),
        signed: |age, _, body| discord::signed(age, body),
        proof: &["x-signature-timestamp", "x-signature-ed25519"],
        signs_body: true,
        signs_time: true,
        key: "discord:5",
        answer: Some(("/messages/@original", "/content")),
    }
}

fn github_way(base: &str) -> Way {
    Way {
        name: "hub",
        connection: github::hub(base),
        body: |id, text| {
            let issue = json!({"id": id, "number": 7, "title": text, "body": null});
            let (repository, sender) = (
                json!({"full_name": "octo/hello"}),
                json!({"login": "ada", "type": "User"}),
            );
            json!({"action": "opened", "issue": issue, "repository": repository, "sender": sender})
                .to_string()
        },
        signed: |_, id, body| github::signed("issues", &format!("d-{id}"), body),
        proof: &["x-hub-signature-256"],
        signs_body: true,
        signs_time: false,
        key: "github:octo/hello#7",
        answer: Some(("/issues/7/comments", "/body")),
    }
}

fn telegram_way(base: &str) -> Way {
    Way {
        name: "bot",
        connection: format!(
            "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: \
             Connector/telegram\n  config: {{apiBaseUrl: {{value: \"{base}\"}}, webhookUrl: {{value: \
             \"https://x.example\"}}}}\n  secrets: {{botToken: {{value: \"123:abc\"}}}}\n  allow: {{senders: [\"7\"]}}\n"
        ),
        body: |id, text| {
            let (from, chat) = (
                json!({"id": 7, "is_bot": false}),
                json!({"id": 7, "type": "private"}),
            );
            json!({"update_id": id, "message": {"message_id": id, "text": text, "from": from, "chat": chat}})
                .to_string()
        },
        signed: |_, _, _| {
            vec![(
                "x-telegram-bot-api-secret-token",
                hmac_hex_of(b"123:abc", b"webhook of bot"),
            )]
        },
        proof: &["x-telegram-bot-api-secret-token"],
        signs_body: false,
        signs_time: false,
        key: "telegram:7",
        answer: Some(("sendMessage", "/text")),
    }
}

async fn platform() -> Platform {
    Platform::start(|_| {
        Some(json(
            200,
            json!({"ok": true, "ts": "9.9", "id": "9", "result": {"message_id": 9}}),
        ))
    })
    .await
}

/// Another text of the same length and kind.
pub(crate) fn forged(text: &str) -> String {
    let last = text.chars().rfind(char::is_ascii_alphanumeric).unwrap();
    let (head, tail) = text.rsplit_once(last).unwrap();
    format!("{head}{}{tail}", if last == '1' { '2' } else { '1' })
}

#[tokio::test]
async fn what_is_unsigned_stale_or_tampered_with_is_an_event_nowhere() {
    let platform = platform().await;
    for way in ways(&platform.base) {
        let state = tempfile::tempdir().unwrap();
        let running = Running::start(state.path(), &way.connection).await;
        let body = (way.body)(1, "let me in");
        let good = (way.signed)(0, 1, &body);
        let mut attempts = vec![(Vec::new(), body.clone())];
        for proof in way.proof {
            attempts.push((
                good.iter()
                    .filter(|(name, _)| name != proof)
                    .cloned()
                    .collect(),
                body.clone(),
            ));
            let spoilt = |(name, value): &(&'static str, String)| {
                (
                    *name,
                    if name == proof {
                        forged(value)
                    } else {
                        value.clone()
                    },
                )
            };
            attempts.push((good.iter().map(spoilt).collect(), body.clone()));
        }
        if way.signs_body {
            attempts.push((good.clone(), format!("{body} ")));
        }
        if way.signs_time {
            attempts.push(((way.signed)(301, 1, &body), body.clone()));
            attempts.push(((way.signed)(-301, 1, &body), body.clone()));
        }
        for (headers, body) in attempts {
            let (status, _) = running.deliver(way.name, &headers, body.as_bytes()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{} {headers:?}", way.name);
        }
        assert_eq!(running.swarm.instances().await, [], "{}", way.name);
        assert_eq!(
            (
                running.look(way.name).owed,
                running.look(way.name).pending.len()
            ),
            (0, 0),
            "{}",
            way.name
        );
        // It was not refused for another reason.
        assert!(
            running
                .deliver(way.name, &good, body.as_bytes())
                .await
                .0
                .is_success(),
            "{}",
            way.name
        );
        running.answered(way.key, 1).await;
    }
}

#[tokio::test]
async fn three_deliveries_with_a_restart_in_between_are_one_turn_and_one_answer_everywhere() {
    let platform = platform().await;
    for way in ways(&platform.base) {
        let state = tempfile::tempdir().unwrap();
        let deliver = async |running: &Running, id, text: &str| {
            let body = (way.body)(id, text);
            let (status, told) = running
                .deliver(way.name, &(way.signed)(0, id, &body), body.as_bytes())
                .await;
            assert!(status.is_success(), "{} {status} {told}", way.name);
        };
        let running = Running::start(state.path(), &way.connection).await;
        deliver(&running, 1, "once").await;
        running.answered(way.key, 1).await;
        running.until(way.name, |look| look.owed == 0).await;
        running.kill().await;
        let running = Running::start(state.path(), &way.connection).await;
        deliver(&running, 1, "once").await;
        deliver(&running, 1, "once").await;
        deliver(&running, 2, "more").await;
        // It comes behind all that was said before.
        let heard = running.answered(way.key, 2).await;
        assert!(
            heard.len() == 2 && heard[0].contains("once") && heard[1].contains("more"),
            "{}: {heard:?}",
            way.name
        );
        running.until(way.name, |look| look.owed == 0).await;
        let Some((end, field)) = way.answer else {
            continue;
        };
        let sent: Vec<Value> = platform
            .calls(end)
            .iter()
            .map(|body| body.pointer(field).cloned().unwrap_or_default())
            .collect();
        let has = |text: &str| {
            sent.iter()
                .filter(|said| said.as_str().unwrap_or_default().contains(text))
                .count()
        };
        assert_eq!(
            (sent.len(), has("once"), has("more")),
            (2, 1, 1),
            "{}: {sent:?}",
            way.name
        );
        assert_eq!(running.look(way.name).failed, [], "{}", way.name);
    }
}
