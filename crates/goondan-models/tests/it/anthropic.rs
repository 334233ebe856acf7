//! Anthropic's messages.

use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};
use goondan_core::ports::model::{CompletedAnswer, ModelErrorKind, ModelRequest};

fn named(events: &[Value]) -> String {
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

fn words(index: u64, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<_> = pieces
        .iter()
        .map(|text| json!({"type": "text_delta", "text": text}))
        .collect();
    block(index, json!({"type": "text", "text": ""}), &deltas)
}

fn use_of(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
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

fn message(blocks: &[Vec<Value>]) -> Canned {
    let mut events = vec![start(), json!({"type": "ping"})];
    events.extend(blocks.concat());
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    Canned::events(named(&events))
}

async fn ask(canned: Canned, request: ModelRequest) -> (Mock, CompletedAnswer) {
    let mock = Mock::start(vec![canned]).await;
    let client = client("anthropic", &mock.url("/v1"), json!({}));
    let answer = answer(&client, request).await;
    (mock, answer)
}

#[tokio::test]
async fn text_calls_and_usage_arrive() {
    let blocks = [
        words(0, &["Hel", "lo"]),
        use_of(1, "t1", &["{\"city\":", "\"Ulm\"}"]),
        use_of(2, "t2", &[]),
    ];
    let (mock, answer) = ask(message(&blocks), hello()).await;
    let expected = vec![
        text("Hello"),
        called("t1", json!({"city": "Ulm"})),
        called("t2", json!({})),
    ];
    assert_eq!(answer, finished(expected, 20, 9));
    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /v1/messages HTTP/1.1");
    assert!(
        asked
            .head
            .to_lowercase()
            .contains(&format!("x-api-key: {KEY}"))
    );
    assert_eq!(asked.body["system"][0]["text"], "Be brief.");
    assert_eq!(asked.body["max_tokens"], 100);
    assert_eq!(asked.body["tools"][0]["input_schema"], weather().parameters);
}

#[tokio::test]
async fn broken_arguments_stay_text() {
    let (_mock, answer) = ask(message(&[use_of(0, "t1", &["{\"city\": Ulm"])]), hello()).await;
    assert_eq!(answer.parts, [called("t1", json!("{\"city\": Ulm"))]);
}

#[tokio::test]
async fn a_second_turn_carries_calls_results_and_errors() {
    let (mock, _) = ask(message(&[words(0, &["7"])]), second_turn()).await;
    let messages = mock.asked()[0].body["messages"].clone();
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
async fn a_stream_without_its_end_or_with_an_error_fails() {
    let begun = [vec![start()], words(0, &["Hel"])].concat();
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let cases = [
        (
            named(&begun),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            named(&begun) + "event: content_block_delta\ndata: {\"type\": \"con",
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            named(&[begun.clone(), vec![error]].concat()),
            ModelErrorKind::Status(529),
            "answered 529: Overloaded.",
        ),
    ];
    for (body, kind, words) in cases {
        let mock = Mock::start(vec![Canned::events(body)]).await;
        let client = client(
            "anthropic",
            &format!("http://{}/v1/", mock.address),
            json!({}),
        );
        let received = all(&client, hello()).await;
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
async fn requests_contain_the_trace_unless_the_model_has_its_own() {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = || {
        let caller = goondan_core::caller::CallerTrace::read(traceparent, ["a=1"]);
        ModelRequest { caller, ..hello() }
    };
    let (mock, _) = ask(message(&[words(0, &["hi"])]), traced()).await;
    let head = mock.asked()[0].head.to_lowercase();
    assert!(
        head.contains(&format!("traceparent: {traceparent}")) && head.contains("tracestate: a=1"),
        "{head}"
    );
    let mock = Mock::start(vec![message(&[words(0, &["hi"])])]).await;
    let own = json!({"headers": {"TraceParent": "mine"}});
    answer(
        &client("anthropic", &format!("http://{}/v1", mock.address), own),
        traced(),
    )
    .await;
    let head = mock.asked()[0].head.to_lowercase();
    assert!(
        head.contains("traceparent: mine") && !head.contains("0af7"),
        "{head}"
    );
}
