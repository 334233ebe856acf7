//! Answers that end on an open connection, keep-alives and idle timeouts.

use std::time::Duration;

use goondan_core::message::MessagePart;
use goondan_core::ports::model::{CompletedAnswer, ModelErrorKind};
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

const PING: &str = ": keep-alive\n\n";

fn content(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

fn stop() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

/// The client waits at most 2 s after the finish reason. The keep-alives last 100 s.
#[tokio::test]
async fn an_answer_ends_although_keep_alives_continue() {
    let whole = events(&[content("Hi"), stop()]);
    let response = MockResponse::events(whole).paced(PING, 1000, Duration::from_millis(100));
    let mock = MockServer::start(vec![response]).await;
    let client = client("openai-compatible", &mock.url("/v1"), json!({}));
    let expected = CompletedAnswer::of_parts(vec![text("Hi")], None);
    assert_eq!(answer(&client, hello()).await, expected);
}

#[tokio::test]
async fn an_answer_ends_at_done_on_an_open_connection() {
    let response = MockResponse::stalled(events(&[content("Hi"), stop()]) + "data: [DONE]\n\n");
    let mock = MockServer::start(vec![response]).await;
    let client = client("openai-compatible", &mock.url("/v1"), json!({}));
    assert_eq!(answer(&client, hello()).await.parts, [text("Hi")]);
}

#[tokio::test]
async fn keep_alives_extend_the_idle_timeout() {
    let response = MockResponse::events("")
        .paced(PING, 30, Duration::from_millis(100))
        .bytes(events(&[content("Hi"), stop()]));
    let mock = MockServer::start(vec![response]).await;
    let options = json!({"timeoutSeconds": 1.5});
    let client = client("openai-compatible", &mock.url("/v1"), options);
    assert_eq!(answer(&client, hello()).await.parts, [text("Hi")]);
}

#[tokio::test]
async fn a_call_with_only_keep_alives_times_out() {
    let response = MockResponse::events("").paced(PING, 100_000, Duration::from_millis(5));
    let mock = MockServer::start(vec![response]).await;
    let options = json!({"timeoutSeconds": 0.1});
    let client = client("openai-compatible", &mock.url("/v1"), options);
    let error = failure(&client, hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Connection);
    assert!(error.message.contains("sent nothing for"), "{error:?}");
}

#[tokio::test]
async fn a_json_object_instead_of_a_stream_is_an_answer() {
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "weather__now", "arguments": "{\"city\": \"Ulm\"}"}});
    let message = json!({"role": "assistant", "content": "I look.", "reasoning_content": "hm",
        "tool_calls": [call]});
    let body = json!({"id": "x", "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}});
    let pretty = serde_json::to_string_pretty(&body).expect("JSON");
    for body in [body.to_string(), pretty] {
        let response = MockResponse::new("200 OK", "application/json", body);
        let mock = MockServer::start(vec![response]).await;
        let client = client("openai-compatible", &mock.url("/v1"), json!({}));
        let answer = answer(&client, hello()).await;
        let is_reasoning = |part: &MessagePart| matches!(part, MessagePart::Reasoning { text, .. } if text == "hm");
        assert!(is_reasoning(&answer.parts[0]), "{answer:?}");
        let expected = completed_answer(
            vec![
                answer.parts[0].clone(),
                text("I look."),
                weather_call("c1", json!({"city": "Ulm"})),
            ],
            11,
            4,
        );
        assert_eq!(answer, expected);
    }
}
