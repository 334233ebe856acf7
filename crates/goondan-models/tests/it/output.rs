//! Structured answers: the place of the schema in each format.

use std::sync::Arc;

use goondan_core::ports::model::ModelRequest;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

fn schema() -> Value {
    let city = json!({"type": "string"});
    json!({"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": false})
}

/// Returns `request` with a schema for the answer.
pub(crate) fn as_data(request: ModelRequest) -> ModelRequest {
    ModelRequest {
        output: Some(Arc::new(schema())),
        ..request
    }
}

/// Returns the path of the schema in `body`.
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
async fn the_schema_has_its_own_place_in_each_format() {
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
        ("ollama", "", json!({}), "/format"),
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
            goondan_core::message::MessageRole::User,
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
            "{provider}: a schema that was not asked for"
        );
    }
}

#[tokio::test]
async fn the_table_of_providers_decides_about_schemas() {
    for (provider, is_sent) in [
        ("openai", true),
        ("xai", true),
        ("vllm", true),
        ("openai-compatible", false),
        ("openrouter", false),
        ("deepseek", false),
        ("groq", false),
        ("ollama", false),
        ("anthropic", false),
        ("google", false),
    ] {
        let client = client(provider, "http://127.0.0.1:9/v1", json!({}));
        assert_eq!(client.is_schema_sent(), is_sent, "{provider}");
    }
}
