//! Reasoning, incomplete answers and refusals.

use serde_json::{Value, json};

use super::{OpenAiServer, content, stream, user};

/// Joins the deltas of a field in streamed chunks.
fn joined(chunks: &[Value], field: &str) -> String {
    let deltas = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str());
    deltas.collect()
}

/// Returns the finish reason in streamed chunks.
fn finish_reason(chunks: &[Value]) -> &Value {
    let reasons = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["finish_reason"]);
    reasons
        .into_iter()
        .find(|reason| reason.is_string())
        .unwrap()
}

#[tokio::test]
async fn reasoning_is_separate_from_the_answer_text() {
    let server = OpenAiServer::start().await;
    let (status, whole) = server.chat(json!([user("reason")])).await.json().await;
    assert_eq!(status, 200);
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "Seen.");
    assert_eq!(message["reasoning_content"], "Let me see.");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        whole["usage"]["prompt_tokens_details"],
        json!({"cached_tokens": 1})
    );
    let chunks = server
        .post("chat/completions", &stream("reason"), &[])
        .await
        .events()
        .await;
    assert_eq!(joined(&chunks, "reasoning_content"), "Let me see.");
    assert_eq!(content(&chunks), "Seen.");
    let plain = server.chat(json!([user("hi")])).await.json().await.1;
    assert_eq!(
        plain["choices"][0]["message"].get("reasoning_content"),
        None
    );
}

#[tokio::test]
async fn an_incomplete_answer_has_finish_reason_length() {
    let server = OpenAiServer::start().await;
    let whole = server.chat(json!([user("cut")])).await.json().await.1;
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["choices"][0]["message"]["content"], "Seen.");
    let chunks = server
        .post("chat/completions", &stream("cut"), &[])
        .await
        .events()
        .await;
    assert_eq!(finish_reason(&chunks), "length");
    let body = json!({"model": "a", "input": "cut"});
    let response = server.post("responses", &body, &[]).await.json().await.1;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
}

#[tokio::test]
async fn a_refusal_has_finish_reason_content_filter() {
    let server = OpenAiServer::start().await;
    let refusal = "The model declined to answer: not this.";
    let (status, whole) = server.chat(json!([user("decline")])).await.json().await;
    assert_eq!(status, 200);
    assert_eq!(whole["choices"][0]["finish_reason"], "content_filter");
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &message["refusal"]),
        (&json!(""), &json!(refusal))
    );
    let chunks = server
        .post("chat/completions", &stream("decline"), &[])
        .await
        .events()
        .await;
    assert_eq!(content(&chunks), "Half an");
    assert_eq!(joined(&chunks, "refusal"), refusal);
    assert_eq!(finish_reason(&chunks), "content_filter");
    assert_eq!(chunks.last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn a_response_has_reasoning_and_refusal_items() {
    let server = OpenAiServer::start().await;
    for (input, prefixes, status) in [
        ("reason", ["rs_", "msg_"], "completed"),
        ("decline", ["msg_", "msg_"], "incomplete"),
    ] {
        let body = json!({"model": "a", "input": input, "stream": true});
        let events = server.post("responses", &body, &[]).await.events().await;
        let last = &events.last().unwrap()["response"];
        assert_eq!(last["status"], status, "{input}");
        let output = last["output"].as_array().unwrap();
        let ids = output.iter().map(|item| item["id"].as_str().unwrap());
        assert!(
            ids.zip(prefixes).all(|(id, prefix)| id.starts_with(prefix)),
            "{output:?}"
        );
        let done: Vec<_> = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .map(|event| &event["item"])
            .collect();
        assert_eq!(done, output.iter().collect::<Vec<_>>());
    }
    let body = json!({"model": "a", "input": "reason", "stream": true});
    let events = server.post("responses", &body, &[]).await.events().await;
    let mut kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    kinds.dedup();
    let item = |name: &str| {
        [
            "response.output_item.added".to_owned(),
            "response.content_part.added".to_owned(),
            format!("response.{name}.delta"),
            format!("response.{name}.done"),
            "response.content_part.done".to_owned(),
            "response.output_item.done".to_owned(),
        ]
    };
    let expected = [
        &[
            "response.created".to_owned(),
            "response.in_progress".to_owned(),
        ][..],
        &item("reasoning_text"),
        &item("output_text"),
        &["response.completed".to_owned()],
    ];
    assert_eq!(kinds, expected.concat());
    let last = &events.last().unwrap()["response"];
    let path = format!("responses/{}", last["id"].as_str().unwrap());
    let retrieved = server.request("GET", &path, "", &[]).await.json().await.1;
    assert_eq!(retrieved["output"], last["output"]);
}
