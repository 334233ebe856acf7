use serde_json::{Value, json};
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::bench::{Bench, with_unknown};

/// Starts a bench with channels to a local server: one accepts messages, one refuses them, one
/// redirects.
async fn server() -> (MockServer, Bench) {
    let server = MockServer::builder().start().await;
    let taken = json!({
        "to": "ops:night-shift", "content": "it is down", "text": "it is down", "agent": "assistant", "instanceKey": "main",
    });
    Mock::given(method("POST"))
        .and(path("/hook-s3cr3t"))
        .and(header("content-type", "application/json"))
        .and(body_json(taken))
        .respond_with(ResponseTemplate::new(202))
        .mount(&server)
        .await;
    let full = ResponseTemplate::new(503).set_body_string("the queue is full");
    Mock::given(path("/full-s3cr3t"))
        .respond_with(full)
        .mount(&server)
        .await;
    let away =
        ResponseTemplate::new(307).insert_header("location", "ftp://elsewhere.example/s3cr3t");
    Mock::given(path("/away-s3cr3t"))
        .respond_with(away)
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
        Bench::new().config(json!({"allowPrivateNetwork": true, "channels": channels})),
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
async fn a_webhook_gets_the_message_and_its_sender() {
    let (server, bench) = server().await;
    let output = bench
        .ok("messaging__message", message("ops:night-shift"))
        .await;
    assert_eq!(
        output,
        json!({"to": "ops:night-shift", "channel": "ops", "sent": true, "status": 202})
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_webhook_that_fails_says_how_and_keeps_its_address() {
    let (_server, bench) = server().await;
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
        let (code, text) = bench.err("messaging__message", message(channel)).await;
        assert_eq!(code, expected, "{text}");
        assert!(text.contains(words) && !text.contains("s3cr3t"), "{text}");
    }
}

#[tokio::test]
async fn agents_and_the_log_are_channels() {
    let (_server, bench) = server().await;
    let output = bench.ok("messaging__message", message("colleague")).await;
    assert_eq!(
        (&output["channel"], &output["eventId"]),
        (&json!("colleague"), &json!("e1"))
    );
    let log = bench.runtime.log.lock().unwrap().join("\n");
    assert!(
        log.starts_with("send worker") && log.contains("it is down") && log.contains("inbox"),
        "{log}"
    );
    assert_eq!(
        bench.ok("messaging__message", message("audit")).await["sent"],
        true
    );
    assert_eq!(
        bench.err("messaging__message", message("stranger")).await.0,
        "AGENT_NOT_FOUND"
    );
}

#[tokio::test]
async fn bad_messages_are_errors() {
    let (_server, bench) = server().await;
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
        let (code, text) = bench.err("messaging__message", args).await;
        assert_eq!(code, expected, "{text}");
    }
}
