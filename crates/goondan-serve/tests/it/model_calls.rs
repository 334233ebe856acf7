//! Recorded model calls: content, limit, and masked secrets.

use std::path::Path;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use goondan::spec::Environment;
use goondan_serve::wire::{HttpExchangeBody, InputState, ModelCallBody, ModelCallsBody};
use goondan_serve::{ServerLimits, ServerOptions};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{PROJECT, TestServer, input};

/// API key of the model, which no response may contain.
const KEY: &str = "sk-secret-0123456789";

/// Starts a mock provider whose answers contain the API key. Returns its URL.
async fn provider() -> String {
    let chunk = json!({
        "choices": [{"index": 0, "delta": {"content": format!("the key is {KEY}")}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    });
    let answer = move || async move {
        (
            [(CONTENT_TYPE, "text/event-stream")],
            format!("data: {chunk}\n\ndata: [DONE]\n\n"),
        )
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = axum::serve(listener, Router::new().fallback(answer));
    tokio::spawn(server.into_future());
    format!("http://{address}/v1")
}

/// Starts a server whose swarm policy has `telemetry`, with the studio if `has_studio`.
async fn start(state: &Path, telemetry: &str, has_studio: bool) -> TestServer {
    let model = format!(
        "  provider: openai-compatible\n  model: any\n  endpoint: {}\n  apiKey: {{valueFrom: {{env: DESK_KEY}}}}\n---\n",
        provider().await
    );
    let begin = PROJECT.find("  provider:").unwrap();
    let end = PROJECT.find("---\n").unwrap() + 4;
    let project = format!("{}{model}{}", &PROJECT[..begin], &PROJECT[end..]).replace(
        "agents: [{ref: Agent/a}]}",
        &format!("agents: [{{ref: Agent/a}}], policy: {{telemetry: {telemetry}}}}}"),
    );
    let key = ("DESK_KEY".to_owned(), KEY.to_owned());
    TestServer::start_with_options(
        state,
        ServerLimits::default(),
        &project,
        |builder| builder.environment(Environment::from_iter([key])),
        |options| ServerOptions {
            studio: has_studio,
            ..options
        },
    )
    .await
}

/// Sends an input and waits for the end of its turn.
async fn send(server: &TestServer, text: &str) {
    let path = "/api/inputs?wait=true";
    let _: InputState = server.client.post(path, &input(text)).await.unwrap();
}

#[tokio::test]
async fn the_latest_model_calls_are_recorded_without_secrets() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path(), "{modelCalls: 2}", true).await;
    for text in ["first", "second", &format!("third, {KEY}")] {
        send(&server, text).await;
    }
    let listed: ModelCallsBody = server.client.get("/api/model-calls").await.unwrap();
    assert_eq!((listed.limit, listed.calls.len()), (2, 2));
    let span = listed.calls[1]["spanId"].as_str().unwrap();
    let path = format!("/api/model-calls/{span}");
    let call: ModelCallBody = server.client.get(&path).await.unwrap();
    let (request, response) = (&call.call["request"], &call.call["response"]);
    assert_eq!(request["messages"].as_array().unwrap().len(), 5, "{call:?}");
    assert_ne!(request["tools"], json!([]));
    assert_eq!(response["finishReason"], "stop");
    assert_eq!(response["usage"]["promptTokens"], 9);
    let path = format!("{path}/http");
    let http: HttpExchangeBody = server.client.get(&path).await.unwrap();
    let http = &http.exchange;
    assert_eq!(http["status"], 200);
    assert!(http["body"].as_str().unwrap().contains("third"), "{http}");
    assert!(http["response"].as_str().unwrap().contains("[DONE]"));
    let headers = http["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["authorization", "Bearer $DESK_KEY"])));
    assert!(call.has_http);
    for shown in [&call.call, http] {
        assert!(!shown.to_string().contains(KEY), "{shown}");
    }
}

#[tokio::test]
async fn model_calls_are_not_recorded_without_policy_or_studio() {
    let state = tempfile::tempdir().unwrap();
    let server = start(&state.path().join("off"), "{modelCalls: 0}", true).await;
    send(&server, "hello").await;
    let listed: ModelCallsBody = server.client.get("/api/model-calls").await.unwrap();
    assert_eq!((listed.limit, listed.calls.len()), (0, 0));
    let server = start(&state.path().join("without"), "{modelCalls: 5}", false).await;
    send(&server, "hello").await;
    assert!(server.swarm.model_calls().all().is_empty());
    let listed = server.client.get::<ModelCallsBody>("/api/model-calls");
    assert!(listed.await.is_err(), "the route needs the studio");
}
