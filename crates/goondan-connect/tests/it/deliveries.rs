//! Common rules of all HTTP platforms: verified signatures and no duplicate turns.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, json};
use crate::robustness::hmac_hex_of;
use crate::support::TestRuntime;
use crate::{discord, github, slack, webhook};

type HeaderList = Vec<(&'static str, String)>;

/// Platform that delivers over HTTP.
struct DeliveryCase {
    name: &'static str,
    connection: String,
    /// Returns the body of a message with an id and a text.
    body: fn(u32, &str) -> String,
    /// Returns the headers of a body that was signed the given number of seconds ago.
    signed: fn(i64, u32, &str) -> HeaderList,
    /// Headers without which a request is rejected.
    required_headers: &'static [&'static str],
    signs_body: bool,
    signs_time: bool,
    /// Key of the conversation.
    key: &'static str,
    /// Path suffix and JSON pointer of the text in requests that send an answer.
    answer: Option<(&'static str, &'static str)>,
}

fn delivery_cases(base: &str) -> [DeliveryCase; 5] {
    [
        webhook_case(),
        slack_case(base),
        discord_case(base),
        github_case(base),
        telegram_case(base),
    ]
}

fn webhook_case() -> DeliveryCase {
    DeliveryCase {
        name: "hook",
        connection: webhook::HOOK.to_owned(),
        body: |_, text| json!({"text": text}).to_string(),
        signed: |age, id, body| webhook::signed(webhook::SECRET, &id.to_string(), age, body),
        required_headers: &["webhook-id", "webhook-timestamp", "webhook-signature"],
        signs_body: true,
        signs_time: true,
        key: "webhook:default",
        answer: None,
    }
}

fn slack_case(base: &str) -> DeliveryCase {
    DeliveryCase {
        name: "team",
        connection: slack::app(base),
        body: |id, text| {
            slack::message("1.2", text).replace(
                "\"ts\":\"1.2\"",
                &format!("\"ts\":\"1.{id}\",\"thread_ts\":\"1.0\""),
            )
        },
        signed: |age, _, body| slack::signed(slack::SECRET, age, body),
        required_headers: &["x-slack-request-timestamp", "x-slack-signature"],
        signs_body: true,
        signs_time: true,
        key: "slack:C1:1.0",
        answer: Some(("chat.postMessage", "/text")),
    }
}

fn discord_case(base: &str) -> DeliveryCase {
    DeliveryCase {
        name: "guild",
        connection: discord::guild(base),
        body: |id, text| discord::ask(&id.to_string(), "7", text),
        signed: |age, _, body| discord::signed(age, body),
        required_headers: &["x-signature-timestamp", "x-signature-ed25519"],
        signs_body: true,
        signs_time: true,
        key: "discord:5",
        answer: Some(("/messages/@original", "/content")),
    }
}

fn github_case(base: &str) -> DeliveryCase {
    DeliveryCase {
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
        required_headers: &["x-hub-signature-256"],
        signs_body: true,
        signs_time: false,
        key: "github:octo/hello#7",
        answer: Some(("/issues/7/comments", "/body")),
    }
}

fn telegram_case(base: &str) -> DeliveryCase {
    DeliveryCase {
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
        required_headers: &["x-telegram-bot-api-secret-token"],
        signs_body: false,
        signs_time: false,
        key: "telegram:7",
        answer: Some(("sendMessage", "/text")),
    }
}

async fn platform() -> MockPlatform {
    MockPlatform::start(|_| {
        Some(json(
            200,
            json!({"ok": true, "ts": "9.9", "id": "9", "result": {"message_id": 9}}),
        ))
    })
    .await
}

/// Changes one character of a text.
pub(crate) fn forged(text: &str) -> String {
    let last = text.chars().rfind(char::is_ascii_alphanumeric).unwrap();
    let (head, tail) = text.rsplit_once(last).unwrap();
    format!("{head}{}{tail}", if last == '1' { '2' } else { '1' })
}

