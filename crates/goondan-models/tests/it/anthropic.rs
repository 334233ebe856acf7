//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};
use goondan_core::ports::model::{CompletedAnswer, ModelErrorKind, ModelRequest};

fn named_events(events: &[Value]) -> String {
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", name(event)))
        .collect()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [],
        "usage": {"input_tokens": 20, "output_tokens": 1}}})
}

fn block(index: u64, block: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn text_block(index: u64, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<_> = pieces
        .iter()
        .map(|text| json!({"type": "text_delta", "text": text}))
        .collect();
    block(index, json!({"type": "text", "text": ""}), &deltas)
}

fn tool_use_block(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<_> = pieces
        .iter()
        .map(|json| json!({"type": "input_json_delta", "partial_json": json}))
        .collect();
    block(
        index,
        json!({"type": "tool_use", "id": id, "name": "weather__now", "input": {}}),
        &deltas,
    )
}

fn message(blocks: &[Vec<Value>]) -> MockResponse {
    let mut events = vec![start(), json!({"type": "ping"})];
    events.extend(blocks.concat());
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    MockResponse::events(named_events(&events))
}

async fn answer_from(
    response: MockResponse,
    request: ModelRequest,
) -> (MockServer, CompletedAnswer) {
    let mock = MockServer::start(vec![response]).await;
    let client = client("anthropic", &mock.url("/v1"), json!({}));
    let answer = answer(&client, request).await;
    (mock, answer)
}

#[tokio::test]
async fn anthropic_answers_contain_text_calls_and_usage() {
    let blocks = [
        text_block(0, &["Hel", "lo"]),
        tool_use_block(1, "t1", &["{\"city\":", "\"Ulm\"}"]),
        tool_use_block(2, "t2", &[]),
    ];
    let (mock, answer) = answer_from(message(&blocks), hello()).await;
    let expected = vec![
        text("Hello"),
        weather_call("t1", json!({"city": "Ulm"})),
        weather_call("t2", json!({})),
    ];
    assert_eq!(answer, completed_answer(expected, 20, 9));
    let request = &mock.requests()[0];
    assert_eq!(request.line, "POST /v1/messages HTTP/1.1");
    assert!(
        request
            .head
            .to_lowercase()
            .contains(&format!("x-api-key: {KEY}"))
    );
    assert_eq!(request.body["system"][0]["text"], "Be brief.");
    assert_eq!(request.body["max_tokens"], 100);
    assert_eq!(
        request.body["tools"][0]["input_schema"],
        weather().parameters
    );
}

#[tokio::test]
async fn invalid_anthropic_arguments_stay_a_string() {
    let (_mock, answer) = answer_from(
        message(&[tool_use_block(0, "t1", &["{\"city\": Ulm"])]),
        hello(),
    )
    .await;
    assert_eq!(answer.parts, [weather_call("t1", json!("{\"city\": Ulm"))]);
}

#[tokio::test]
async fn anthropic_requests_contain_calls_results_and_errors() {
    let (mock, _) = answer_from(message(&[text_block(0, &["7"])]), second_turn()).await;
    let messages = mock.requests()[0].body["messages"].clone();
    let content = &messages[1]["content"];
    assert_eq!(content[0], json!({"type": "text", "text": "I look it up."}));
    assert_eq!(content[1]["input"], json!({"city": "Ulm"}));
    assert_eq!(
        content[2]["input"],
        json!({"malformedArguments": "{\"city\": "})
    );
    let results = &messages[2]["content"];
    assert_eq!(results[0]["tool_use_id"], "c1");
    assert_eq!(results[0]["content"], "{\"degrees\":7}");
    assert_eq!(
        results[1]["content"],
        "ERROR: no such city\nCODE: E_TOOL\nSUGGESTION: spell it out"
    );
    assert_eq!(results[2], json!({"type": "text", "text": "and"}));
    assert_eq!(results[3]["text"], "tomorrow?");
    assert_eq!(messages.as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn a_truncated_or_failed_anthropic_stream_is_an_error() {
    let partial = [vec![start()], text_block(0, &["Hel"])].concat();
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let cases = [
        (
            named_events(&partial),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            named_events(&partial) + "event: content_block_delta\ndata: {\"type\": \"con",
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            named_events(&[partial.clone(), vec![error]].concat()),
            ModelErrorKind::Status(529),
            "answered 529: Overloaded.",
        ),
    ];
    for (body, kind, words) in cases {
        let mock = MockServer::start(vec![MockResponse::events(body)]).await;
        let client = client(
            "anthropic",
            &format!("http://{}/v1/", mock.address),
            json!({}),
        );
        let received = receive_all(&client, hello()).await;
        let error = received.error.expect("an error");
        assert_eq!(received.texts, ["Hel"]);
        assert_eq!(error.kind, kind);
        assert!(
            error.is_transient() && error.message.contains(words),
            "{}",
            error.message
        );
    }
}

#[tokio::test]
async fn requests_contain_the_trace_context_unless_headers_set_it() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = || {
        let caller = goondan_core::caller::CallerTrace::read(traceparent, ["a=1"]);
        ModelRequest { caller, ..hello() }
    };
    let (mock, _) = answer_from(message(&[text_block(0, &["hi"])]), traced()).await;
    let head = mock.requests()[0].head.to_lowercase();
    assert!(
        head.contains(&format!("traceparent: {traceparent}")) && head.contains("tracestate: a=1"),
        "{head}"
    );
    let mock = MockServer::start(vec![message(&[text_block(0, &["hi"])])]).await;
    let own = json!({"headers": {"TraceParent": "mine"}});
    answer(
        &client("anthropic", &format!("http://{}/v1", mock.address), own),
        traced(),
    )
    .await;
    let head = mock.requests()[0].head.to_lowercase();
    assert!(
        head.contains("traceparent: mine") && !head.contains("0af7"),
        "{head}"
    );
}
