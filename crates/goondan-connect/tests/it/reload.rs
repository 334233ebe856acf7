//! A reload restarts what it has changed, and nothing else; what fails disturbs nobody.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_connect::ConnectionState;
use ring::hmac;
use serde_json::json;

use crate::platform::{Platform, json};
use crate::support::{Running, within};

fn hook(name: &str, secret: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: {name}}}\nspec:\n  \
         connectorRef: Connector/webhook\n  secrets: {{signingSecret: {{value: {secret}}}}}\n"
    )
}

const OLD: &str = "0123456789abcdef-old";
const NEW: &str = "0123456789abcdef-new";

async fn deliver(running: &Running, name: &str, secret: &str, id: &str) -> StatusCode {
    let at = chrono::Utc::now().timestamp().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, format!("{id}.{at}.x").as_bytes()));
    let headers = [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at),
        ("webhook-signature", format!("v1,{signature}")),
    ];
    running.deliver(name, &headers, b"x").await.0
}

#[tokio::test]
async fn a_changed_connection_is_restarted_and_the_others_go_on() {
    let state = tempfile::tempdir().unwrap();
    let both = |secret| format!("{}---\n{}", hook("one", OLD), hook("two", secret));
    let running = Running::start(state.path(), &both(OLD)).await;
    running.until("one", |look| look.status.is_some()).await;
    let since = running.look("one").status.unwrap().since;
    assert_eq!(
        deliver(&running, "two", OLD, "1").await,
        StatusCode::ACCEPTED
    );
    running.reload(&both(NEW)).await;
    within(async {
        let mut number = 2;
        while deliver(&running, "two", NEW, &number.to_string()).await != StatusCode::ACCEPTED {
            number += 1;
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        deliver(&running, "two", OLD, "o").await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        running.look("one").status.unwrap().since,
        since,
        "nobody has touched it"
    );
    running.reload(&hook("one", OLD)).await;
    within(async {
        while deliver(&running, "two", NEW, "g").await != StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        deliver(&running, "one", OLD, "1").await,
        StatusCode::ACCEPTED
    );
}

#[tokio::test]
async fn a_connection_that_fails_says_so_and_disturbs_nobody() {
    let state = tempfile::tempdir().unwrap();
    let platform = Platform::start(|_| {
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
    let running = Running::start(state.path(), &format!("{bot}---\n{}", hook("one", OLD))).await;
    let failing = |look: &goondan_connect::ConnectionSnapshot| {
        look.status
            .as_ref()
            .is_some_and(|status| status.state == ConnectionState::Failing)
    };
    running.until("bot", failing).await;
    let why = running.look("bot").status.unwrap().why.unwrap();
    assert!(
        why.contains("another program receives") && !why.contains("secret"),
        "{why}"
    );
    assert_eq!(
        deliver(&running, "one", OLD, "1").await,
        StatusCode::ACCEPTED
    );
    platform.wait("getUpdates", 2).await;
}
