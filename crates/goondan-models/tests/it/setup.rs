//! Models that cannot be used as they are written, and keys.

use std::sync::Arc;

use goondan_core::ports::model::ModelErrorKind;
use goondan_models::ModelProviders;
use goondan_spec::{Environment, ValueSource};
use serde_json::json;

use super::common::*;
use super::mock::{Canned, Mock};

fn refused(
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
fn an_unknown_provider_is_answered_with_similar_names() {
    let (message, suggestion) = refused("antrhopic", |_| {});
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
fn a_missing_key_is_answered_with_the_line_to_write() {
    let (message, suggestion) = refused("openai", |model| model.api_key = None);
    assert_eq!(message, "Model/m has no key, which openai requires.");
    assert!(
        suggestion.contains("`apiKey: {valueFrom: {env: OPENAI_API_KEY}}`"),
        "{suggestion}"
    );
    let (message, _) = refused("openai", |model| {
        model.api_key = Some(ValueSource::Env("MY_KEY".to_owned()))
    });
    assert_eq!(message, "The key of Model/m is missing: MY_KEY is not set.");
}

#[test]
fn the_usual_variable_contains_the_key() {
    let environment: Environment = [("ANTHROPIC_API_KEY".to_owned(), KEY.to_owned())]
        .into_iter()
        .collect();
    let mut model = model("anthropic", None, json!({}));
    model.spec.api_key = None;
    assert!(open(&model, &environment).is_ok());
}

#[tokio::test]
async fn an_own_endpoint_needs_no_key_and_never_gets_the_usual_one() {
    let mock = Mock::start(vec![Canned::json("500 Internal Server Error", json!({}))]).await;
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
    assert!(!mock.asked()[0].head.contains(KEY));
}

#[test]
fn endpoints_and_variables_are_checked_when_the_client_is_made() {
    let (message, suggestion) = refused("openai-compatible", |model| model.api_key = None);
    assert_eq!(
        message,
        "Model/m has no endpoint, which the provider openai-compatible requires."
    );
    assert!(
        suggestion.contains("endpoint: http://localhost:1234/v1"),
        "{suggestion}"
    );
    for endpoint in ["localhost:1234/v1", "file:///etc/passwd", "", "http://"] {
        let (message, _) = refused("openai", |model| model.endpoint = Some(endpoint.to_owned()));
        assert!(
            message.starts_with("The endpoint of Model/m is not usable: "),
            "{message}"
        );
    }
    let headers = json!({"headers": {"x": {"valueFrom": {"env": "NOPE"}}}});
    let (message, _) = refused("openai", |changed| {
        changed.options = model("openai", None, headers).spec.options;
    });
    assert!(message.contains("NOPE is not set"), "{message}");
}

/// A provider may repeat what it received.
#[tokio::test]
async fn a_cassette_contains_neither_the_key_nor_headers() {
    let told = format!("no access with Bearer {KEY} and red-team-pass");
    let answers = [
        Canned::json("401 Unauthorized", json!({"error": {"message": told}})),
        Canned::events(format!(
            "data: {}\n\ndata: [DONE]\n\n",
            json!({"choices": [{"index": 0, "delta": {"content": told}, "finish_reason": "stop"}]})
        )),
    ];
    let mock = Mock::start(answers.into()).await;
    let folder = tempfile::tempdir().unwrap();
    let cassette = folder.path().join("tape.jsonl");
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
        .client(&model, folder.path(), &environment)
        .unwrap();
    failure(&client, hello()).await;
    answer(&client, hello()).await;
    let head = mock.asked()[0].head.to_lowercase();
    assert!(
        head.contains(&format!("bearer {KEY}")) && head.contains("x-team: red-team-pass"),
        "both were sent"
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
