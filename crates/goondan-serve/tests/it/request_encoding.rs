//! Encoding of requests: character sets, compression, paths, and accepted media types.

use serde_json::{Value, json};

use crate::support::TestServer;

/// Response with its status, its head in lower case, and its body.
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl RawResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }

    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

impl TestServer {
    pub(crate) async fn request(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> RawResponse {
        let token = self.endpoint.token.expose();
        let mut request = format!(
            "{line} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let response = self
            .raw(&[request.as_bytes(), b"\r\n", body].concat())
            .await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        RawResponse {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }
}

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");
pub(crate) const ACCEPT_ALL: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// Returns the path and body of a request per protocol. Each starts a turn with `cut \ud83d`.
fn turn_requests() -> [(&'static str, String); 6] {
    let message = r#"{"role": "user", "content": "cut \ud83d"}"#;
    let input = r#"{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "cut \ud83d"}]}"#;
    let part = r#"{"kind": "message", "role": "user", "messageId": "1", "parts": [{"kind": "text", "text": "cut \ud83d"}]}"#;
    let call = r#"{"name": "ask_a", "arguments": {"message": "cut \ud83d"}, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}}}"#;
    [
        (
            "/api/inputs?wait=true",
            r#"{"text": "cut \ud83d"}"#.to_owned(),
        ),
        (
            "/v1/chat/completions",
            format!(r#"{{"model": "a", "messages": [{message}]}}"#),
        ),
        (
            "/v1/responses",
            r#"{"model": "a", "input": "cut \ud83d"}"#.to_owned(),
        ),
        ("/ag-ui/a", input.to_owned()),
        (
            "/a2a/a",
            format!(
                r#"{{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {{"message": {part}}}}}"#
            ),
        ),
        (
            "/mcp",
            format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {call}}}"#),
        ),
    ]
}

#[tokio::test]
async fn byte_order_marks_are_removed_and_lone_surrogates_replaced() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for (path, body) in turn_requests() {
        let mut headers = vec![JSON, ACCEPT_ALL];
        if path == "/mcp" {
            headers.extend([
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "ask_a"),
            ]);
        }
        let line = format!("POST {path}");
        let wide: Vec<u8> = format!("\u{feff}{body}")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for body in [format!("\u{feff}{body}").into_bytes(), wide] {
            let response = server.request(&line, &headers, &body).await;
            assert_eq!(response.status, 200, "{path}: {}", response.body);
            assert!(
                response.body.contains('\u{fffd}'),
                "{path}: {}",
                response.body
            );
        }
    }
}

#[tokio::test]
async fn compressed_and_unknown_charset_bodies_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for (path, _) in turn_requests() {
        let headers = [JSON, ACCEPT_ALL, ("Content-Encoding", "gzip")];
        let line = format!("POST {path}");
        let response = server.request(&line, &headers, b"\x1f\x8b\x08").await;
        assert_eq!(response.status, 415, "{path}: {}", response.body);
        let error = response.json()["error"]["message"].to_string();
        assert!(error.contains("gzip"), "{path}: {error}");
        let headers = [
            ("Content-Type", "application/json; charset=koi8-r"),
            ACCEPT_ALL,
        ];
        let response = server.request(&line, &headers, b"{}").await;
        assert_eq!(response.status, 415, "{path}: {}", response.body);
    }
}

#[tokio::test]
async fn streams_have_headers_against_proxy_buffering() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"model": "a", "stream": true, "messages": [{"role": "user", "content": "hi"}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "a", "input": "hi", "stream": true}),
        ),
        (
            "/ag-ui/a",
            json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "hi"}]}),
        ),
        ("/api/inputs", json!({"text": "hi"})),
        (
            "/a2a/a",
            json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {
            "kind": "message", "role": "user", "messageId": "1", "parts": [{"kind": "text", "text": "hi"}]}}}),
        ),
        (
            "/mcp",
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}),
        ),
    ] {
        let headers = [
            JSON,
            ("Accept", "text/event-stream, application/json;q=0.5"),
        ];
        let line = format!("POST {path}");
        let response = server
            .request(&line, &headers, body.to_string().as_bytes())
            .await;
        assert!(
            response.has("content-type: text/event-stream"),
            "{path}: {}",
            response.head
        );
        assert!(
            response.has("x-accel-buffering: no"),
            "{path}: {}",
            response.head
        );
        assert!(
            response.has("cache-control: no-cache, no-transform"),
            "{path}: {}",
            response.head
        );
    }
}

#[tokio::test]
async fn extra_slashes_in_a_path_are_ignored() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for path in [
        "/v1//models",
        "/v1/models/",
        "//v1/models",
        "/api//swarm/",
        "/healthz/",
    ] {
        let response = server.request(&format!("GET {path}"), &[], b"").await;
        assert_eq!(response.status, 200, "{path}: {}", response.body);
    }
    let response = server.request("GET /v1//nothing/", &[], b"").await;
    assert_eq!(response.status, 404);
    assert!(
        response.body.contains("`/v1//nothing/`"),
        "{}",
        response.body
    );
    for path in ["/.well-known/agent.json", "/a2a/a/.well-known/agent.json"] {
        let response = server.request(&format!("GET {path}"), &[], b"").await;
        assert_eq!(response.status, 308);
        assert!(
            response.has("location: agent-card.json"),
            "{}",
            response.head
        );
    }
}

