//! OpenAI's Responses API.

use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn completed(status: &str) -> Value {
    json!({"type": format!("response.{status}"), "response": {
        "id": "r1", "object": "response", "created_at": 1, "model": "some-model", "status": status, "output": [],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }})
}

fn call_of(index: u64, id: &str, arguments: &str) -> [Value; 2] {
    let item = |arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "weather__now", "arguments": arguments});
    [
        json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
        json!({"type": "response.output_item.done", "output_index": index, "item": item(arguments)}),
    ]
}

fn text_delta(text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text})
}

#[tokio::test]
async fn responses_answers_contain_text_calls_and_usage() {
    let mut body = vec![text_delta("Hel"), text_delta("lo")];
    body.extend(call_of(1, "c8", "{\"city\":\"Ulm\"}"));
    body.extend(call_of(2, "c9", "{oops"));
    body.push(completed("completed"));
    let mock = MockServer::start(vec![MockResponse::events(events(&body))]).await;
    let client = client(
        "openai",
        &format!("http://{}/v1", mock.address),
        json!({"api": "responses"}),
    );
    let answer = answer(&client, second_turn()).await;
    assert_eq!(text_of(&answer), "Hello");
    let calls = calls_of(&answer)
        .into_iter()
        .map(|call| (call.tool_call_id.as_str(), call.input.clone()));
    assert_eq!(
        calls.collect::<Vec<_>>(),
        [("c8", json!({"city": "Ulm"})), ("c9", json!("{oops"))]
    );
    assert_eq!(answer.usage, completed_answer(Vec::new(), 3, 2).usage);
    let request = &mock.requests()[0];
    assert_eq!(request.line, "POST /v1/responses HTTP/1.1");
    assert_eq!(request.body["tools"][0]["parameters"], weather().parameters);
}

#[tokio::test]
async fn a_truncated_responses_stream_is_a_connection_error() {
    let mock = MockServer::start(vec![MockResponse::events(events(&[text_delta("Hel")]))]).await;
    let client = client(
        "openai",
        &format!("http://{}/v1", mock.address),
        json!({"api": "responses"}),
    );
    let error = failure(&client, hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Connection, "{}", error.message);
}
