//! Errors of connections, HTTP statuses and streams, and their messages.

use std::time::Duration;

use goondan_core::ports::model::{ModelError, ModelErrorKind};
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

async fn error_of(response: MockResponse, options: Value) -> (String, ModelError) {
    let mock = MockServer::start(vec![response]).await;
    let client = client(
        "openai-compatible",
        &format!("http://{}/v1", mock.address),
        options,
    );
    let error = failure(&client, hello()).await;
    (mock.address, error)
}

fn content(text: &str) -> String {
    events(&[json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})])
}

#[tokio::test]
async fn http_errors_keep_the_provider_message_and_retry_delay() {
    let busy = MockResponse::json(
        "429 Too Many Requests",
        json!({"error": {"message": "slow down", "code": "rate"}}),
    );
    let (address, error) = error_of(busy.header("retry-after", "7"), json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Status(429));
    assert_eq!(
        error.message,
        format!("{address} answered 429 Too Many Requests: slow down.")
    );
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(error.is_transient());

    let not_found = MockResponse::json(
        "404 Not Found",
        json!({"error": {"message": "The model `some-model` does not exist"}}),
    );
    let (_, error) = error_of(not_found, json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Status(404));
    assert!(
        error
            .message
            .ends_with(": The model `some-model` does not exist."),
        "{}",
        error.message
    );
    assert_eq!(
        error.suggestion.as_deref(),
        Some("Check `model` (some-model) and `endpoint` of Model/m.")
    );

    let mock = MockServer::start(vec![MockResponse::json(
        "404 Not Found",
        json!({"detail": "Not Found"}),
    )])
    .await;
    let error = failure(
        &client(
            "openai-compatible",
            &format!("http://{}/", mock.address),
            json!({}),
        ),
        hello(),
    )
    .await;
    let expected = format!(
        "Check `model` (some-model) and `endpoint` of Model/m: did you mean `endpoint: http://{}/v1`?",
        mock.address
    );
    assert_eq!(error.suggestion, Some(expected));

    let (_, error) = error_of(
        MockResponse::new(
            "502 Bad Gateway",
            "text/html",
            "<html><body>nginx</body></html>",
        ),
        json!({}),
    )
    .await;
    assert_eq!(error.kind, ModelErrorKind::Status(502));
    assert!(error.is_transient());
}

#[tokio::test]
async fn errors_for_a_rejected_key_show_its_variable_but_not_the_key() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let response = MockResponse::json(
            status,
            json!({"error": {"message": format!("Incorrect API key provided: {KEY}")}}),
        );
        let mock = MockServer::start(vec![response]).await;
        let mut model = model(
            "openai-compatible",
            Some(format!("http://{}/v1", mock.address)),
            json!({}),
        );
        model.spec.api_key = Some(goondan_spec::ValueSource::Env("MY_KEY".to_owned()));
        let environment = [("MY_KEY".to_owned(), KEY.to_owned())]
            .into_iter()
            .collect();
        let error = failure(&open(&model, &environment).unwrap(), hello()).await;
        assert!(
            error.message.ends_with("Incorrect API key provided: ***."),
            "{}",
            error.message
        );
        assert_eq!(
            error.suggestion.as_deref(),
            Some("Check the key, which comes from the variable MY_KEY.")
        );
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_web_page_error_suggests_a_wrong_endpoint() {
    let page = "<!DOCTYPE html>\n<html>\n\n<body>\n\n<p>Hello</p></body></html>";
    for status in ["200 OK", "404 Not Found"] {
        let (address, error) =
            error_of(MockResponse::new(status, "text/html", page), json!({})).await;
        assert_eq!(error.kind, ModelErrorKind::Protocol);
        assert_eq!(
            error.message,
            format!(
                "{address} answered with a web page instead of JSON, so `endpoint` may be wrong."
            )
        );
    }
}

