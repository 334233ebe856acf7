//! Error kinds, which control retries and fallbacks.

use std::time::Duration;

use goondan_core::ports::model::{ModelError, ModelErrorKind, ModelRequest};
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};
use super::structured_output::with_output_schema;

async fn failure_of(response: MockResponse, request: ModelRequest) -> ModelError {
    let mock = MockServer::start(vec![response]).await;
    let client = client("openai-compatible", &mock.url("/v1"), json!({}));
    failure(&client, request).await
}

fn content(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn refusal(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"refusal": text}, "finish_reason": "stop"}]})
}

fn error(status: &str, error: Value) -> MockResponse {
    MockResponse::json(status, json!({ "error": error }))
}

#[tokio::test]
async fn an_exhausted_quota_is_not_transient() {
    let busy = "429 Too Many Requests";
    for (response, status) in [
        (
            error(
                busy,
                json!({"message": "You exceeded your current quota, please check your plan and billing details.",
                       "type": "insufficient_quota", "code": "insufficient_quota"}),
            )
            .header("retry-after", "7"),
            429,
        ),
        (
            error(busy, json!({"message": "no", "code": "insufficient_quota"})),
            429,
        ),
        (
            error("402 Payment Required", json!({"message": "Insufficient Balance"})),
            402,
        ),
        (MockResponse::new("402 Payment Required", "text/plain", ""), 402),
        (
            error(
                "400 Bad Request",
                json!({"message": "Your credit balance is too low to access the API."}),
            ),
            400,
        ),
        (
            MockResponse::events(events(&[json!({"error": {"message": "no credits", "code": 402}})])),
            402,
        ),
        (
            MockResponse::json(
                "200 OK",
                json!({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
            ),
            402,
        ),
    ] {
        let error = failure_of(response, hello()).await;
        assert_eq!(error.kind, ModelErrorKind::Quota(status), "{error:?}");
        assert!(!error.is_transient(), "{error:?}");
        assert_eq!(
            error.suggestion.as_deref(),
            Some(
                "Add credit to the account whose key comes from `apiKey` of Model/m, or use another key."
            )
        );
    }
}

#[tokio::test]
async fn a_rate_limit_is_retried() {
    let limited = error(
        "429 Too Many Requests",
        json!({"message": "Rate limit reached for requests", "code": "rate_limit_exceeded"}),
    );
    let error = failure_of(limited.header("retry-after-ms", "250"), hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Status(429));
    assert!(error.is_transient());
    assert_eq!(error.retry_after, Some(Duration::from_millis(250)));
}

#[tokio::test]
async fn a_starting_server_is_transient() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let client = client("llamacpp", &format!("http://{free}/v1"), json!({}));
    let refused = failure(&client, hello()).await;
    let loading = error(
        "503 Service Unavailable",
        json!({"message": "Loading model", "type": "unavailable_error", "code": 503}),
    );
    let loading = failure_of(loading, hello()).await;
    // The gateway runs, but its upstream server does not.
    let message = "InternalServerError: Connection error.. Received Model Group=m";
    let gateway = error(
        "500 Internal Server Error",
        json!({"message": message, "code": "500"}),
    );
    let gateway = failure_of(gateway, hello()).await;
    for error in [refused, loading, gateway] {
        assert_eq!(error.kind, ModelErrorKind::Starting, "{error:?}");
        assert!(error.is_starting() && error.is_transient());
    }
    let busy = error("503 Service Unavailable", json!({"message": "Overloaded"}));
    let busy = failure_of(busy, hello()).await;
    assert_eq!(busy.kind, ModelErrorKind::Status(503));
}

#[tokio::test]
async fn a_refused_schema_has_its_own_kind() {
    let refused = |status: &str, message: &str| error(status, json!({ "message": message }));
    let unavailable = "This response_format type is unavailable now";
    for (response, status) in [
        (refused("400 Bad Request", unavailable), 400),
        (
            refused(
                "422 Unprocessable Entity",
                "'json_schema' is not supported with this model",
            ),
            422,
        ),
        (
            refused("400 Bad Request", "Structured outputs are not supported."),
            400,
        ),
    ] {
        let error = failure_of(response, with_output_schema(hello())).await;
        assert_eq!(
            error.kind,
            ModelErrorKind::SchemaRefused(status),
            "{error:?}"
        );
        assert!(!error.is_transient());
        assert_eq!(
            error.suggestion.as_deref(),
            Some("Write `capabilities: {structuredOutput: false}` in Model/m.")
        );
    }
    for (response, request) in [
        (refused("400 Bad Request", unavailable), hello()),
        (
            refused("400 Bad Request", "The conversation is too long"),
            with_output_schema(hello()),
        ),
    ] {
        let error = failure_of(response, request).await;
        assert_eq!(error.kind, ModelErrorKind::Status(400), "{error:?}");
    }
}

#[tokio::test]
async fn a_declined_answer_is_not_retried() {
    for (body, message) in [
        (
            vec![refusal("I can't help with that.")],
            "The model declined to answer (refusal): I can't help with that.",
        ),
        (
            vec![content("half"), finish("content_filter")],
            "The model declined to answer (content_filter).",
        ),
    ] {
        let error = failure_of(MockResponse::events(events(&body)), hello()).await;
        assert_eq!(error.kind, ModelErrorKind::Declined, "{error:?}");
        assert_eq!(error.message, message);
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_failed_finish_reason_is_transient() {
    for reason in ["error", "network_error", "insufficient_system_resource"] {
        let body = events(&[content("half"), finish(reason)]);
        let error = failure_of(MockResponse::events(body), hello()).await;
        assert_eq!(error.kind, ModelErrorKind::Connection, "{error:?}");
        assert!(error.message.contains(reason) && error.is_transient());
    }
}

#[tokio::test]
async fn finish_reasons_of_incomplete_answers_are_kept() {
    use goondan_core::ports::model::ModelFinishReason as Reason;
    for (word, expected) in [
        ("length", Reason::Length),
        ("max_tokens", Reason::Length),
        ("model_context_window_exceeded", Reason::ContextWindow),
        ("stop", Reason::Stop),
        ("eos", Reason::Stop),
        ("new_reason", Reason::Other("new_reason".to_owned())),
    ] {
        let body = events(&[content("half"), finish(word)]);
        let mock = MockServer::start(vec![MockResponse::events(body)]).await;
        let client = client("openai-compatible", &mock.url("/v1"), json!({}));
        let answer = answer(&client, hello()).await;
        assert_eq!(answer.finish_reason, expected);
        assert_eq!(answer.parts, [text("half")]);
    }
}

/// Returns error bodies that servers send with status 200, with their kind and message.
fn errors_in_answers() -> Vec<(Value, ModelErrorKind, &'static str)> {
    use ModelErrorKind::{Connection, ContextOverflow, Status};
    vec![
        (
            json!({"error": {"message": "upstream is full", "code": 429}}),
            Status(429),
            "upstream is full",
        ),
        (
            json!({"error": {"message": "slow", "type": "overloaded_error"}}),
            Status(529),
            "slow",
        ),
        (
            json!({"object": "error", "message": "prompt too long", "type": "BadRequestError", "code": 400}),
            ContextOverflow(400),
            "prompt too long",
        ),
        (
            json!({"type": "error", "error": {"type": "api_error", "message": "internal"}}),
            Status(500),
            "internal",
        ),
        (
            json!({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}),
            Status(429),
            "rate limit",
        ),
        (
            json!({"error": {"message": "Provider returned error", "code": 502,
                   "metadata": {"raw": "{\"error\":{\"message\":\"tool schema is invalid\"}}"}}}),
            Status(502),
            "Provider returned error: tool schema is invalid",
        ),
        (
            json!([{"error": {"code": 400, "message": "bad field", "status": "INVALID_ARGUMENT"}}]),
            Status(400),
            "bad field",
        ),
        (
            json!({"errors": [{"message": "quota"}]}),
            Connection,
            "quota",
        ),
    ]
}

#[tokio::test]
async fn stream_errors_keep_their_status_and_message() {
    for (shape, kind, words) in errors_in_answers() {
        let alone = MockResponse::events(events(std::slice::from_ref(&shape)) + "data: [DONE]\n\n");
        let after_text = MockResponse::events(events(&[content("Hel"), shape.clone()]));
        let named = MockResponse::events(format!("event: error\ndata: {shape}\n\n"));
        for response in [alone, after_text, named] {
            let error = failure_of(response, hello()).await;
            assert_eq!(error.kind, kind, "{shape}: {error:?}");
            assert!(error.message.contains(words), "{shape}: {error:?}");
        }
    }
}

#[tokio::test]
async fn an_error_event_of_unknown_shape_is_an_error() {
    let body = "event: error\ndata: {\"code\": 500, \"message\": \"engine stopped\"}\n\n";
    let error = failure_of(MockResponse::events(body), hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Status(500), "{error:?}");
    assert!(error.message.contains("engine stopped"), "{error:?}");
}

#[tokio::test]
async fn json_errors_with_status_200_keep_their_status_and_message() {
    for (shape, kind, words) in errors_in_answers() {
        let error = failure_of(MockResponse::json("200 OK", shape.clone()), hello()).await;
        // An error without a status usually means a wrong path, which a retry does not fix.
        let kind = match kind {
            ModelErrorKind::Connection => ModelErrorKind::Protocol,
            kind => kind,
        };
        assert_eq!(error.kind, kind, "{shape}: {error:?}");
        assert!(error.message.contains(words), "{shape}: {error:?}");
    }
}