#[tokio::test]
async fn every_platform_rejects_unsigned_stale_and_tampered_requests() {
    let platform = platform().await;
    for case in delivery_cases(&platform.base) {
        let state = tempfile::tempdir().unwrap();
        let runtime = TestRuntime::start(state.path(), &case.connection).await;
        let body = (case.body)(1, "let me in");
        let valid_headers = (case.signed)(0, 1, &body);
        let mut attempts = vec![(Vec::new(), body.clone())];
        for header in case.required_headers {
            attempts.push((
                valid_headers
                    .iter()
                    .filter(|(name, _)| name != header)
                    .cloned()
                    .collect(),
                body.clone(),
            ));
            let tampered = |(name, value): &(&'static str, String)| {
                (
                    *name,
                    if name == header {
                        forged(value)
                    } else {
                        value.clone()
                    },
                )
            };
            attempts.push((valid_headers.iter().map(tampered).collect(), body.clone()));
        }
        if case.signs_body {
            attempts.push((valid_headers.clone(), format!("{body} ")));
        }
        if case.signs_time {
            attempts.push(((case.signed)(301, 1, &body), body.clone()));
            attempts.push(((case.signed)(-301, 1, &body), body.clone()));
        }
        for (headers, body) in attempts {
            let (status, _) = runtime.deliver(case.name, &headers, body.as_bytes()).await;
            assert_eq!(
                status,
                StatusCode::UNAUTHORIZED,
                "{} {headers:?}",
                case.name
            );
        }
        assert_eq!(runtime.swarm.instances().await, [], "{}", case.name);
        assert_eq!(
            (
                runtime.snapshot(case.name).owed,
                runtime.snapshot(case.name).pending.len()
            ),
            (0, 0),
            "{}",
            case.name
        );
        // The unchanged request is accepted, so the signature was the reason for the rejections.
        assert!(
            runtime
                .deliver(case.name, &valid_headers, body.as_bytes())
                .await
                .0
                .is_success(),
            "{}",
            case.name
        );
        runtime.wait_for_answers(case.key, 1).await;
    }
}

#[tokio::test]
async fn repeated_deliveries_across_a_restart_start_one_turn() {
    let platform = platform().await;
    for case in delivery_cases(&platform.base) {
        let state = tempfile::tempdir().unwrap();
        let deliver = async |runtime: &TestRuntime, id, text: &str| {
            let body = (case.body)(id, text);
            let (status, response) = runtime
                .deliver(case.name, &(case.signed)(0, id, &body), body.as_bytes())
                .await;
            assert!(status.is_success(), "{} {status} {response}", case.name);
        };
        let runtime = TestRuntime::start(state.path(), &case.connection).await;
        deliver(&runtime, 1, "once").await;
        runtime.wait_for_answers(case.key, 1).await;
        runtime
            .wait_until(case.name, |snapshot| snapshot.owed == 0)
            .await;
        runtime.kill().await;
        let runtime = TestRuntime::start(state.path(), &case.connection).await;
        deliver(&runtime, 1, "once").await;
        deliver(&runtime, 1, "once").await;
        deliver(&runtime, 2, "more").await;
        // The last message comes after all earlier ones.
        let messages = runtime.wait_for_answers(case.key, 2).await;
        assert!(
            messages.len() == 2 && messages[0].contains("once") && messages[1].contains("more"),
            "{}: {messages:?}",
            case.name
        );
        runtime
            .wait_until(case.name, |snapshot| snapshot.owed == 0)
            .await;
        let Some((end, field)) = case.answer else {
            continue;
        };
        let sent: Vec<Value> = platform
            .calls(end)
            .iter()
            .map(|body| body.pointer(field).cloned().unwrap_or_default())
            .collect();
        let has = |text: &str| {
            sent.iter()
                .filter(|text_sent| text_sent.as_str().unwrap_or_default().contains(text))
                .count()
        };
        assert_eq!(
            (sent.len(), has("once"), has("more")),
            (2, 1, 1),
            "{}: {sent:?}",
            case.name
        );
        assert_eq!(runtime.snapshot(case.name).failed, [], "{}", case.name);
    }
}
