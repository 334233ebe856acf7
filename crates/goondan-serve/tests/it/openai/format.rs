//! Answers in the form that a client wants.

use serde_json::{Value, json};

use super::{Door, user};

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

fn chat(model: &str, said: &str, format: &Value) -> Value {
    json!({"model": model, "messages": [user(said)], "response_format": format})
}

fn of_schema(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}})
}

#[tokio::test]
async fn an_answer_fits_the_schema_of_the_client() {
    let door = Door::open().await;
    let asked = chat("a", "{\"n\": 1}", &of_schema(&schema()));
    assert_eq!(
        door.post("chat/completions", &asked, &[])
            .await
            .answer()
            .await,
        "{\"n\":1}"
    );
    let asked = chat("a", "{\"x\": [2]}", &json!({"type": "json_object"}));
    assert_eq!(
        door.post("chat/completions", &asked, &[])
            .await
            .answer()
            .await,
        "{\"x\":[2]}"
    );
    // The next turn is free again.
    let free = chat("a", "hi", &json!({"type": "text"}));
    assert_eq!(
        door.post("chat/completions", &free, &[])
            .await
            .answer()
            .await,
        "1: hi"
    );
    // What does not fit is asked for again, and refused in the end.
    let asked = chat("a", "{\"n\": \"one\"}", &of_schema(&schema()));
    let before = door.asked();
    let (status, refused) = door
        .post("chat/completions", &asked, &[])
        .await
        .json()
        .await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (500, &json!("E_MODEL_OUTPUT")),
        "{refused}"
    );
    assert_eq!(door.asked() - before, 3);
}

#[tokio::test]
async fn a_response_fits_the_schema_and_echoes_it() {
    let door = Door::open().await;
    let format = json!({"type": "json_schema", "name": "n", "schema": schema()});
    let body = json!({"model": "a", "input": "{\"n\": 7}", "text": {"format": format}});
    let (status, response) = door.post("responses", &body, &[]).await.json().await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["output"][0]["content"][0]["text"], "{\"n\":7}");
    assert_eq!(response["text"]["format"], format);
    let id = response["id"].as_str().unwrap();
    let (_, shown) = door
        .request("GET", &format!("responses/{id}"), "", &[])
        .await
        .json()
        .await;
    assert_eq!(shown["text"]["format"], format);
}

#[tokio::test]
async fn what_makes_no_schema_or_is_not_the_agents_own_is_refused() {
    let door = Door::open().await;
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
        let (status, refused) = door
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
    assert_eq!(door.asked(), 0);
    let own = chat(
        "data",
        "{\"m\": 1}",
        &of_schema(&json!({"type": "object", "required": ["m"]})),
    );
    assert_eq!(
        door.post("chat/completions", &own, &[])
            .await
            .answer()
            .await,
        "{\"m\":1}"
    );
    let object = chat("data", "{\"m\": 2}", &json!({"type": "json_object"}));
    assert_eq!(
        door.post("chat/completions", &object, &[])
            .await
            .answer()
            .await,
        "{\"m\":2}"
    );
}
