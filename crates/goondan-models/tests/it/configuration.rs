//! Invalid Model configuration, and API keys.

use std::sync::Arc;

use goondan_core::ports::model::ModelErrorKind;
use goondan_models::ModelProviders;
use goondan_spec::{Environment, ValueSource};
use serde_json::json;

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn configuration_error(
    provider: &str,
    change: impl FnOnce(&mut goondan_spec::kinds::Model),
) -> (String, String) {
    let mut model = model(provider, None, json!({}));
    change(&mut model.spec);
    let error = open(&model, &Environment::default())
        .err()
        .expect("refused");
    assert!(matches!(
        error.kind,
        ModelErrorKind::Configuration | ModelErrorKind::NoKey
    ));
    (error.message, error.suggestion.expect("a suggestion"))
}

#[test]
fn an_unknown_provider_error_suggests_similar_names() {
    let (message, suggestion) = configuration_error("antrhopic", |_| {});
    assert_eq!(
        message,
        "Model/m names the provider `antrhopic`, which does not exist."
    );
    assert!(
        suggestion.starts_with("Did you mean `anthropic`? Use one of: aihubmix,"),
        "{suggestion}"
    );
    assert!(suggestion.contains("openai-compatible"), "{suggestion}");
}

#[test]
fn a_missing_key_error_suggests_the_yaml_line() {
    let (message, suggestion) = configuration_error("openai", |model| model.api_key = None);
    assert_eq!(message, "Model/m has no key, which openai requires.");
    assert!(
        suggestion.contains("`apiKey: {valueFrom: {env: OPENAI_API_KEY}}`"),
        "{suggestion}"
    );
    let (message, _) = configuration_error("openai", |model| {
        model.api_key = Some(ValueSource::Env("MY_KEY".to_owned()))
    });
    assert_eq!(message, "The key of Model/m is missing: MY_KEY is not set.");
}

#[test]
fn the_key_is_read_from_the_default_variable() {
    let environment: Environment = [("ANTHROPIC_API_KEY".to_owned(), KEY.to_owned())]
        .into_iter()
        .collect();
    let mut model = model("anthropic", None, json!({}));
    model.spec.api_key = None;
    assert!(open(&model, &environment).is_ok());
}

#[tokio::test]
async fn a_custom_endpoint_does_not_receive_the_default_key() {
    let mock = MockServer::start(vec![MockResponse::json(
        "500 Internal Server Error",
        json!({}),
    )])
    .await;
    let mut model = model(
        "openai",
        Some(format!("http://{}/v1", mock.address)),
        json!({}),
    );
    model.spec.api_key = None;
    let environment = [("OPENAI_API_KEY".to_owned(), KEY.to_owned())]
        .into_iter()
        .collect();
    failure(&open(&model, &environment).unwrap(), hello()).await;
    assert!(!mock.requests()[0].head.contains(KEY));
}

#[test]
fn endpoints_and_variables_are_validated_when_a_client_is_created() {
    let (message, suggestion) =
        configuration_error("openai-compatible", |model| model.api_key = None);
    assert_eq!(
        message,
        "Model/m has no endpoint, which the provider openai-compatible requires."
    );
    assert!(
        suggestion.contains("endpoint: http://localhost:1234/v1"),
        "{suggestion}"
    );
    for endpoint in ["localhost:1234/v1", "file:///etc/passwd", "", "http://"] {
        let (message, _) =
            configuration_error("openai", |model| model.endpoint = Some(endpoint.to_owned()));
        assert!(
            message.starts_with("The endpoint of Model/m is not usable: "),
            "{message}"
        );
    }
    let headers = json!({"headers": {"x": {"valueFrom": {"env": "NOPE"}}}});
    let (message, _) = configuration_error("openai", |changed| {
        changed.options = model("openai", None, headers).spec.options;
    });
    assert!(message.contains("NOPE is not set"), "{message}");
}

/// The provider repeats the secrets of the request in its answers.
#[tokio::test]
async fn a_cassette_of_http_calls_contains_no_key_and_no_headers() {
    let leaked = format!("no access with Bearer {KEY} and red-team-pass");
    let answers = [
        MockResponse::json("401 Unauthorized", json!({"error": {"message": leaked}})),
        MockResponse::events(format!(
            "data: {}\n\ndata: [DONE]\n\n",
            json!({"choices": [{"index": 0, "delta": {"content": leaked}, "finish_reason": "stop"}]})
        )),
    ];
    let mock = MockServer::start(answers.into()).await;
    let directory = tempfile::tempdir().unwrap();
    let cassette = directory.path().join("tape.jsonl");
    let headers = json!({"headers": {"x-team": {"valueFrom": {"env": "TEAM"}}}});
    let model = model(
        "openai",
        Some(format!("http://{}/v1", mock.address)),
        headers,
    );
    let environment = [("TEAM".to_owned(), "red-team-pass".to_owned())]
        .into_iter()
        .collect();
    let recorder = goondan_models::record(Arc::new(ModelProviders::new()), &cassette).unwrap();
    let client = recorder
        .client(&model, directory.path(), &environment)
        .unwrap();
    failure(&client, hello()).await;
    answer(&client, hello()).await;
    let head = mock.requests()[0].head.to_lowercase();
    assert!(
        head.contains(&format!("bearer {KEY}")) && head.contains("x-team: red-team-pass"),
        "the request lacks the key or the header"
    );
    let text = std::fs::read_to_string(&cassette).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for secret in [KEY, "red-team-pass"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(
        !text.to_lowercase().contains("authorization") && text.contains("***"),
        "{text}"
    );
}
