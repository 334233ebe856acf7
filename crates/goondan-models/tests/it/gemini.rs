//! Gemini's `streamGenerateContent` API.

use std::sync::Arc;

use goondan_core::message::MessageRole;
use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn parts(parts: Value, reason: Option<&str>) -> Value {
    let mut chunk = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10},
    });
    if let Some(reason) = reason {
        chunk["candidates"][0]["finishReason"] = json!(reason);
    }
    chunk
}

fn call_of(city: &str) -> Value {
    json!({"functionCall": {"name": "weather__now", "args": {"city": city}}})
}

async fn google_client(
    response: Vec<MockResponse>,
) -> (MockServer, Arc<dyn goondan_core::ports::model::ModelClient>) {
    let mock = MockServer::start(response).await;
    let client = client(
        "google",
        &format!("http://{}/v1beta", mock.address),
        json!({}),
    );
    (mock, client)
}

#[tokio::test]
async fn gemini_answers_contain_text_and_calls_with_ids() {
    let body = events(&[
        parts(json!([{"text": "Hel"}]), None),
        parts(json!([{"text": "lo"}, call_of("Ulm")]), None),
        parts(json!([call_of("Bonn")]), Some("STOP")),
    ]);
    let (mock, client) = google_client(vec![MockResponse::events(body)]).await;
    let expected = vec![
        text("Hello"),
        weather_call("call_1", json!({"city": "Ulm"})),
        weather_call("call_2", json!({"city": "Bonn"})),
    ];
    assert_eq!(
        answer(&client, hello()).await,
        completed_answer(expected, 8, 2)
    );
    let request = &mock.requests()[0];
    assert_eq!(
        request.line,
        "POST /v1beta/models/some-model:streamGenerateContent?alt=sse HTTP/1.1"
    );
    assert!(
        request
            .head
            .to_lowercase()
            .contains(&format!("x-goog-api-key: {KEY}"))
    );
    assert_eq!(
        request.body["systemInstruction"]["parts"][0]["text"],
        "Be brief."
    );
    assert_eq!(request.body["generationConfig"]["maxOutputTokens"], 100);
    let declared = &request.body["tools"][0]["functionDeclarations"][0];
    assert_eq!(declared["parametersJsonSchema"], weather().parameters);
}

#[tokio::test]
async fn objects_in_the_body_option_are_merged() {
    let done = events(&[parts(json!([{"text": "7"}]), Some("STOP"))]);
    let mock = MockServer::start(vec![MockResponse::events(done)]).await;
    let own =
        json!({"generationConfig": {"candidateCount": 1, "temperature": 0}, "labels": {"a": "b"}});
    let client = client("google", &mock.url("/v1beta"), json!({ "body": own }));
    answer(&client, hello()).await;
    let body = &mock.requests()[0].body;
    let config = &body["generationConfig"];
    assert_eq!(config["candidateCount"], 1);
    assert_eq!(config["temperature"], 0);
    assert_eq!(config["maxOutputTokens"], 100);
    assert_eq!(body["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn gemini_requests_contain_calls_results_and_errors() {
    let (mock, client) = google_client(vec![MockResponse::events(events(&[parts(
        json!([{"text": "7"}]),
        Some("STOP"),
    )]))])
    .await;
    answer(&client, second_turn()).await;
    let contents = mock.requests()[0].body["contents"].clone();
    assert_eq!(
        contents[1]["parts"][1]["functionCall"]["args"],
        json!({"city": "Ulm"})
    );
    let responses = &contents[2]["parts"];
    assert_eq!(responses[0]["functionResponse"]["name"], "weather__now");
    assert_eq!(
        responses[0]["functionResponse"]["response"]["result"],
        "{\"degrees\":7}"
    );
    let error = responses[1]["functionResponse"]["response"]["error"]
        .as_str()
        .unwrap();
    assert!(
        error.starts_with("ERROR: no such city\nCODE: E_TOOL"),
        "{error}"
    );
    assert_eq!(
        contents[3]["parts"],
        json!([{"text": "and"}, {"text": "tomorrow?"}])
    );
}

#[tokio::test]
async fn gemini_requests_contain_signatures_but_no_generated_call_ids() {
    let mut signed = call_of("Ulm");
    signed["thoughtSignature"] = json!("c2lnbmVk");
    let calls = MockResponse::events(events(&[parts(json!([signed]), Some("STOP"))]));
    let done = MockResponse::events(events(&[parts(json!([{"text": "7"}]), Some("STOP"))]));
    let (mock, client) = google_client(vec![calls, done]).await;
    let first = answer(&client, hello()).await;
    assert_eq!(calls_of(&first)[0].tool_call_id, "call_1");
    let next = request(vec![
        message(MessageRole::User, vec![text("hello")]),
        message(MessageRole::Assistant, first.parts),
        message(
            MessageRole::Tool,
            vec![result("call_1", "weather__now", json!(7))],
        ),
    ]);
    answer(&client, next).await;
    let contents = mock.requests()[1].body["contents"].clone();
    assert_eq!(contents[1]["parts"][0]["thoughtSignature"], "c2lnbmVk");
    assert_eq!(contents[1]["parts"][0]["functionCall"].get("id"), None);
    assert_eq!(contents[2]["parts"][0]["functionResponse"].get("id"), None);
    assert_eq!(
        contents[2]["parts"][0]["functionResponse"]["name"],
        "weather__now"
    );
}

#[tokio::test]
async fn a_truncated_or_failed_gemini_stream_is_an_error() {
    let partial = events(&[parts(json!([{"text": "Hel"}]), None)]);
    let error =
        events(&[json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})]);
    for (body, kind, words) in [
        (
            partial.clone(),
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (
            partial.clone() + "data: {\"candid",
            ModelErrorKind::Connection,
            "The stream broke off",
        ),
        (partial + &error, ModelErrorKind::Status(503), "busy"),
    ] {
        let (_mock, client) = google_client(vec![MockResponse::events(body)]).await;
        let received = receive_all(&client, hello()).await;
        let error = received.error.expect("an error");
        assert_eq!(received.texts, ["Hel"]);
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(words), "{}", error.message);
    }
}
