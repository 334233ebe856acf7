//! Ollama's native chat API.

use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn lines(values: &[Value]) -> MockResponse {
    let body: String = values.iter().map(|value| format!("{value}\n")).collect();
    MockResponse::new("200 OK", "application/x-ndjson", body)
}

fn piece(message: Value) -> Value {
    json!({"model": "m", "message": message, "done": false})
}

fn end() -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 5, "eval_count": 6})
}

#[tokio::test]
async fn ollama_answers_contain_text_calls_and_usage() {
    let call =
        |city: &str| json!({"function": {"name": "weather__now", "arguments": {"city": city}}});
    let calls = piece(
        json!({"role": "assistant", "content": "", "tool_calls": [call("Ulm"), call("Bonn")]}),
    );
    let mock = MockServer::start(vec![lines(&[
        piece(json!({"content": "Hi"})),
        calls,
        end(),
    ])])
    .await;
    let client = client("ollama", &format!("http://{}/v1", mock.address), json!({}));
    let expected = vec![
        text("Hi"),
        weather_call("call_1", json!({"city": "Ulm"})),
        weather_call("call_2", json!({"city": "Bonn"})),
    ];
    assert_eq!(
        answer(&client, hello()).await,
        completed_answer(expected, 5, 6)
    );
    let request = &mock.requests()[0];
    assert_eq!(request.line, "POST /api/chat HTTP/1.1");
    assert_eq!(
        request.body["messages"][0],
        json!({"role": "system", "content": "Be brief."})
    );
    assert_eq!(
        request.body["tools"][0]["function"]["parameters"],
        weather().parameters
    );
}

#[tokio::test]
async fn each_result_is_a_message() {
    let mock = MockServer::start(vec![lines(&[end()])]).await;
    let client = client("ollama", &format!("http://{}", mock.address), json!({}));
    answer(&client, second_turn()).await;
    let messages = mock.requests()[0].body["messages"].clone();
    let roles: Vec<_> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "tool", "user"]
    );
    assert_eq!(messages[3]["content"], "{\"degrees\":7}");
}

#[tokio::test]
async fn truncated_ollama_streams_and_web_pages_are_different_errors() {
    let page = "<!doctype html>\n<html><body>Welcome</body></html>\n";
    for (response, kind, words) in [
        (
            lines(&[piece(json!({"content": "Hi"}))]),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            MockResponse::new("200 OK", "application/x-ndjson", "{\"message\": {\"con"),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            MockResponse::new("200 OK", "text/html", page),
            ModelErrorKind::Protocol,
            "answered with a web page instead of JSON",
        ),
        (
            MockResponse::json(
                "404 Not Found",
                json!({"error": "model 'some-model' not found"}),
            ),
            ModelErrorKind::Status(404),
            "model 'some-model' not found",
        ),
    ] {
        let mock = MockServer::start(vec![response]).await;
        let client = client("ollama", &format!("http://{}", mock.address), json!({}));
        let error = failure(&client, hello()).await;
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(words), "{}", error.message);
        if kind == ModelErrorKind::Status(404) {
            assert_eq!(
                error.suggestion.as_deref(),
                Some("Fetch the model with `ollama pull some-model`.")
            );
        }
    }
}
