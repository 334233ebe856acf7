//! Embeddings over HTTP.

use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

fn texts() -> Vec<String> {
    vec!["cats".to_owned(), "dogs".to_owned()]
}

#[tokio::test]
async fn openai_is_asked_for_all_texts_at_once() {
    let vector = |index: usize, embedding: Value| json!({"object": "embedding", "index": index, "embedding": embedding});
    let data = [vector(0, json!([1.0, 0.5])), vector(1, json!([-0.25, 0.0]))];
    let body = json!({"object": "list", "model": "some-model", "data": data, "usage": {"prompt_tokens": 2, "total_tokens": 2}});
    let mock = Mock::start(vec![Canned::json("200 OK", body)]).await;
    let client = client("openai", &format!("http://{}/v1", mock.address), json!({}));
    let vectors = client.embed(texts()).await.expect("vectors");
    assert_eq!(vectors, [vec![1.0, 0.5], vec![-0.25, 0.0]]);
    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /v1/embeddings HTTP/1.1");
    assert!(asked.head.contains(KEY), "{}", asked.head);
    assert_eq!(
        (&asked.body["model"], &asked.body["input"]),
        (&json!("some-model"), &json!(["cats", "dogs"]))
    );
}

#[tokio::test]
async fn ollama_embeds_without_a_key() {
    let body = json!({"model": "some-model", "embeddings": [[0.5, 1.0], [0.0, -1.0]], "prompt_eval_count": 2});
    let mock = Mock::start(vec![Canned::json("200 OK", body)]).await;
    let client = client("ollama", &format!("http://{}", mock.address), json!({}));
    assert_eq!(
        client.embed(texts()).await.expect("vectors"),
        [vec![0.5, 1.0], vec![0.0, -1.0]]
    );
    assert_eq!(mock.asked()[0].body["input"], json!(["cats", "dogs"]));
}

#[tokio::test]
async fn a_provider_that_refuses_or_talks_nonsense_is_an_error_that_tells_no_key() {
    let refusal = json!({"error": {"message": format!("no such key: {KEY}"), "type": "invalid_request_error"}});
    let later = json!({"error": {"message": "come back later"}});
    let cases = [
        (
            Canned::json("401 Unauthorized", refusal),
            ModelErrorKind::Status(401),
            "no such key",
        ),
        (
            Canned::json("500 Internal Server Error", later),
            ModelErrorKind::Status(500),
            "come back later",
        ),
        (
            Canned::json("200 OK", json!({"data": "none"})),
            ModelErrorKind::Protocol,
            "not a model's answer",
        ),
        (
            Canned::new("200 OK", "application/json", "{\"data\": ["),
            ModelErrorKind::Protocol,
            "not JSON",
        ),
        (
            Canned::new("200 OK", "text/html", "<html>hello</html>"),
            ModelErrorKind::Protocol,
            "HTML",
        ),
    ];
    for (canned, kind, words) in cases {
        let mock = Mock::start(vec![canned]).await;
        let client = client("openai", &format!("http://{}/v1", mock.address), json!({}));
        let error = client.embed(texts()).await.expect_err("no vectors");
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_an_error_that_names_it() {
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let error = client("openai", &format!("http://{address}/v1"), json!({}))
        .embed(texts())
        .await
        .expect_err("nobody");
    assert_eq!(error.kind, ModelErrorKind::Connection, "{error:?}");
    assert!(error.message.contains(&address.to_string()), "{error:?}");
}
