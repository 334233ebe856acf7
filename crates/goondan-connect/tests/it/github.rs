//! `github`: signed webhooks, answers as comments.

use axum::http::StatusCode;
use ring::hmac;
use serde_json::json;

use crate::mock_platform::{MockPlatform, json};
use crate::support::TestRuntime;

const SECRET: &str = "It's a Secret to Everybody";

pub(crate) fn hub(base: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: hub}}\nspec:\n  connectorRef: Connector/github\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  \
         secrets: {{token: {{value: ghp_1}}, webhookSecret: {{value: \"{SECRET}\"}}}}\n"
    )
}

pub(crate) fn signed(kind: &str, delivery: &str, body: &str) -> Vec<(&'static str, String)> {
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()),
        body.as_bytes(),
    );
    let hex: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    vec![
        ("x-github-event", kind.to_owned()),
        ("x-github-delivery", delivery.to_owned()),
        ("x-hub-signature-256", format!("sha256={hex}")),
    ]
}

#[tokio::test]
async fn an_issue_is_answered_once_with_a_comment() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(201, json!({"id": 1})))).await;
    let runtime = TestRuntime::start(state.path(), &hub(&platform.base)).await;
    let body = json!({
        "action": "opened", "issue": {"number": 7, "title": "It fails", "body": "Why?"},
        "repository": {"full_name": "octo/hello"}, "sender": {"login": "ada", "type": "User"},
    })
    .to_string();
    // The third delivery repeats the body with another id, as an attacker could: the signature
    // covers only the body.
    for delivery in ["d-1", "d-1", "d-5"] {
        let (status, _) = runtime
            .deliver("hub", &signed("issues", delivery, &body), body.as_bytes())
            .await;
        assert_eq!(status, StatusCode::ACCEPTED);
    }
    let sent = platform
        .wait_for_calls("/repos/octo/hello/issues/7/comments", 1)
        .await;
    let comment = sent[0]["body"].as_str().unwrap().to_owned();
    assert!(
        comment.starts_with("heard Issue #7 of octo/hello (opened by ada): It fails"),
        "{comment}"
    );
    runtime
        .wait_until("hub", |snapshot| snapshot.owed == 0)
        .await;
    // GitHub also delivers the comment of the bot.
    let own = json!({
        "action": "created", "issue": {"number": 7, "title": "It fails"}, "comment": {"body": comment},
        "repository": {"full_name": "octo/hello"}, "sender": {"login": "owner-of-the-token", "type": "User"},
    })
    .to_string();
    let (status, answer) = runtime
        .deliver("hub", &signed("issue_comment", "d-2", &own), own.as_bytes())
        .await;
    assert_eq!((status, answer.as_str()), (StatusCode::OK, "ignored\n"));
    assert_eq!(runtime.user_messages("github:octo/hello#7").await.len(), 1);
    let ping = json!({"zen": "Keep it logically awesome."}).to_string();
    assert_eq!(
        runtime
            .deliver("hub", &signed("ping", "d-3", &ping), ping.as_bytes())
            .await
            .0,
        StatusCode::OK
    );
    let mut forged = signed("issues", "d-4", &body);
    forged[2].1 = forged[2].1.replace("sha256=", "sha1=");
    assert_eq!(
        runtime.deliver("hub", &forged, body.as_bytes()).await.0,
        StatusCode::UNAUTHORIZED
    );
}
