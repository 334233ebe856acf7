//! `slack`: signed events, URL verification, and answers in threads.

use axum::http::StatusCode;
use ring::hmac;
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, json};
use crate::support::TestRuntime;

pub(crate) const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

pub(crate) fn app(base: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: team}}\nspec:\n  connectorRef: Connector/slack\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  \
         secrets: {{botToken: {{value: xoxb-1}}, signingSecret: {{value: {SECRET}}}}}\n"
    )
}

pub(crate) fn signed(secret: &str, age: i64, body: &str) -> Vec<(&'static str, String)> {
    let at = (chrono::Utc::now().timestamp() - age).to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{at}:{body}").as_bytes());
    let hex: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    vec![
        ("x-slack-request-timestamp", at),
        ("x-slack-signature", format!("v0={hex}")),
    ]
}

pub(crate) fn message(ts: &str, text: &str) -> String {
    json!({"type": "event_callback", "team_id": "T1", "event_id": format!("Ev{ts}"), "event": {
        "type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": ts, "text": text,
    }})
    .to_string()
}

async fn accepting_slack() -> MockPlatform {
    MockPlatform::start(|_| Some(json(200, json!({"ok": true})))).await
}

#[tokio::test]
async fn a_direct_message_is_answered_inline_with_slack_markup() {
    let state = tempfile::tempdir().unwrap();
    let platform = accepting_slack().await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    for (ts, text) in [("1.2", "**one**"), ("1.3", "two")] {
        let body =
            message(ts, text).replace("\"channel_type\":\"channel\"", "\"channel_type\":\"im\"");
        let headers = signed(SECRET, 0, &body);
        let (status, _) = runtime.deliver("team", &headers, body.as_bytes()).await;
        assert_eq!(status, StatusCode::OK);
    }
    let sent = platform.wait_for_calls("chat.postMessage", 2).await;
    assert_eq!(
        sent,
        [
            json!({"channel": "C1", "text": "heard *one*"}),
            json!({"channel": "C1", "text": "heard two"}),
        ]
    );
    assert_eq!(runtime.user_messages("slack:C1").await, ["**one**", "two"]);
    runtime.kill().await;
}

#[tokio::test]
async fn a_repeated_message_is_answered_once_in_its_thread() {
    let state = tempfile::tempdir().unwrap();
    let platform = accepting_slack().await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let body = message("1.2", "&lt;hello&gt;");
    for number in 0..3 {
        let mut headers = signed(SECRET, 0, &body);
        headers.push(("x-slack-retry-num", number.to_string()));
        assert_eq!(
            runtime.deliver("team", &headers, body.as_bytes()).await.0,
            StatusCode::OK
        );
    }
    let sent = platform.wait_for_calls("chat.postMessage", 1).await;
    assert_eq!(
        sent[0],
        json!({"channel": "C1", "thread_ts": "1.2", "text": "heard &lt;hello&gt;"})
    );
    runtime
        .wait_until("team", |snapshot| snapshot.owed == 0)
        .await;
    runtime.kill().await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let headers = signed(SECRET, 0, &body);
    assert_eq!(
        runtime.deliver("team", &headers, body.as_bytes()).await.0,
        StatusCode::OK
    );
    assert_eq!(runtime.user_messages("slack:C1:1.2").await, ["<hello>"]);
    let other = message("1.3", "more");
    runtime
        .deliver("team", &signed(SECRET, 0, &other), other.as_bytes())
        .await;
    platform.wait_for_calls("chat.postMessage", 2).await;
    runtime
        .wait_until("team", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(platform.calls("chat.postMessage").len(), 2);
}

#[tokio::test]
async fn url_verification_works_and_forged_requests_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let platform = accepting_slack().await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let check = r#"{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}"#;
    let (status, answer) = runtime
        .deliver("team", &signed(SECRET, 0, check), check.as_bytes())
        .await;
    assert_eq!(
        (status, answer.as_str()),
        (
            StatusCode::OK,
            "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"
        )
    );
    let body = message("1.2", "x");
    let other = message("1.2", "y");
    for (headers, body) in [
        (vec![], &body),
        (signed(SECRET, 301, &body), &body),
        (signed("another secret", 0, &body), &body),
        (signed(SECRET, 0, &body), &other),
    ] {
        assert_eq!(
            runtime.deliver("team", &headers, body.as_bytes()).await.0,
            StatusCode::UNAUTHORIZED
        );
    }
    let bot = json!({"type": "event_callback", "event": {"type": "message", "bot_id": "B1", "text": "x"}}).to_string();
    let (status, answer) = runtime
        .deliver("team", &signed(SECRET, 0, &bot), bot.as_bytes())
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        serde_json::from_str::<Value>(&answer).unwrap()["ignored"],
        true
    );
    assert_eq!(runtime.swarm.instances().await, []);
}

