//! Clients that have a trace of their own.

use goondan::event::{RuntimeEventKind, SwarmEvent};
use serde_json::{Value, json};

use crate::support::{Running, within};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What the next turn says of its caller, after a POST with those headers.
async fn caller(running: &Running, path: &str, headers: &str, body: &Value) -> Option<String> {
    let mut events = running.swarm.subscribe();
    let (body, token) = (body.to_string(), running.door.token.expose());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    let response = running.raw((head + &body).as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 2"), "{response}");
    loop {
        let event = within(events.recv()).await.unwrap();
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
                "a chain keeps its own id"
            );
            return caller;
        }
    }
}

#[tokio::test]
async fn every_door_takes_the_trace_of_its_client() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
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
            caller(&running, path, &headers, &body).await,
            expected,
            "{path}"
        );
    }
}

#[tokio::test]
async fn headers_that_break_the_standard_name_nobody() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let twice = format!("traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\n");
    for headers in [
        "",
        "traceparent: 00-nonsense\r\n",
        "tracestate: a=1\r\n",
        &twice,
    ] {
        assert_eq!(
            caller(
                &running,
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
            &running,
            "/api/inputs?wait=true",
            &headers,
            &json!({"text": "hi"})
        )
        .await,
        expected
    );
}
