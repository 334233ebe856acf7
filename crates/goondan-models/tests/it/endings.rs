//! Ends of answers that no closing connection announces, and slow beginnings.

use std::time::Duration;

use goondan_core::message::MessagePart;
use goondan_core::ports::model::{CompletedAnswer, ModelErrorKind};
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

const PING: &str = ": keep-alive\n\n";

fn content(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

fn stop() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

/// The wait for the end is 2 s. A client without it would wait for 100 s.
#[tokio::test]
async fn an_answer_ends_although_pings_keep_the_connection_open() {
    let whole = events(&[content("Hi"), stop()]);
    let canned = Canned::events(whole).paced(PING, 1000, Duration::from_millis(100));
    let mock = Mock::start(vec![canned]).await;
    let client = client("openai-compatible", &mock.url("/v1"), json!({}));
    let expected = CompletedAnswer::of_parts(vec![text("Hi")], None);
    assert_eq!(answer(&client, hello()).await, expected);
}

#[tokio::test]
async fn an_answer_ends_at_done_although_the_connection_stays_open() {
    let canned = Canned::stuck(events(&[content("Hi"), stop()]) + "data: [DONE]\n\n");
    let mock = Mock::start(vec![canned]).await;
    let client = client("openai-compatible", &mock.url("/v1"), json!({}));
    assert_eq!(answer(&client, hello()).await.parts, [text("Hi")]);
}

#[tokio::test]
async fn keep_alives_extend_the_idle_timeout() {
    let canned = Canned::events("")
        .paced(PING, 30, Duration::from_millis(100))
        .bytes(events(&[content("Hi"), stop()]));
    let mock = Mock::start(vec![canned]).await;
    let options = json!({"timeoutSeconds": 1.5});
    let client = client("openai-compatible", &mock.url("/v1"), options);
    assert_eq!(answer(&client, hello()).await.parts, [text("Hi")]);
}

#[tokio::test]
async fn keep_alives_alone_do_not_keep_a_call_open() {
    let canned = Canned::events("").paced(PING, 100_000, Duration::from_millis(5));
    let mock = Mock::start(vec![canned]).await;
    let options = json!({"timeoutSeconds": 0.1});
    let client = client("openai-compatible", &mock.url("/v1"), options);
    let error = failure(&client, hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Connection);
    assert!(error.message.contains("sent nothing for"), "{error:?}");
}

#[tokio::test]
async fn one_json_object_instead_of_a_stream_is_an_answer() {
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "weather__now", "arguments": "{\"city\": \"Ulm\"}"}});
    let message = json!({"role": "assistant", "content": "I look.", "reasoning_content": "hm",
        "tool_calls": [call]});
    let body = json!({"id": "x", "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}});
    let pretty = serde_json::to_string_pretty(&body).expect("JSON");
    for body in [body.to_string(), pretty] {
        let canned = Canned::new("200 OK", "application/json", body);
        let mock = Mock::start(vec![canned]).await;
        let client = client("openai-compatible", &mock.url("/v1"), json!({}));
        let answer = answer(&client, hello()).await;
        let is_reasoning = |part: &MessagePart| matches!(part, MessagePart::Reasoning { text, .. } if text == "hm");
        assert!(is_reasoning(&answer.parts[0]), "{answer:?}");
        let expected = finished(
            vec![
                answer.parts[0].clone(),
                text("I look."),
                called("c1", json!({"city": "Ulm"})),
            ],
            11,
            4,
        );
        assert_eq!(answer, expected);
    }
}
