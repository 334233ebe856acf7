//! Answers in a format that the client requests.

use serde_json::{Value, json};

use super::{OpenAiServer, user};

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

fn chat(model: &str, text: &str, format: &Value) -> Value {
    json!({"model": model, "messages": [user(text)], "response_format": format})
}

fn of_schema(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}})
}

#[tokio::test]
async fn a_chat_answer_matches_the_requested_schema() {
    let server = OpenAiServer::start().await;
    let body = chat("a", "{\"n\": 1}", &of_schema(&schema()));
    assert_eq!(
        server
            .post("chat/completions", &body, &[])
            .await
            .answer()
            .await,
        "{\"n\":1}"
    );
    let body = chat("a", "{\"x\": [2]}", &json!({"type": "json_object"}));
    assert_eq!(
        server
            .post("chat/completions", &body, &[])
            .await
            .answer()
            .await,
        "{\"x\":[2]}"
    );
    // The schema does not apply to the next turn.
    let free = chat("a", "hi", &json!({"type": "text"}));
    assert_eq!(
        server
            .post("chat/completions", &free, &[])
            .await
            .answer()
            .await,
        "1: hi"
    );
    // The model is called again if its answer does not match, and the turn fails after three calls.
    let body = chat("a", "{\"n\": \"one\"}", &of_schema(&schema()));
    let before = server.model_calls();
    let (status, refused) = server
        .post("chat/completions", &body, &[])
        .await
        .json()
        .await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (500, &json!("E_MODEL_OUTPUT")),
        "{refused}"
    );
    assert_eq!(server.model_calls() - before, 3);
}

#[tokio::test]
async fn a_response_matches_and_repeats_the_requested_schema() {
    let server = OpenAiServer::start().await;
    let format = json!({"type": "json_schema", "name": "n", "schema": schema()});
    let body = json!({"model": "a", "input": "{\"n\": 7}", "text": {"format": format}});
    let (status, response) = server.post("responses", &body, &[]).await.json().await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["output"][0]["content"][0]["text"], "{\"n\":7}");
    assert_eq!(response["text"]["format"], format);
    let id = response["id"].as_str().unwrap();
    let (_, shown) = server
        .request("GET", &format!("responses/{id}"), "", &[])
        .await
        .json()
        .await;
    assert_eq!(shown["text"]["format"], format);
}

#[tokio::test]
async fn invalid_and_conflicting_schemas_are_rejected() {
    let server = OpenAiServer::start().await;
    let at = "response_format.json_schema.schema";
    for (model, format, param, code) in [
        (
            "a",
            json!({"type": "xml"}),
            "response_format.type",
            "unsupported_parameter",
        ),
        (
            "a",
            json!({"type": "json_schema"}),
            at,
            "invalid_json_schema",
        ),
        (
            "a",
            of_schema(&json!({"type": "array"})),
            at,
            "invalid_json_schema",
        ),
        (
            "a",
            of_schema(&json!({"type": "object", "required": 1})),
            at,
            "invalid_json_schema",
        ),
        ("data", of_schema(&schema()), at, "unsupported_parameter"),
    ] {
        let (status, refused) = server
            .post("chat/completions", &chat(model, "{}", &format), &[])
            .await
            .json()
            .await;
        let error = &refused["error"];
        assert_eq!(
            (status, &error["param"], &error["code"]),
            (400, &json!(param), &json!(code)),
            "{format}: {refused}"
        );
    }
    assert_eq!(server.model_calls(), 0);
    let own = chat(
        "data",
        "{\"m\": 1}",
        &of_schema(&json!({"type": "object", "required": ["m"]})),
    );
    assert_eq!(
        server
            .post("chat/completions", &own, &[])
            .await
            .answer()
            .await,
        "{\"m\":1}"
    );
    let object = chat("data", "{\"m\": 2}", &json!({"type": "json_object"}));
    assert_eq!(
        server
            .post("chat/completions", &object, &[])
            .await
            .answer()
            .await,
        "{\"m\":2}"
    );
}
