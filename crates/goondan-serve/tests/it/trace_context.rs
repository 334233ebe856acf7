//! Trace context of clients.

use goondan::event::{RuntimeEventKind, SwarmEvent};
use serde_json::{Value, json};

use crate::support::{TestServer, with_timeout};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Sends a POST request with the headers. Returns the caller that the next turn records.
async fn caller(server: &TestServer, path: &str, headers: &str, body: &Value) -> Option<String> {
    let mut events = server.swarm.subscribe();
    let (body, token) = (body.to_string(), server.endpoint.token.expose());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    let response = server.raw((head + &body).as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 2"), "{response}");
    loop {
        let event = with_timeout(events.recv()).await.unwrap();
        if let SwarmEvent::Runtime(event) = event
            && matches!(event.kind, RuntimeEventKind::TurnStarted { .. })
        {
            let caller = event
                .trace
                .caller
                .as_deref()
                .map(|caller| serde_json::to_string(caller).unwrap());
            assert_ne!(
                event.trace.trace_id,
                PARENT[3..35],
                "the trace of the turn has its own id"
            );
            return caller;
        }
    }
}

#[tokio::test]
async fn every_protocol_records_the_trace_context_of_its_client() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let headers = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\ntracestate: b=2\r\n");
    let expected = Some(format!(
        r#"{{"traceparent":"{PARENT}","tracestate":"a=1,b=2"}}"#
    ));
    let said = |text: &str| json!([{"role": "user", "content": text}]);
    let message = json!({"role": "user", "kind": "message", "messageId": "m", "parts": [{"kind": "text", "text": "hi"}]});
    for (path, body) in [
        ("/api/inputs?wait=true", json!({"text": "hi"})),
        (
            "/v1/chat/completions",
            json!({"model": "a", "messages": said("hello")}),
        ),
        ("/v1/responses", json!({"model": "a", "input": "hi"})),
        (
            "/a2a/a",
            json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}),
        ),
        (
            "/ag-ui/a",
            json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "hi"}],
                   "tools": [], "context": [], "state": {}, "forwardedProps": {}}),
        ),
    ] {
        assert_eq!(
            caller(&server, path, &headers, &body).await,
            expected,
            "{path}"
        );
    }
}

#[tokio::test]
async fn invalid_trace_headers_are_ignored() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let twice = format!("traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\n");
    for headers in [
        "",
        "traceparent: 00-nonsense\r\n",
        "tracestate: a=1\r\n",
        &twice,
    ] {
        assert_eq!(
            caller(
                &server,
                "/api/inputs?wait=true",
                headers,
                &json!({"text": "hi"})
            )
            .await,
            None,
            "{headers}"
        );
    }
    let headers = format!("traceparent: {PARENT}\r\ntracestate: not a state\r\n");
    let expected = Some(format!(r#"{{"traceparent":"{PARENT}"}}"#));
    assert_eq!(
        caller(
            &server,
            "/api/inputs?wait=true",
            &headers,
            &json!({"text": "hi"})
        )
        .await,
        expected
    );
}
