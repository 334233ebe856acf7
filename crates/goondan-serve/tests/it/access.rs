//! Access checks and limits of the server.

use goondan_serve::ServerLimits;
use tokio::io::AsyncWriteExt as _;

use crate::support::{TestServer, with_timeout};

/// Returns the status code of a response.
fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn requests_without_valid_credentials_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for (head, expected) in [
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
        let head = head.replace("TOKEN", server.endpoint.token.expose());
        let response = server
            .raw(format!("{head}Connection: close\r\n\r\n").as_bytes())
            .await;
        assert_eq!(status(&response), expected, "{head}: {response}");
        assert!(!response.contains(server.endpoint.token.expose()));
    }
}

#[tokio::test]
async fn an_oversized_or_invalid_input_body_is_rejected() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        body: 1_000,
        ..ServerLimits::default()
    };
    let server = TestServer::start_with(state.path(), limits).await;
    let post = |body: String| {
        let token = server.endpoint.token.expose();
        format!(
            "POST /api/inputs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (body, expected) in [
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
        let response = server.raw(post(body.clone()).as_bytes()).await;
        assert_eq!(status(&response), expected, "{body}: {response}");
    }
}

/// The client sends no body, so the server responds because of `Content-Length`.
#[tokio::test]
async fn an_oversized_content_length_is_rejected_before_the_body() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        body: 1_000,
        ..ServerLimits::default()
    };
    let server = TestServer::start_with(state.path(), limits).await;
    let token = server.endpoint.token.expose();
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
        let response = server.raw(head.as_bytes()).await;
        assert_eq!(status(&response), "413", "{path}: {response}");
    }
}

#[tokio::test]
async fn a_client_that_sends_no_request_is_disconnected() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        head: std::time::Duration::from_millis(50),
        connections: 1,
        ..ServerLimits::default()
    };
    let server = TestServer::start_with(state.path(), limits).await;
    // Occupies the only allowed connection until the timeout.
    let _stream = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let swarm: serde_json::Value = with_timeout(server.client.get("/api/swarm")).await.unwrap();
    assert_eq!(swarm["name"], "default");
}

/// The client requests more bytes than the connection buffers hold, and reads nothing.
#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        write: std::time::Duration::from_millis(50),
        connections: 1,
        ..ServerLimits::default()
    };
    let server = TestServer::start_with(state.path(), limits).await;
    let mut stream = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    stream.write_all(request.as_bytes()).await.unwrap();
    // Occupies the only allowed connection until the timeout.
    let swarm: serde_json::Value = with_timeout(server.client.get("/api/swarm")).await.unwrap();
    assert_eq!(swarm["name"], "default");
}

#[tokio::test]
async fn an_idle_keep_alive_connection_is_closed() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        head: std::time::Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let server = TestServer::start_with(state.path(), limits).await;
    let idle = server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = idle.await;
    assert_eq!(status(&response), "200", "{response}");
    assert!(!response.to_lowercase().contains("connection: close"));
}
