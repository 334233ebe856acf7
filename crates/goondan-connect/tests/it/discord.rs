//! `discord`: signed interactions, and answers that replace "thinking…".

use axum::http::StatusCode;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, json};
use crate::support::TestRuntime;

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn guild(base: &str) -> String {
    let key = hex(pair().public_key().as_ref());
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: guild}}\nspec:\n  \
         connectorRef: Connector/discord\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}, publicKey: {{value: \"{key}\"}}}}\n  allow: {{senders: [\"7\"]}}\n"
    )
}

pub(crate) fn signed(age: i64, body: &str) -> Vec<(&'static str, String)> {
    let at = (chrono::Utc::now().timestamp() - age).to_string();
    let signature = hex(pair().sign(format!("{at}{body}").as_bytes()).as_ref());
    vec![
        ("x-signature-timestamp", at),
        ("x-signature-ed25519", signature),
    ]
}

pub(crate) fn ask(id: &str, user: &str, text: &str) -> String {
    json!({
        "type": 2, "id": id, "application_id": "2", "token": "tok", "channel_id": "5",
        "data": {"name": "ask", "options": [{"name": "question", "value": text}]},
        "member": {"user": {"id": user, "username": "ada"}},
    })
    .to_string()
}

#[tokio::test]
async fn a_command_is_answered_and_an_unknown_sender_is_notified() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(200, json!({"id": "1"})))).await;
    let runtime = TestRuntime::start(state.path(), &guild(&platform.base)).await;
    let deliver = async |body: String| {
        let (status, answer) = runtime
            .deliver("guild", &signed(0, &body), body.as_bytes())
            .await;
        (status, serde_json::from_str::<Value>(&answer).unwrap())
    };
    assert_eq!(
        deliver(json!({"type": 1}).to_string()).await,
        (StatusCode::OK, json!({"type": 1}))
    );
    assert_eq!(
        deliver(ask("1", "7", &"word ".repeat(500))).await,
        (StatusCode::OK, json!({"type": 5}))
    );
    let first = platform
        .wait_for_calls("/webhooks/2/tok/messages/@original", 1)
        .await;
    assert!(
        first[0]["content"]
            .as_str()
            .unwrap()
            .starts_with("heard word")
    );
    assert_eq!(first[0]["allowed_mentions"], json!({"parse": []}));
    platform.wait_for_calls("/webhooks/2/tok", 1).await;
    let (_, response) = deliver(ask("2", "8", "let me in")).await;
    assert_eq!(response["data"]["flags"], 64);
    assert_eq!(runtime.snapshot("guild").pending[0].id, "8");
    assert_eq!(runtime.user_messages("discord:5").await.len(), 1);
    runtime
        .wait_until("guild", |snapshot| snapshot.owed == 0)
        .await;
    let outbox =
        std::fs::read_to_string(state.path().join("w/connections/guild/outbox.jsonl")).unwrap();
    assert!(outbox.contains("\"sent\""), "{outbox}");
}

#[tokio::test]
async fn unsigned_stale_and_tampered_interactions_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| None).await;
    let runtime = TestRuntime::start(state.path(), &guild(&platform.base)).await;
    let (body, other) = (ask("1", "7", "x"), ask("1", "7", "y"));
    for (headers, body) in [
        (vec![], &body),
        (signed(301, &body), &body),
        (signed(0, &body), &other),
    ] {
        assert_eq!(
            runtime.deliver("guild", &headers, body.as_bytes()).await.0,
            StatusCode::UNAUTHORIZED
        );
    }
    assert_eq!(runtime.swarm.instances().await, []);
}

#[tokio::test]
async fn an_answer_is_streamed_and_a_button_closes_the_request() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(200, json!({"id": "77"})))).await;
    let connection = guild(&platform.base)
        .replace("senders: [\"7\"]", "senders: [\"7\"], approvers: [\"9\"]")
        + "  reply: stream\n";
    let runtime = TestRuntime::start(state.path(), &connection).await;
    let deliver = async |body: String| {
        let (status, answer) = runtime
            .deliver("guild", &signed(0, &body), body.as_bytes())
            .await;
        assert_eq!(status, StatusCode::OK);
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    assert_eq!(deliver(ask("1", "7", "plan it")).await, json!({"type": 5}));
    let request = platform.wait_for_calls("/webhooks/2/tok", 1).await;
    let allow = request[0]["components"][0]["components"][0]["custom_id"]
        .as_str()
        .unwrap()
        .to_owned();
    platform
        .wait_until("@original", |calls| {
            calls.iter().any(|call| call["content"] == "Let me plan. …")
        })
        .await;
    let press = |id: &str, user: &str| {
        json!({
            "type": 3, "id": id, "application_id": "2", "token": "other", "channel_id": "5",
            "data": {"custom_id": allow, "component_type": 2}, "member": {"user": {"id": user, "username": "eve"}},
        })
        .to_string()
    };
    let response = deliver(press("2", "7")).await;
    assert_eq!(
        (&response["type"], &response["data"]["flags"]),
        (&json!(4), &json!(64)),
        "{response}"
    );
    let response = deliver(press("3", "9")).await;
    assert_eq!(
        (&response["type"], &response["data"]["components"]),
        (&json!(7), &json!([])),
        "{response}"
    );
    assert!(
        response["data"]["content"]
            .as_str()
            .unwrap()
            .ends_with("Allowed by eve."),
        "{response}"
    );
    platform
        .wait_until("@original", |calls| {
            calls.iter().any(|call| call["content"] == "it is done")
        })
        .await;
    runtime
        .wait_until("guild", |snapshot| snapshot.owed == 0)
        .await;
}
