use serde_json::{Value, json};
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::mock_engine::{MockEngine, with_unknown};

/// Starts a local server, and a mock engine with channels to the server: `ops` accepts messages,
/// `full` refuses messages, and `away` redirects.
async fn server() -> (MockServer, MockEngine) {
    let server = MockServer::builder().start().await;
    let accepted_body = json!({
        "to": "ops:night-shift", "content": "it is down", "text": "it is down", "agent": "assistant", "instanceKey": "main",
    });
    Mock::given(method("POST"))
        .and(path("/hook-s3cr3t"))
        .and(header("content-type", "application/json"))
        .and(body_json(accepted_body))
        .respond_with(ResponseTemplate::new(202))
        .mount(&server)
        .await;
    let refusal = ResponseTemplate::new(503).set_body_string("the queue is full");
    Mock::given(path("/full-s3cr3t"))
        .respond_with(refusal)
        .mount(&server)
        .await;
    let redirect =
        ResponseTemplate::new(307).insert_header("location", "ftp://elsewhere.example/s3cr3t");
    Mock::given(path("/away-s3cr3t"))
        .respond_with(redirect)
        .mount(&server)
        .await;
    let hook = |at: &str| json!({"webhook": {"url": {"value": format!("{}{at}", server.uri())}}});
    let channels = json!({
        "ops": hook("/hook-s3cr3t"), "full": hook("/full-s3cr3t"), "away": hook("/away-s3cr3t"),
        "nobody": {"webhook": {"url": {"value": format!("http://{}/s3cr3t", closed_port())}}},
        "colleague": {"agent": "worker", "instanceKey": "inbox"}, "stranger": {"agent": "nobody"}, "audit": {"log": "info"},
    });
    (
        server,
        MockEngine::new().config(json!({"allowPrivateNetwork": true, "channels": channels})),
    )
}

/// Returns a local address without a listener.
fn closed_port() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

fn message(to: &str) -> Value {
    json!({"to": to, "content": "it is down"})
}

#[tokio::test]
async fn a_webhook_receives_the_message_and_its_sender() {
    let (server, engine) = server().await;
    let output = engine
        .ok("messaging__message", message("ops:night-shift"))
        .await;
    assert_eq!(
        output,
        json!({"to": "ops:night-shift", "channel": "ops", "sent": true, "status": 202})
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn webhook_errors_report_the_cause_without_the_url() {
    let (_server, engine) = server().await;
    let cases = [
        (
            "full",
            "E_TOOL_HTTP",
            "the channel `full` returned 503 Service Unavailable: the queue is full",
        ),
        ("nobody", "E_TOOL_HTTP", "the request failed"),
        ("away", "E_TOOL_ADDRESS_BLOCKED", "ftp"),
    ];
    for (channel, expected, words) in cases {
        let (code, text) = engine.err("messaging__message", message(channel)).await;
        assert_eq!(code, expected, "{text}");
        assert!(text.contains(words) && !text.contains("s3cr3t"), "{text}");
    }
}

#[tokio::test]
async fn agents_and_the_log_can_be_channels() {
    let (_server, engine) = server().await;
    let output = engine.ok("messaging__message", message("colleague")).await;
    assert_eq!(
        (&output["channel"], &output["eventId"]),
        (&json!("colleague"), &json!("e1"))
    );
    let log = engine.runtime.log.lock().unwrap().join("\n");
    assert!(
        log.starts_with("send worker") && log.contains("it is down") && log.contains("inbox"),
        "{log}"
    );
    assert_eq!(
        engine.ok("messaging__message", message("audit")).await["sent"],
        true
    );
    assert_eq!(
        engine
            .err("messaging__message", message("stranger"))
            .await
            .0,
        "AGENT_NOT_FOUND"
    );
}

#[tokio::test]
async fn message_rejects_invalid_arguments_and_unknown_channels() {
    let (_server, engine) = server().await;
    let cases = [
        (json!({}), "E_TOOL_INVALID_ARGS"),
        (json!({"to": "ops"}), "E_TOOL_INVALID_ARGS"),
        (json!({"to": "ops", "content": ""}), "E_TOOL_INVALID_ARGS"),
        (
            json!({"to": ["ops"], "content": "x"}),
            "E_TOOL_INVALID_ARGS",
        ),
        (with_unknown(message("ops")), "E_TOOL_INVALID_ARGS"),
        (message("pager"), "E_TOOL_CHANNEL_NOT_FOUND"),
        (message(":ops"), "E_TOOL_CHANNEL_NOT_FOUND"),
    ];
    for (args, expected) in cases {
        let (code, text) = engine.err("messaging__message", args).await;
        assert_eq!(code, expected, "{text}");
    }
}
