//! OpenAI's responses.

use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

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

fn word(text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text})
}

#[tokio::test]
async fn text_calls_and_usage_arrive() {
    let mut body = vec![word("Hel"), word("lo")];
    body.extend(call_of(1, "c8", "{\"city\":\"Ulm\"}"));
    body.extend(call_of(2, "c9", "{oops"));
    body.push(completed("completed"));
    let mock = Mock::start(vec![Canned::events(events(&body))]).await;
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
    assert_eq!(answer.usage, finished(Vec::new(), 3, 2).usage);
    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /v1/responses HTTP/1.1");
    assert_eq!(asked.body["tools"][0]["parameters"], weather().parameters);
}

#[tokio::test]
async fn a_stream_without_its_end_is_a_broken_connection() {
    let mock = Mock::start(vec![Canned::events(events(&[word("Hel")]))]).await;
    let client = client(
        "openai",
        &format!("http://{}/v1", mock.address),
        json!({"api": "responses"}),
    );
    let error = failure(&client, hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Connection, "{}", error.message);
}
