//! Reloads restart only changed connections, and a failing connection does not affect others.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_connect::ConnectionState;
use ring::hmac;
use serde_json::json;

use crate::mock_platform::{MockPlatform, json};
use crate::support::{TestRuntime, with_timeout};

fn hook(name: &str, secret: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: {name}}}\nspec:\n  \
         connectorRef: Connector/webhook\n  secrets: {{signingSecret: {{value: {secret}}}}}\n"
    )
}

const OLD: &str = "0123456789abcdef-old";
const NEW: &str = "0123456789abcdef-new";

async fn deliver(runtime: &TestRuntime, name: &str, secret: &str, id: &str) -> StatusCode {
    let at = chrono::Utc::now().timestamp().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, format!("{id}.{at}.x").as_bytes()));
    let headers = [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at),
        ("webhook-signature", format!("v1,{signature}")),
    ];
    runtime.deliver(name, &headers, b"x").await.0
}

#[tokio::test]
async fn a_reload_restarts_only_changed_connections() {
    let state = tempfile::tempdir().unwrap();
    let both = |secret| format!("{}---\n{}", hook("one", OLD), hook("two", secret));
    let runtime = TestRuntime::start(state.path(), &both(OLD)).await;
    runtime
        .wait_until("one", |snapshot| snapshot.status.is_some())
        .await;
    let since = runtime.snapshot("one").status.unwrap().since;
    assert_eq!(
        deliver(&runtime, "two", OLD, "1").await,
        StatusCode::ACCEPTED
    );
    runtime.reload(&both(NEW)).await;
    with_timeout(async {
        let mut number = 2;
        while deliver(&runtime, "two", NEW, &number.to_string()).await != StatusCode::ACCEPTED {
            number += 1;
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        deliver(&runtime, "two", OLD, "o").await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        runtime.snapshot("one").status.unwrap().since,
        since,
        "the unchanged connection was not restarted"
    );
    runtime.reload(&hook("one", OLD)).await;
    with_timeout(async {
        while deliver(&runtime, "two", NEW, "g").await != StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        deliver(&runtime, "one", OLD, "1").await,
        StatusCode::ACCEPTED
    );
}

#[tokio::test]
async fn a_failing_connection_reports_its_error_and_affects_no_other() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| {
        Some(json(
            409,
            json!({"ok": false, "description": "Conflict: terminated by other"}),
        ))
    })
    .await;
    let bot = format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{}\"}}}}\n  secrets: {{botToken: {{value: \"123:secret\"}}}}\n",
        platform.base
    );
    let runtime =
        TestRuntime::start(state.path(), &format!("{bot}---\n{}", hook("one", OLD))).await;
    let failing = |snapshot: &goondan_connect::ConnectionSnapshot| {
        snapshot
            .status
            .as_ref()
            .is_some_and(|status| status.state == ConnectionState::Failing)
    };
    runtime.wait_until("bot", failing).await;
    let why = runtime.snapshot("bot").status.unwrap().why.unwrap();
    assert!(
        why.contains("another program receives") && !why.contains("secret"),
        "{why}"
    );
    assert_eq!(
        deliver(&runtime, "one", OLD, "1").await,
        StatusCode::ACCEPTED
    );
    platform.wait_for_calls("getUpdates", 2).await;
}