#[tokio::test]
async fn an_error_in_the_response_body_fails_the_answer() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|call| {
        Some(json(
            200,
            match call.path.ends_with("auth.test") {
                true => json!({"ok": true, "team_id": "T1"}),
                false => json!({"ok": false, "error": "channel_not_found"}),
            },
        ))
    })
    .await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let body = message("1.2", "x");
    runtime
        .deliver("team", &signed(SECRET, 0, &body), body.as_bytes())
        .await;
    runtime
        .wait_until("team", |snapshot| !snapshot.failed.is_empty())
        .await;
    assert!(
        runtime.snapshot("team").failed[0]
            .why
            .as_deref()
            .unwrap()
            .contains("channel_not_found")
    );
}

#[tokio::test]
async fn a_connection_with_its_own_port_needs_no_server() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let state = tempfile::tempdir().unwrap();
    let platform = accepting_slack().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = app(&platform.base).replace(
        "config: {",
        &format!("config: {{SLACK_WEBHOOK_PORT: {{value: \"{port}\"}}, SLACK_WEBHOOK_PATH: {{value: /slack/}}, "),
    );
    let runtime = TestRuntime::start_with(
        state.path(),
        &text,
        &[],
        goondan_connect::ConnectionOptions::default(),
    )
    .await;
    let post = async |path: &str, secret: &str| {
        let body = message("1.2", "hello");
        let headers: String = signed(secret, 0, &body)
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let mut stream = loop {
            match tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    crate::support::with_timeout(async {
        assert_eq!(post("/slack", SECRET).await, "200");
        assert_eq!(post("/slack", "another secret that is long").await, "401");
        assert_eq!(post("/", SECRET).await, "404");
    })
    .await;
    platform.wait_for_calls("chat.postMessage", 1).await;
    assert_eq!(runtime.user_messages("slack:C1:1.2").await, ["hello"]);
}

#[tokio::test]
async fn a_status_is_shown_while_the_answer_is_written() {
    let state = tempfile::tempdir().unwrap();
    let platform = accepting_slack().await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let body = message("1.2", "slow");
    assert_eq!(
        runtime
            .deliver("team", &signed(SECRET, 0, &body), body.as_bytes())
            .await
            .0,
        StatusCode::OK
    );
    let shown = platform
        .wait_for_calls("assistant.threads.setStatus", 1)
        .await;
    assert_eq!(
        shown[0],
        json!({"channel_id": "C1", "thread_ts": "1.2", "status": "is thinking..."})
    );
    assert_eq!(platform.calls("chat.postMessage"), Vec::<Value>::new());
}

#[tokio::test]
async fn only_events_of_the_bot_workspace_are_accepted() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|call| {
        let is_auth_test = call.path.ends_with("auth.test");
        Some(json(
            200,
            match is_auth_test {
                true => json!({"ok": true, "team_id": "T1", "user_id": "U0"}),
                false => json!({"ok": true}),
            },
        ))
    })
    .await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let other = message("1.2", "secret of another team").replace("\"T1\"", "\"T2\"");
    let (status, answer) = runtime
        .deliver("team", &signed(SECRET, 0, &other), other.as_bytes())
        .await;
    assert_eq!(status, StatusCode::OK);
    assert!(answer.contains("ignored"), "{answer}");
    let own = message("1.2", "hello");
    runtime
        .deliver("team", &signed(SECRET, 0, &own), own.as_bytes())
        .await;
    platform.wait_for_calls("chat.postMessage", 1).await;
    assert_eq!(runtime.user_messages("slack:C1:1.2").await, ["hello"]);
    assert_eq!(platform.calls("auth.test").len(), 1);
    runtime.kill().await;
}

#[tokio::test]
async fn events_are_rejected_until_the_workspace_is_known() {
    let state = tempfile::tempdir().unwrap();
    let platform =
        MockPlatform::start(|_| Some(json(200, json!({"ok": false, "error": "fatal_error"}))))
            .await;
    let runtime = TestRuntime::start(state.path(), &app(&platform.base)).await;
    let body = message("1.2", "hello");
    for _ in 0..2 {
        let headers = signed(SECRET, 0, &body);
        let (status, _) = runtime.deliver("team", &headers, body.as_bytes()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(platform.calls("auth.test").len(), 1, "no request per event");
    runtime.kill().await;
}
