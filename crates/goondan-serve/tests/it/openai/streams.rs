//! Streamed answers.

use serde_json::{Value, json};

use super::{OpenAiServer, assistant, content, stream, user};

#[tokio::test]
async fn text_is_streamed_before_the_model_finishes() {
    let server = OpenAiServer::start().await;
    let mut reply = server
        .post("chat/completions", &stream("hold on"), &[])
        .await;
    reply.read_until("\"content\":\"1: \"").await;
    server.model.resume.add_permits(1);
    let chunks = reply.events().await;
    assert_eq!(content(&chunks), "1: hold on");
    assert_eq!(chunks.last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn streamed_and_whole_answers_are_equal() {
    let server = OpenAiServer::start().await;
    let streamed = content(
        &server
            .post("chat/completions", &stream("shout"), &[])
            .await
            .events()
            .await,
    );
    let whole = server.chat(json!([user("shout")])).await.answer().await;
    assert_eq!(
        (&*streamed, &*whole),
        ("One moment.\n\n1: shout", "One moment.\n\n1: shout")
    );
    // Both conversations can be continued.
    for _ in 0..2 {
        server
            .chat(json!([user("shout"), assistant(&whole), user("bye")]))
            .await
            .answer()
            .await;
    }
    assert_eq!(server.conversations().await.len(), 3);
}

#[tokio::test]
async fn a_turn_continues_after_its_client_disconnects() {
    let server = OpenAiServer::start().await;
    let mut reply = server
        .post("chat/completions", &stream("hold on"), &[])
        .await;
    reply.read_until("1: ").await;
    drop(reply);
    // A retry receives the whole answer as soon as the server notices the broken connection.
    let again = server
        .post(
            "chat/completions",
            &stream("hold on"),
            &[("x-stainless-retry-count", "1")],
        )
        .await;
    server.model.resume.add_permits(1);
    assert_eq!(content(&again.events().await), "1: hold on");
    let answer = server
        .chat(json!([
            user("hold on"),
            assistant("1: hold on"),
            user("bye")
        ]))
        .await
        .answer()
        .await;
    assert_eq!(answer, "2: bye");
    assert_eq!(
        (server.conversations().await.len(), server.model_calls()),
        (1, 2)
    );
}

#[tokio::test]
async fn a_late_subscriber_receives_the_answer_from_the_beginning() {
    let server = OpenAiServer::start().await;
    let key = [("idempotency-key", "k")];
    let mut first = server
        .post("chat/completions", &stream("hold, shout"), &key)
        .await;
    first.read_until("\\n\\n1: ").await;
    let mut second = server
        .post("chat/completions", &stream("hold, shout"), &key)
        .await;
    second.read_until("\\n\\n1: ").await;
    server.model.resume.add_permits(1);
    for reply in [first, second] {
        assert_eq!(
            content(&reply.events().await),
            "One moment.\n\n1: hold, shout"
        );
    }
}

#[tokio::test]
async fn response_events_are_in_order() {
    let server = OpenAiServer::start().await;
    let body = json!({"model": "a", "input": "shout", "stream": true});
    let events = server.post("responses", &body, &[]).await.events().await;
    let numbers: Vec<_> = events
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let mut kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    kinds.dedup();
    let step = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    let expected = [
        &["response.created", "response.in_progress"],
        &step[..],
        &step,
        &["response.completed"],
    ]
    .concat();
    assert_eq!(kinds, expected);
    let of_item = |index: u64, kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["output_index"] == index && event["type"] == kind)
            .collect()
    };
    for (index, text) in ["One moment.", "1: shout"].into_iter().enumerate() {
        let deltas = of_item(index as u64, "response.output_text.delta");
        let text_of_deltas: String = deltas
            .iter()
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!(text_of_deltas, text);
        assert_eq!(
            of_item(index as u64, "response.output_text.done")[0]["text"],
            text
        );
    }
    let last = &events[events.len() - 1]["response"];
    assert_eq!(
        (&last["status"], &last["usage"]["total_tokens"]),
        (&json!("completed"), &json!(6))
    );
    assert_eq!(last["id"], events[0]["response"]["id"]);
}

#[tokio::test]
async fn a_failed_turn_ends_its_stream_with_an_error() {
    let server = OpenAiServer::start().await;
    let chunks = server
        .post("chat/completions", &stream("fail"), &[])
        .await
        .events()
        .await;
    let last = chunks.last().unwrap();
    assert_eq!(last["error"]["code"], "E_MODEL_STATUS", "{chunks:?}");
    let body = json!({"model": "a", "input": "fail", "stream": true});
    let events = server.post("responses", &body, &[]).await.events().await;
    let last = &events.last().unwrap()["response"];
    assert_eq!(
        (&last["status"], &last["error"]["code"]),
        (&json!("failed"), &json!("server_error"))
    );
    let path = format!("responses/{}", last["id"].as_str().unwrap());
    let retrieved = server.request("GET", &path, "", &[]).await.json().await.1;
    assert_eq!(
        (&retrieved["status"], &retrieved["error"]),
        (&last["status"], &last["error"])
    );
}
