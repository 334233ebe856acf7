//! `webhook`: signed requests that start one turn each.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::support::{TestRuntime, with_timeout};

pub(crate) const SECRET: &str = "0123456789abcdef0123";

pub(crate) const HOOK: &str = r#"
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: hook}
spec:
  connectorRef: Connector/webhook
  secrets: {signingSecret: {value: "0123456789abcdef0123"}}
  ingress:
    rules:
      - {match: {properties: {urgent: true}}, route: {agentRef: Agent/a, instanceKey: urgent}}
      - {match: {properties: {team: x}}, route: {instanceKeyProperty: team, instanceKeyPrefix: "team:"}}
"#;

pub(crate) fn signed(
    secret: &str,
    id: &str,
    age: i64,
    body: impl AsRef<[u8]>,
) -> Vec<(&'static str, String)> {
    let at = (chrono::Utc::now().timestamp() - age).to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let message = [format!("{id}.{at}.").as_bytes(), body.as_ref()].concat();
    let signature = STANDARD.encode(hmac::sign(&key, &message));
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at),
        ("webhook-signature", format!("v1,{signature}")),
    ]
}

#[tokio::test]
async fn a_signed_request_starts_a_turn_in_the_routed_conversation() {
    let state = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(state.path(), HOOK).await;
    let send = async |id: &str, body: &str| {
        runtime
            .deliver("hook", &signed(SECRET, id, 0, body), body.as_bytes())
            .await
            .0
    };
    assert_eq!(send("1", r#"{"text": "one"}"#).await, StatusCode::ACCEPTED);
    assert_eq!(
        send("2", r#"{"text": "two", "properties": {"urgent": true}}"#).await,
        StatusCode::ACCEPTED
    );
    assert_eq!(send("3", r#"{"team": "x"}"#).await, StatusCode::ACCEPTED);
    assert_eq!(
        runtime.wait_for_answers("webhook:default", 1).await,
        ["one"]
    );
    assert_eq!(runtime.wait_for_answers("urgent", 1).await, ["two"]);
    assert_eq!(
        runtime.wait_for_answers("team:x", 1).await,
        [r#"{"team": "x"}"#]
    );
    let messages = runtime
        .swarm
        .conversation(&goondan::ids::InstanceId::new("a", "team:x"))
        .await
        .unwrap();
    assert_eq!(
        messages[0].metadata["connection"]["properties"]["team"],
        "x"
    );
    assert_eq!(messages[0].metadata["connection"]["name"], "hook");
}

#[tokio::test]
async fn a_repeated_delivery_starts_no_second_turn_after_a_crash() {
    let state = tempfile::tempdir().unwrap();
    let body = r#"{"text": "one"}"#;
    let runtime = TestRuntime::start(state.path(), HOOK).await;
    for _ in 0..3 {
        assert_eq!(
            runtime
                .deliver("hook", &signed(SECRET, "1", 0, body), body.as_bytes())
                .await
                .0,
            StatusCode::ACCEPTED
        );
    }
    runtime.kill().await;
    let runtime = TestRuntime::start(state.path(), HOOK).await;
    assert_eq!(
        runtime
            .deliver("hook", &signed(SECRET, "1", 0, body), body.as_bytes())
            .await
            .0,
        StatusCode::ACCEPTED
    );
    let other = r#"{"text": "two"}"#;
    assert_eq!(
        runtime
            .deliver("hook", &signed(SECRET, "2", 0, other), other.as_bytes())
            .await
            .0,
        StatusCode::ACCEPTED
    );
    assert_eq!(
        runtime.wait_for_answers("webhook:default", 2).await,
        ["one", "two"]
    );
}

#[tokio::test]
async fn the_sender_does_not_wait_for_the_model() {
    let state = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(state.path(), HOOK).await;
    let body = "slow";
    let (status, _) =
        with_timeout(runtime.deliver("hook", &signed(SECRET, "1", 0, body), body.as_bytes())).await;
    assert_eq!(status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn unsigned_stale_and_tampered_webhooks_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(state.path(), HOOK).await;
    let good = signed(SECRET, "1", 0, "x");
    let without = |name: &str| {
        good.iter()
            .filter(|(header, _)| *header != name)
            .cloned()
            .collect::<Vec<_>>()
    };
    let attempts = [
        (vec![], "x"),
        (without("webhook-id"), "x"),
        (without("webhook-timestamp"), "x"),
        (without("webhook-signature"), "x"),
        (good.clone(), "y"),
        (signed("0123456789abcdef0124", "1", 0, "x"), "x"),
        (signed(SECRET, "1", 301, "x"), "x"),
        (signed(SECRET, "1", -301, "x"), "x"),
    ];
    for (headers, body) in attempts {
        let (status, _) = runtime.deliver("hook", &headers, body.as_bytes()).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{headers:?} {body}");
    }
    assert_eq!(
        runtime.deliver("other", &good, b"x").await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        runtime.deliver("hook", &good, b"x").await.0,
        StatusCode::ACCEPTED
    );
    assert_eq!(runtime.wait_for_answers("webhook:default", 1).await, ["x"]);
    let large = "x".repeat(1024 * 1024 + 1);
    let (status, _) = runtime
        .deliver("hook", &signed(SECRET, "2", 0, &large), large.as_bytes())
        .await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_repeated_delivery_finds_its_turn_after_a_route_change() {
    let state = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(state.path(), HOOK).await;
    let send = async |id: &str, text: &str| {
        let body = format!(r#"{{"text": "{text}"}}"#);
        let headers = signed(SECRET, id, 0, &body);
        let (status, _) = runtime.deliver("hook", &headers, body.as_bytes()).await;
        assert_eq!(status, StatusCode::ACCEPTED);
    };
    send("1", "over").await;
    runtime.wait_for_answers("webhook:default", 1).await;
    send("2", "slow").await;
    send("1", "over").await;
    send("2", "slow").await;
    let (head, _) = HOOK.split_once("  ingress:").unwrap();
    let rule = "{match: {event: webhook_message}, route: {agentRef: Agent/a, instanceKey: new}}";
    runtime
        .reload(&format!("{head}  ingress: {{rules: [{rule}]}}\n"))
        .await;
    with_timeout(async {
        let mut number = 3;
        while runtime.user_messages("new").await.is_empty() {
            send(&number.to_string(), "more").await;
            number += 1;
        }
    })
    .await;
    send("1", "over").await;
    send("2", "slow").await;
    send("last", "last").await;
    let messages = with_timeout(async {
        loop {
            let messages = runtime.user_messages("new").await;
            if messages.last().is_some_and(|text| text == "last") {
                return messages;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(
        !messages.iter().any(|text| text == "over" || text == "slow"),
        "{messages:?}"
    );
}
