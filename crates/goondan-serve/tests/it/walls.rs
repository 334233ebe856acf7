//! Who may not talk to the server, and what nobody may make it do.

use goondan_serve::ServerLimits;
use tokio::io::AsyncWriteExt as _;

use crate::support::{Running, within};

/// The status of a response.
fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn without_the_token_nothing_is_told() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for (head, wanted) in [
        ("GET /api/swarm HTTP/1.1\r\nHost: localhost\r\n", "401"),
        (
            "GET /api/swarm HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer nonsense\r\n",
            "401",
        ),
        (
            "GET /api/swarm HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer TOKEN\r\n",
            "403",
        ),
        (
            "GET /api/swarm HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nAuthorization: Bearer TOKEN\r\n",
            "403",
        ),
        (
            "GET /api/swarm HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n",
            "200",
        ),
        (
            "GET /api/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n",
            "404",
        ),
        (
            "PUT /api/swarm HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n",
            "405",
        ),
        (
            "GET /api/events?after=x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n",
            "400",
        ),
        (
            "GET /api/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: x\r\nAuthorization: Bearer TOKEN\r\n",
            "400",
        ),
        ("GET /healthz HTTP/1.1\r\nHost: anything\r\n", "200"),
        ("nonsense\r\n", "400"),
    ] {
        let head = head.replace("TOKEN", running.door.token.expose());
        let response = running
            .raw(format!("{head}Connection: close\r\n\r\n").as_bytes())
            .await;
        assert_eq!(status(&response), wanted, "{head}: {response}");
        assert!(!response.contains(running.door.token.expose()));
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_input_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        body: 1_000,
        ..ServerLimits::default()
    };
    let running = Running::start_with(state.path(), limits).await;
    let post = |body: String| {
        let token = running.door.token.expose();
        format!(
            "POST /api/inputs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (body, wanted) in [
        (format!("{{\"text\": \"{}\"}}", "x".repeat(2_000)), "413"),
        ("{".to_owned(), "400"),
        ("[]".to_owned(), "400"),
        (r#"["hi"]"#.to_owned(), "400"),
        (r#"{"text": ""}"#.to_owned(), "400"),
        (r#"{"text": "hi", "id": ""}"#.to_owned(), "400"),
        (
            r#"{"files": [{"mediaType": "image", "data": "AAAA"}]}"#.to_owned(),
            "400",
        ),
        (
            r#"{"files": [{"mediaType": "image/png", "data": "A!AA"}]}"#.to_owned(),
            "400",
        ),
        (r#"{"text": 1}"#.to_owned(), "400"),
        (r#"{"text": "hi", "unknown": 1}"#.to_owned(), "400"),
        ("\u{0}".to_owned(), "400"),
        (r#"{"text": "hi"}"#.to_owned(), "202"),
    ] {
        let response = running.raw(post(body.clone()).as_bytes()).await;
        assert_eq!(status(&response), wanted, "{body}: {response}");
    }
}

/// Nothing of the body is sent: an answer comes because of its stated length alone.
#[tokio::test]
async fn a_body_that_is_said_to_be_too_large_is_refused_before_it_comes() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        body: 1_000,
        ..ServerLimits::default()
    };
    let running = Running::start_with(state.path(), limits).await;
    let token = running.door.token.expose();
    for path in [
        "/api/inputs",
        "/api/tools/wait__seconds",
        "/v1/chat/completions",
        "/v1/responses",
        "/ag-ui/a",
        "/a2a/a",
        "/mcp",
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: 99999999\r\n\r\n"
        );
        let response = running.raw(head.as_bytes()).await;
        assert_eq!(status(&response), "413", "{path}: {response}");
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_is_shown_the_door() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        head: std::time::Duration::from_millis(50),
        connections: 1,
        ..ServerLimits::default()
    };
    let running = Running::start_with(state.path(), limits).await;
    // The only connection there may be, until its time is up.
    let _mute = tokio::net::TcpStream::connect(running.address)
        .await
        .unwrap();
    let swarm: serde_json::Value = within(running.client.get("/api/swarm")).await.unwrap();
    assert_eq!(swarm["name"], "default");
}

/// Sends requests for more bytes than the buffers of a connection hold, and reads nothing.
#[tokio::test]
async fn a_client_that_never_reads_loses_its_connection() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        write: std::time::Duration::from_millis(50),
        connections: 1,
        ..ServerLimits::default()
    };
    let running = Running::start_with(state.path(), limits).await;
    let mut deaf = tokio::net::TcpStream::connect(running.address)
        .await
        .unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    deaf.write_all(request.as_bytes()).await.unwrap();
    // The only connection there may be, until its time is up.
    let swarm: serde_json::Value = within(running.client.get("/api/swarm")).await.unwrap();
    assert_eq!(swarm["name"], "default");
}

#[tokio::test]
async fn a_client_that_sends_no_further_request_loses_its_connection() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        head: std::time::Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let running = Running::start_with(state.path(), limits).await;
    let idle = running.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = idle.await;
    assert_eq!(status(&response), "200", "{response}");
    assert!(!response.to_lowercase().contains("connection: close"));
}