#[tokio::test]
async fn tools_are_accepted_with_tool_choice_none() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let completion = |choice: &str| json!({"model": "a", "messages": [{"role": "user", "content": "hi"}], "tools": tools, "tool_choice": choice, "stop": ""});
    for (choice, status) in [("none", 200), ("auto", 400)] {
        let body = completion(choice).to_string();
        let response = server
            .request("POST /v1/chat/completions", &[JSON], body.as_bytes())
            .await;
        assert_eq!(response.status, status, "{choice}: {}", response.body);
    }
}

#[tokio::test]
async fn metrics_use_the_format_that_the_client_accepts() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    server.run_turn("hi").await;
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (accept, is_open) in [
        ("*/*", false),
        ("text/plain", false),
        ("application/openmetrics-text;q=0, */*", false),
        ("application/openmetrics-text; version=1.0.0", true),
        (prometheus, true),
    ] {
        let response = server
            .request("GET /metrics", &[("Accept", accept)], b"")
            .await;
        assert_eq!(
            response.head.contains("openmetrics-text"),
            is_open,
            "{accept}"
        );
        assert_eq!(response.body.contains("# EOF"), is_open, "{accept}");
        let kind = match is_open {
            true => "# TYPE gdn_turns counter",
            false => "# TYPE gdn_turns_total counter",
        };
        assert!(
            response.body.lines().any(|line| line == kind),
            "{}",
            response.body
        );
        assert!(response.body.contains("gdn_build_info{version=\"0\"} 1"));
    }
}

const INITIALIZE: &str = r#"{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}"#;

#[tokio::test]
async fn mcp_responses_use_an_accepted_media_type() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for (accept, kind) in [
        (Some("*/*"), "text/event-stream"),
        (None, "text/event-stream"),
        (Some("text/event-stream"), "text/event-stream"),
        (Some("application/json"), "application/json"),
        (Some("application/*"), "application/json"),
    ] {
        let mut headers = vec![JSON];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        let response = server
            .request("POST /mcp", &headers, INITIALIZE.as_bytes())
            .await;
        assert_eq!(response.status, 200, "{accept:?}: {}", response.body);
        assert!(
            response.has(&format!("content-type: {kind}")),
            "{accept:?}: {}",
            response.head
        );
        assert!(
            response.head.contains("mcp-session-id"),
            "{}",
            response.head
        );
        if kind == "application/json" {
            assert_eq!(response.json()["id"], 7);
        }
    }
    let headers = [JSON, ("Accept", "text/html")];
    let response = server
        .request("POST /mcp", &headers, INITIALIZE.as_bytes())
        .await;
    assert_eq!((response.status, &response.json()["id"]), (406, &json!(7)));
}

#[tokio::test]
async fn an_mcp_error_is_json_rpc_with_the_request_id() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let list = r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#;
    let session = ("Mcp-Session-Id", "unknown");
    for (line, headers, body, status, id) in [
        (
            "POST /mcp",
            vec![JSON, ACCEPT_ALL, session],
            list,
            404,
            json!(2),
        ),
        (
            "POST /mcp",
            vec![("Content-Type", "text/plain"), ACCEPT_ALL],
            list,
            415,
            json!(2),
        ),
        (
            "POST /mcp",
            vec![JSON, ACCEPT_ALL],
            "{\"id\": 3, x",
            400,
            json!(3),
        ),
        ("POST /mcp", vec![JSON, ACCEPT_ALL], "{", 400, Value::Null),
        ("GET /mcp", vec![ACCEPT_ALL], "", 405, Value::Null),
        ("GET /mcp", vec![ACCEPT_ALL, session], "", 404, Value::Null),
        ("PUT /mcp", vec![ACCEPT_ALL], "", 405, Value::Null),
    ] {
        let response = server.request(line, &headers, body.as_bytes()).await;
        assert_eq!(response.status, status, "{line} {body}: {}", response.body);
        assert!(
            response.has("content-type: application/json"),
            "{line}: {}",
            response.head
        );
        let refusal = response.json();
        assert_eq!(refusal["id"], id, "{line} {body}: {refusal}");
        assert!(refusal["error"]["code"].is_i64() && refusal["error"]["message"].is_string());
    }
    // Ends a session.
    let headers = [JSON, ACCEPT_ALL];
    let begun = server
        .request("POST /mcp", &headers, INITIALIZE.as_bytes())
        .await;
    let session = begun
        .head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    let headers = [ACCEPT_ALL, ("Mcp-Session-Id", session.unwrap())];
    let response = server.request("DELETE /mcp", &headers, b"").await;
    assert_eq!(response.status, 204, "{}", response.body);
}

#[tokio::test]
async fn an_input_accepts_the_older_field_name_text() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let post = async |body: &str| {
        let line = "POST /api/inputs?wait=true";
        server.request(line, &[JSON], body.as_bytes()).await
    };
    let older = post(r#"{"text": "hello"}"#).await.json();
    let current = post(r#"{"input": "hello"}"#).await.json();
    assert!(older["text"].is_string(), "{older}");
    assert!(current["text"].is_string(), "{current}");
    let both = post(r#"{"input": "hello", "text": "hello"}"#).await;
    assert_eq!(both.status, 400, "{}", both.body);
    let none = post("{}").await;
    assert!(none.body.contains("`input`"), "{}", none.body);
}
