//! Embeddings over HTTP.

use goondan_runtime::ports::model::ModelErrorKind;
use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};

fn texts() -> Vec<String> {
    vec!["cats".to_owned(), "dogs".to_owned()]
}

#[tokio::test]
async fn openai_is_asked_for_all_texts_at_once() {
    let vector =
        |index: usize, embedding: Value| json!({"object": "embedding", "index": index, "embedding": embedding});
    let data = [vector(0, json!([1.0, 0.5])), vector(1, json!([-0.25, 0.0]))];
    let body = json!({"object": "list", "model": "some-model", "data": data, "usage": {"prompt_tokens": 2, "total_tokens": 2}});
    let mock = Mock::start(vec![Canned::json("200 OK", body)]).await;
    let client = client("openai", &format!("http://{}/v1", mock.address), json!({}));
    let vectors = client.embed(texts()).await.expect("vectors");
    assert_eq!(vectors, [vec![1.0, 0.5], vec![-0.25, 0.0]]);
    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /v1/embeddings HTTP/1.1");
    assert!(asked.head.contains(KEY), "{}", asked.head);
    assert_eq!((&asked.body["model"], &asked.body["input"]), (&json!("some-model"), &json!(["cats", "dogs"])));
}

#[tokio::test]
async fn ollama_embeds_without_a_key() {
    let body = json!({"model": "some-model", "embeddings": [[0.5, 1.0], [0.0, -1.0]], "prompt_eval_count": 2});
    let mock = Mock::start(vec![Canned::json("200 OK", body)]).await;
    let client = client("ollama", &format!("http://{}", mock.address), json!({}));
    assert_eq!(client.embed(texts()).await.expect("vectors"), [vec![0.5, 1.0], vec![0.0, -1.0]]);
    assert_eq!(mock.asked()[0].body["input"], json!(["cats", "dogs"]));
}

#[tokio::test]
async fn a_provider_that_refuses_or_talks_nonsense_is_an_error_that_tells_no_key() {
    let refusal = json!({"error": {"message": format!("no such key: {KEY}"), "type": "invalid_request_error"}});
    let cases = [
        (Canned::json("401 Unauthorized", refusal), Some(ModelErrorKind::Status(401))),
        (Canned::json("500 Internal Server Error", json!({"error": {"message": "later"}})), None),
        (Canned::json("200 OK", json!({"data": "none"})), None),
        (Canned::new("200 OK", "text/html", "<html>hello</html>"), None),
    ];
    for (canned, kind) in cases {
        let mock = Mock::start(vec![canned]).await;
        let client = client("openai", &format!("http://{}/v1", mock.address), json!({}));
        let error = client.embed(texts()).await.expect_err("no vectors");
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
        assert!(kind.is_none_or(|kind| error.kind == kind), "{error:?}");
    }
}
