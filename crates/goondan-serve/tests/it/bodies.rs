//! Requests as clients write them: character sets, compression, addresses, accepted media types.

use serde_json::{Value, json};

use crate::support::Running;

/// A response: its status, its head in lower case, and its body.
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

impl Running {
    pub(crate) async fn request(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> RawResponse {
        let token = self.door.token.expose();
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
pub(crate) const ALL: (&str, &str) = ("Accept", "application/json, text/event-stream");

/// A request to each door that starts a turn with the text `cut \ud83d`.
fn doors() -> [(&'static str, String); 6] {
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
async fn half_a_character_and_a_byte_order_mark_reach_no_one() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for (path, body) in doors() {
        let mut headers = vec![JSON, ALL];
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
            let heard = running.request(&line, &headers, &body).await;
            assert_eq!(heard.status, 200, "{path}: {}", heard.body);
            assert!(heard.body.contains('\u{fffd}'), "{path}: {}", heard.body);
        }
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused_in_words() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for (path, _) in doors() {
        let headers = [JSON, ALL, ("Content-Encoding", "gzip")];
        let line = format!("POST {path}");
        let heard = running.request(&line, &headers, b"\x1f\x8b\x08").await;
        assert_eq!(heard.status, 415, "{path}: {}", heard.body);
        let error = heard.json()["error"]["message"].to_string();
        assert!(error.contains("gzip"), "{path}: {error}");
        let headers = [("Content-Type", "application/json; charset=koi8-r"), ALL];
        let heard = running.request(&line, &headers, b"{}").await;
        assert_eq!(heard.status, 415, "{path}: {}", heard.body);
    }
}

#[tokio::test]
async fn streams_are_not_buffered_by_proxies() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
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
        let heard = running
            .request(&line, &headers, body.to_string().as_bytes())
            .await;
        assert!(
            heard.has("content-type: text/event-stream"),
            "{path}: {}",
            heard.head
        );
        assert!(heard.has("x-accel-buffering: no"), "{path}: {}", heard.head);
        assert!(
            heard.has("cache-control: no-cache, no-transform"),
            "{path}: {}",
            heard.head
        );
    }
}

#[tokio::test]
async fn slashes_too_many_change_nothing() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for path in [
        "/v1//models",
        "/v1/models/",
        "//v1/models",
        "/api//swarm/",
        "/healthz/",
    ] {
        let heard = running.request(&format!("GET {path}"), &[], b"").await;
        assert_eq!(heard.status, 200, "{path}: {}", heard.body);
    }
    let heard = running.request("GET /v1//nothing/", &[], b"").await;
    assert_eq!(heard.status, 404);
    assert!(heard.body.contains("`/v1//nothing/`"), "{}", heard.body);
    for path in ["/.well-known/agent.json", "/a2a/a/.well-known/agent.json"] {
        let heard = running.request(&format!("GET {path}"), &[], b"").await;
        assert_eq!(heard.status, 308);
        assert!(heard.has("location: agent-card.json"), "{}", heard.head);
    }
}

#[tokio::test]
async fn tools_that_must_not_be_called_are_accepted() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let ask = |choice: &str| json!({"model": "a", "messages": [{"role": "user", "content": "hi"}], "tools": tools, "tool_choice": choice, "stop": ""});
    for (choice, status) in [("none", 200), ("auto", 400)] {
        let body = ask(choice).to_string();
        let heard = running
            .request("POST /v1/chat/completions", &[JSON], body.as_bytes())
            .await;
        assert_eq!(heard.status, status, "{choice}: {}", heard.body);
    }
}

#[tokio::test]
async fn metrics_have_the_form_that_the_client_accepts() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    running.ask("hi").await;
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (accept, is_open) in [
        ("*/*", false),
        ("text/plain", false),
        ("application/openmetrics-text;q=0, */*", false),
        ("application/openmetrics-text; version=1.0.0", true),
        (prometheus, true),
    ] {
        let heard = running
            .request("GET /metrics", &[("Accept", accept)], b"")
            .await;
        assert_eq!(heard.head.contains("openmetrics-text"), is_open, "{accept}");
        assert_eq!(heard.body.contains("# EOF"), is_open, "{accept}");
        let kind = match is_open {
            true => "# TYPE gdn_turns counter",
            false => "# TYPE gdn_turns_total counter",
        };
        assert!(
            heard.body.lines().any(|line| line == kind),
            "{}",
            heard.body
        );
        assert!(heard.body.contains("gdn_build_info{version=\"0\"} 1"));
    }
}

const CLIENT: &str = r#"{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}"#;

#[tokio::test]
async fn an_mcp_client_may_accept_what_it_likes() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for (accept, kind) in [
        (Some("*/*"), "text/event-stream"),
        (None, "text/event-stream"),
        (Some("text/event-stream"), "text/event-stream"),
        (Some("application/json"), "application/json"),
        (Some("application/*"), "application/json"),
    ] {
        let mut headers = vec![JSON];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        let heard = running
            .request("POST /mcp", &headers, CLIENT.as_bytes())
            .await;
        assert_eq!(heard.status, 200, "{accept:?}: {}", heard.body);
        assert!(
            heard.has(&format!("content-type: {kind}")),
            "{accept:?}: {}",
            heard.head
        );
        assert!(heard.head.contains("mcp-session-id"), "{}", heard.head);
        if kind == "application/json" {
            assert_eq!(heard.json()["id"], 7);
        }
    }
    let headers = [JSON, ("Accept", "text/html")];
    let heard = running
        .request("POST /mcp", &headers, CLIENT.as_bytes())
        .await;
    assert_eq!((heard.status, &heard.json()["id"]), (406, &json!(7)));
}

#[tokio::test]
async fn an_mcp_refusal_is_json_rpc_with_the_id_of_its_request() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let list = r#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#;
    let session = ("Mcp-Session-Id", "unknown");
    for (line, headers, body, status, id) in [
        ("POST /mcp", vec![JSON, ALL, session], list, 404, json!(2)),
        (
            "POST /mcp",
            vec![("Content-Type", "text/plain"), ALL],
            list,
            415,
            json!(2),
        ),
        ("POST /mcp", vec![JSON, ALL], "{\"id\": 3, x", 400, json!(3)),
        ("POST /mcp", vec![JSON, ALL], "{", 400, Value::Null),
        ("GET /mcp", vec![ALL], "", 405, Value::Null),
        ("GET /mcp", vec![ALL, session], "", 404, Value::Null),
        ("PUT /mcp", vec![ALL], "", 405, Value::Null),
    ] {
        let heard = running.request(line, &headers, body.as_bytes()).await;
        assert_eq!(heard.status, status, "{line} {body}: {}", heard.body);
        assert!(
            heard.has("content-type: application/json"),
            "{line}: {}",
            heard.head
        );
        let refusal = heard.json();
        assert_eq!(refusal["id"], id, "{line} {body}: {refusal}");
        assert!(refusal["error"]["code"].is_i64() && refusal["error"]["message"].is_string());
    }
    // The end of a session.
    let headers = [JSON, ALL];
    let begun = running
        .request("POST /mcp", &headers, CLIENT.as_bytes())
        .await;
    let session = begun
        .head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    let headers = [ALL, ("Mcp-Session-Id", session.unwrap())];
    let heard = running.request("DELETE /mcp", &headers, b"").await;
    assert_eq!(heard.status, 204, "{}", heard.body);
}

#[tokio::test]
async fn the_text_of_an_input_has_an_older_name() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let post = async |body: &str| {
        let line = "POST /api/inputs?wait=true";
        running.request(line, &[JSON], body.as_bytes()).await
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
