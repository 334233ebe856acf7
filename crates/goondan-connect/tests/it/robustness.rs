//! Bursts of events, and requests with arbitrary bodies.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ring::hmac;
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, json, ok_response};
use crate::support::TestRuntime;
use crate::{deliveries, discord};

const SECRET: &str = "0123456789abcdef0123";

/// Connections to the platforms that sign HTTP deliveries with a shared secret.
pub(crate) const SIGNED_CONNECTIONS: &str = r#"
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: webhook}
spec:
  connectorRef: Connector/webhook
  config: {signatureHeader: {value: X-Signature}}
  secrets: {signingSecret: {value: "0123456789abcdef0123"}}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: slack}
spec:
  connectorRef: Connector/slack
  reply: none
  secrets: {signingSecret: {value: "0123456789abcdef0123"}}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: github}
spec:
  connectorRef: Connector/github
  reply: none
  secrets: {webhookSecret: {value: "0123456789abcdef0123"}}
"#;

fn hmac_hex(message: &[u8]) -> String {
    hmac_hex_of(SECRET.as_bytes(), message)
}

pub(crate) fn hmac_hex_of(key: &[u8], message: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub(crate) fn headers(platform: &str, kind: &str, body: &[u8]) -> Vec<(&'static str, String)> {
    match platform {
        "webhook" => vec![("x-signature", hmac_hex(body))],
        "slack" => {
            let at = chrono::Utc::now().timestamp().to_string();
            let tag = hmac_hex(&[b"v0:", at.as_bytes(), b":", body].concat());
            vec![
                ("x-slack-request-timestamp", at),
                ("x-slack-signature", format!("v0={tag}")),
            ]
        }
        "telegram" => vec![(
            "x-telegram-bot-api-secret-token",
            hmac_hex_of(b"123:abc", b"webhook of telegram"),
        )],
        "guild" => discord::signed(0, &String::from_utf8_lossy(body)),
        _ => vec![
            ("x-github-event", kind.to_owned()),
            ("x-github-delivery", hmac_hex(body)),
            ("x-hub-signature-256", format!("sha256={}", hmac_hex(body))),
        ],
    }
}

/// Returns JSON values with field names of the platforms in arbitrary places.
fn value() -> impl Strategy<Value = Value> {
    let words = "type|event|event_callback|message|app_mention|text|channel|ts|user|issue|number|title|body|action|opened|\
                 repository|full_name|octo/hello|sender|login|comment|pull_request|instanceKey|properties|url_verification|callback_query|data|from|chat|id|block_actions|actions|value|member|token|\
                 application_id|channel_id|custom_id|update_id|name|options|gdn:allow:00";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        let object = prop::collection::vec((words, inner.clone()), 0..6);
        prop_oneof![
            object.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

/// Returns a Telegram connection with a webhook, as a further YAML document.
pub(crate) fn telegram(base: &str) -> String {
    format!(
        "---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: telegram}}\nspec:\n  connectorRef: \
         Connector/telegram\n  config: {{apiBaseUrl: {{value: \"{}\"}}, webhookUrl: {{value: \"https://x.example\"}}}}\n  \
         secrets: {{botToken: {{value: \"123:abc\"}}}}\n",
        base
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn arbitrary_bodies_never_cause_a_server_error() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(ok_response())).await;
    let telegram = telegram(&platform.base);
    let all = format!(
        "{SIGNED_CONNECTIONS}{telegram}---\n{}",
        discord::guild(&platform.base)
    );
    let runtime = TestRuntime::start(state.path(), &all).await;
    let body = prop_oneof![
        4 => value().prop_map(|value| value.to_string().into_bytes()),
        1 => value().prop_map(|value| format!("payload={}", value.to_string().replace('&', "%26")).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ];
    let kinds = prop::sample::select(vec![
        "push",
        "issues",
        "issue_comment",
        "pull_request",
        "ping",
        "odd",
    ]);
    for platform in ["webhook", "slack", "github", "telegram", "guild"] {
        let mut runner = TestRunner::new(Config {
            cases: 1_000,
            failure_persistence: None,
            ..Config::default()
        });
        let handle = tokio::runtime::Handle::current();
        let outcome = tokio::task::block_in_place(|| {
            runner.run(&(&body, &kinds), |(body, kind)| {
                let deliver = |headers: &[(&str, String)]| {
                    handle
                        .block_on(runtime.deliver(platform, headers, &body))
                        .0
                        .as_u16()
                };
                let signed = headers(platform, kind, &body);
                let unsigned: Vec<(&str, String)> = signed
                    .iter()
                    .map(|(name, value)| (*name, deliveries::forged(value)))
                    .collect();
                for refused in [&[][..], &unsigned] {
                    prop_assert_eq!(deliver(refused), 401);
                }
                let status = deliver(&signed);
                let is_text = platform != "guild" || std::str::from_utf8(&body).is_ok();
                prop_assert!(
                    status < 500 && (status != 401 || !is_text),
                    "{status} {body:?}"
                );
                Ok(())
            })
        });
        outcome.unwrap_or_else(|error| panic!("{platform}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_answered_in_order_in_each_chat() {
    const CHATS: i64 = 10;
    const EACH: i64 = 30;
    let state = tempfile::tempdir().unwrap();
    let updates: Vec<Value> = (0..CHATS * EACH)
        .map(|number| {
            json!({"update_id": number + 1, "message": {
                "message_id": number, "text": format!("{number}"), "chat": {"id": number % CHATS, "type": "private"},
                "from": {"id": 7, "is_bot": false},
            }})
        })
        .collect();
    let platform = MockPlatform::start(move |call| match call.path.ends_with("getUpdates") {
        true if call.body["offset"] == 0 => Some(json(200, json!({"ok": true, "result": updates}))),
        true => None,
        false => Some(ok_response()),
    })
    .await;
    let connection = format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{}\"}}}}\n  secrets: {{botToken: {{value: t}}}}\n  allow: {{senders: [\"*\"]}}\n",
        platform.base
    );
    let runtime = TestRuntime::start(state.path(), &connection).await;
    let sent = platform
        .wait_for_calls("sendMessage", usize::try_from(CHATS * EACH).unwrap())
        .await;
    for chat in 0..CHATS {
        let answers: Vec<&str> = sent
            .iter()
            .filter(|body| body["chat_id"] == chat)
            .map(|body| body["text"].as_str().unwrap())
            .collect();
        let expected: Vec<String> = (0..EACH)
            .map(|round| format!("heard {}", round * CHATS + chat))
            .collect();
        assert_eq!(answers, expected);
    }
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
}
