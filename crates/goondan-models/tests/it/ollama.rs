//! Ollama's own chat.

use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

fn lines(values: &[Value]) -> Canned {
    let body: String = values.iter().map(|value| format!("{value}\n")).collect();
    Canned::new("200 OK", "application/x-ndjson", body)
}

fn piece(message: Value) -> Value {
    json!({"model": "m", "message": message, "done": false})
}

fn end() -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 5, "eval_count": 6})
}

#[tokio::test]
async fn text_calls_and_usage_arrive() {
    let call =
        |city: &str| json!({"function": {"name": "weather__now", "arguments": {"city": city}}});
    let calls = piece(
        json!({"role": "assistant", "content": "", "tool_calls": [call("Ulm"), call("Bonn")]}),
    );
    let mock = Mock::start(vec![lines(&[
        piece(json!({"content": "Hi"})),
        calls,
        end(),
    ])])
    .await;
    let client = client("ollama", &format!("http://{}/v1", mock.address), json!({}));
    let expected = vec![
        text("Hi"),
        called("call_1", json!({"city": "Ulm"})),
        called("call_2", json!({"city": "Bonn"})),
    ];
    assert_eq!(answer(&client, hello()).await, finished(expected, 5, 6));
    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /api/chat HTTP/1.1");
    assert_eq!(
        asked.body["messages"][0],
        json!({"role": "system", "content": "Be brief."})
    );
    assert_eq!(
        asked.body["tools"][0]["function"]["parameters"],
        weather().parameters
    );
}

#[tokio::test]
async fn each_result_is_a_message() {
    let mock = Mock::start(vec![lines(&[end()])]).await;
    let client = client("ollama", &format!("http://{}", mock.address), json!({}));
    answer(&client, second_turn()).await;
    let messages = mock.asked()[0].body["messages"].clone();
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
async fn broken_streams_and_web_pages_are_different_errors() {
    let page = "<!doctype html>\n<html><body>Welcome</body></html>\n";
    for (canned, kind, words) in [
        (
            lines(&[piece(json!({"content": "Hi"}))]),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            Canned::new("200 OK", "application/x-ndjson", "{\"message\": {\"con"),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            Canned::new("200 OK", "text/html", page),
            ModelErrorKind::Protocol,
            "answered with a web page instead of JSON",
        ),
        (
            Canned::json(
                "404 Not Found",
                json!({"error": "model 'some-model' not found"}),
            ),
            ModelErrorKind::Status(404),
            "model 'some-model' not found",
        ),
    ] {
        let mock = Mock::start(vec![canned]).await;
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