#[tokio::test]
async fn a_body_without_events_is_quoted() {
    let (_, error) = error_of(
        MockResponse::json("200 OK", json!({"error": "Unexpected endpoint or method"})),
        json!({}),
    )
    .await;
    assert_eq!(error.kind, ModelErrorKind::Protocol);
    assert!(
        error.message.contains("Unexpected endpoint or method"),
        "{}",
        error.message
    );
    let (_, error) = error_of(
        MockResponse::events("data: {\"choices\": 3} nonsense\n\n"),
        json!({}),
    )
    .await;
    assert_eq!(error.kind, ModelErrorKind::Protocol);
}

#[tokio::test]
async fn a_refused_connection_names_the_host() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = client("openai-compatible", &format!("http://{free}/v1"), json!({}));
    let error = failure(&client, hello()).await;
    assert_eq!(error.kind, ModelErrorKind::Starting);
    assert!(
        error
            .message
            .starts_with(&format!("{free} is not reachable: tcp connect error")),
        "{}",
        error.message
    );
    assert_eq!(
        error.suggestion,
        Some(format!(
            "Start the server at {free}, or check `endpoint` of Model/m."
        ))
    );
}

#[tokio::test]
async fn a_truncated_stream_is_a_connection_error() {
    let half = content("Hel");
    for body in [
        "".to_owned(),
        half.clone(),
        half.clone() + "data: {\"choices\": [{\"del",
    ] {
        let began = !body.is_empty();
        let mock = MockServer::start(vec![MockResponse::events(body)]).await;
        let client = client(
            "openai-compatible",
            &format!("http://{}/v1", mock.address),
            json!({}),
        );
        let received = receive_all(&client, hello()).await;
        let error = received.error.expect("an error");
        assert_eq!(received.texts.len(), usize::from(began));
        assert_eq!(error.kind, ModelErrorKind::Connection);
        assert!(
            error.message.starts_with("The stream broke off: "),
            "{}",
            error.message
        );
    }
    let short = MockResponse::events(half).header("content-length", "100000");
    let (_, error) = error_of(short, json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Connection);
    assert!(
        error.message.starts_with("The stream from 127.0.0.1"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_error_inside_a_stream_keeps_its_status() {
    let error = events(&[json!({"error": {"message": "upstream is full", "code": 429}})]);
    let (_, error) = error_of(MockResponse::events(content("Hel") + &error), json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Status(429));
    let error = events(&[json!({"error": {"message": "something odd"}})]);
    let (_, error) = error_of(MockResponse::events(error), json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Connection);
    assert!(
        error
            .message
            .ends_with("aborted the answer: something odd."),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_silent_server_times_out_before_and_during_the_answer() {
    for body in [
        "".to_owned(),
        content("Hel"),
        "data: no end of line".to_owned(),
    ] {
        let (address, error) =
            error_of(MockResponse::stalled(body), json!({"timeoutSeconds": 0.2})).await;
        assert_eq!(error.kind, ModelErrorKind::Connection);
        assert_eq!(
            error.message,
            format!("{address} sent nothing for 0.2 seconds.")
        );
    }
}

#[tokio::test]
async fn an_answer_without_end_hits_the_size_limit() {
    let long = content(&"x".repeat(16 * 1024));
    let (_, error) = error_of(MockResponse::endless(long), json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Protocol);
    assert!(
        error.message.contains("larger than 16 MiB"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_line_without_end_hits_the_size_limit() {
    let (_, error) = error_of(MockResponse::endless("x".repeat(4096)), json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Protocol);
    assert!(
        error.message.contains("larger than 16 MiB"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let response = MockResponse::new("301 Moved Permanently", "text/html", "<html></html>")
        .header("location", "https://new/v1");
    let (_, error) = error_of(response, json!({})).await;
    assert_eq!(error.kind, ModelErrorKind::Status(301));
    assert_eq!(
        error.suggestion.as_deref(),
        Some("The URL moved to https://new/v1. Use the new URL as `endpoint` of Model/m.")
    );
}
