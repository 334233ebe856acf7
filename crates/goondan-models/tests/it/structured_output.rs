//! Structured answers: the field of the schema in each wire format.

use std::sync::Arc;

use goondan_core::ports::model::ModelRequest;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn schema() -> Value {
    let city = json!({"type": "string"});
    json!({"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": false})
}

/// Returns `request` with an output schema.
pub(crate) fn with_output_schema(request: ModelRequest) -> ModelRequest {
    ModelRequest {
        output: Some(Arc::new(schema())),
        ..request
    }
}

/// Returns the path of the schema in `body`.
fn schema_path(body: &Value, at: &str) -> Option<String> {
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
        .find_map(|(key, value)| schema_path(value, &format!("{at}/{key}")))
}

#[tokio::test]
async fn the_output_schema_has_a_field_in_each_wire_format() {
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
        let mock = MockServer::start(vec![MockResponse::json(
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
                ..with_output_schema(plain.clone())
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
        let bodies = mock.requests();
        assert_eq!(
            schema_path(&bodies[0].body, "").as_deref(),
            Some(expected),
            "{provider} {options}: {}",
            bodies[0].body
        );
        assert_eq!(
            schema_path(&bodies[1].body, ""),
            None,
            "{provider}: the request contains a schema although none is set"
        );
    }
}

#[tokio::test]
async fn the_provider_table_controls_whether_schemas_are_sent() {
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
