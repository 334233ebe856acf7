//! Answers as data: the schema goes to each provider where its format has it.

use std::sync::Arc;

use goondan_core::ports::model::ModelRequest;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

fn schema() -> Value {
    let city = json!({"type": "string"});
    json!({"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": false})
}

/// `hello`, to be answered by data.
pub(crate) fn as_data(request: ModelRequest) -> ModelRequest {
    ModelRequest {
        output: Some(Arc::new(schema())),
        ..request
    }
}

/// Where in `body` the schema of a city stands.
fn place(body: &Value, at: &str) -> Option<String> {
    if body.pointer("/properties/city").is_some() {
        return Some(at.to_owned());
    }
    let inner: Vec<(String, &Value)> = match body {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    inner
        .into_iter()
        .find_map(|(key, value)| place(value, &format!("{at}/{key}")))
}

#[tokio::test]
async fn the_schema_goes_to_each_provider_in_its_own_place() {
    for (provider, path, options, expected) in [
        (
            "openai",
            "/v1",
            json!({}),
            "/response_format/json_schema/schema",
        ),
        (
            "openai",
            "/v1",
            json!({"api": "responses"}),
            "/text/format/schema",
        ),
        (
            "anthropic",
            "/v1",
            json!({}),
            "/output_config/format/schema",
        ),
        (
            "google",
            "/v1beta",
            json!({}),
            "/generationConfig/responseJsonSchema",
        ),
    ] {
        let mock = Mock::start(vec![Canned::json(
            "400 Bad Request",
            json!({"error": {"message": "no"}}),
        )])
        .await;
        let client = client(
            provider,
            &format!("http://{}{path}", mock.address),
            options.clone(),
        );
        let plain = request(vec![message(
            goondan_core::message::Role::User,
            vec![text("where?")],
        )]);
        failure(
            &client,
            ModelRequest {
                tools: Arc::default(),
                ..as_data(plain.clone())
            },
        )
        .await;
        failure(
            &client,
            ModelRequest {
                tools: Arc::default(),
                ..plain
            },
        )
        .await;
        let bodies = mock.asked();
        assert_eq!(
            place(&bodies[0].body, "").as_deref(),
            Some(expected),
            "{provider} {options}: {}",
            bodies[0].body
        );
        assert_eq!(
            place(&bodies[1].body, ""),
            None,
            "{provider}: only where data is wanted"
        );
    }
}

/// Its answers come as calls instead: a schema that is not sent must not be counted on.
#[tokio::test]
async fn ollama_is_not_said_to_take_a_schema() {
    let ollama = client("ollama", "http://127.0.0.1:9", json!({}));
    let openai = client("openai", "http://127.0.0.1:9", json!({}));
    assert_eq!(
        (ollama.is_schema_sent(), openai.is_schema_sent()),
        (false, true)
    );
}
