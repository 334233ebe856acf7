//! Embeddings over HTTP.

use goondan_core::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn texts() -> Vec<String> {
    vec!["cats".to_owned(), "dogs".to_owned()]
}

#[tokio::test]
async fn openai_embeds_all_texts_in_one_request() {
    let vector = |index: usize, embedding: Value| json!({"object": "embedding", "index": index, "embedding": embedding});
    let data = [vector(0, json!([1.0, 0.5])), vector(1, json!([-0.25, 0.0]))];
    let body = json!({"object": "list", "model": "some-model", "data": data, "usage": {"prompt_tokens": 2, "total_tokens": 2}});
    let mock = MockServer::start(vec![MockResponse::json("200 OK", body)]).await;
    let client = client("openai", &format!("http://{}/v1", mock.address), json!({}));
    let vectors = client.embed(texts()).await.expect("vectors");
    assert_eq!(vectors, [vec![1.0, 0.5], vec![-0.25, 0.0]]);
    let request = &mock.requests()[0];
    assert_eq!(request.line, "POST /v1/embeddings HTTP/1.1");
    assert!(request.head.contains(KEY), "{}", request.head);
    assert_eq!(
        (&request.body["model"], &request.body["input"]),
        (&json!("some-model"), &json!(["cats", "dogs"]))
    );
}

#[tokio::test]
async fn ollama_embeds_without_a_key() {
    let body = json!({"model": "some-model", "embeddings": [[0.5, 1.0], [0.0, -1.0]], "prompt_eval_count": 2});
    let mock = MockServer::start(vec![MockResponse::json("200 OK", body)]).await;
    let client = client("ollama", &format!("http://{}", mock.address), json!({}));
    assert_eq!(
        client.embed(texts()).await.expect("vectors"),
        [vec![0.5, 1.0], vec![0.0, -1.0]]
    );
    assert_eq!(mock.requests()[0].body["input"], json!(["cats", "dogs"]));
}

#[tokio::test]
async fn failed_embedding_requests_are_errors_without_the_key() {
    let refusal = json!({"error": {"message": format!("no such key: {KEY}"), "type": "invalid_request_error"}});
    let later = json!({"error": {"message": "come back later"}});
    let cases = [
        (
            MockResponse::json("401 Unauthorized", refusal),
            ModelErrorKind::Status(401),
            "no such key",
        ),
        (
            MockResponse::json("500 Internal Server Error", later),
            ModelErrorKind::Status(500),
            "come back later",
        ),
        (
            MockResponse::json("200 OK", json!({"data": "none"})),
            ModelErrorKind::Protocol,
            "is not a list of embeddings",
        ),
        (
            MockResponse::new("200 OK", "application/json", "{\"data\": ["),
            ModelErrorKind::Connection,
            "sent an incomplete answer",
        ),
        (
            MockResponse::new("200 OK", "text/html", "<html>hello</html>"),
            ModelErrorKind::Protocol,
            "a web page",
        ),
    ];
    for (response, kind, words) in cases {
        let mock = MockServer::start(vec![response]).await;
        let client = client("openai", &format!("http://{}/v1", mock.address), json!({}));
        let error = client.embed(texts()).await.expect_err("no vectors");
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_names_the_address() {
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let error = client("openai", &format!("http://{address}/v1"), json!({}))
        .embed(texts())
        .await
        .expect_err("no server");
    assert_eq!(error.kind, ModelErrorKind::Starting, "{error:?}");
    assert!(error.message.contains(&address.to_string()), "{error:?}");
}
