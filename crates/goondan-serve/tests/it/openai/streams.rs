//! Answers as they are made.

use serde_json::{Value, json};

use super::{Door, assistant, content, stream, user};

#[tokio::test]
async fn text_comes_before_the_model_has_said_all() {
    let door = Door::open().await;
    let mut reply = door.post("chat/completions", &stream("hold on"), &[]).await;
    reply.until("\"content\":\"1: \"").await;
    door.model.go_on.add_permits(1);
    let chunks = reply.events().await;
    assert_eq!(content(&chunks), "1: hold on");
    assert_eq!(chunks.last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn with_and_without_a_stream_the_answer_is_the_same() {
    let door = Door::open().await;
    let streamed = content(
        &door
            .post("chat/completions", &stream("shout"), &[])
            .await
            .events()
            .await,
    );
    let whole = door.chat(json!([user("shout")])).await.answer().await;
    assert_eq!(
        (&*streamed, &*whole),
        ("One moment.\n\n1: shout", "One moment.\n\n1: shout")
    );
    // Either goes on.
    for _ in 0..2 {
        door.chat(json!([user("shout"), assistant(&whole), user("bye")]))
            .await
            .answer()
            .await;
    }
    assert_eq!(door.conversations().await.len(), 3);
}

#[tokio::test]
async fn a_turn_goes_on_without_its_client_and_so_does_the_conversation() {
    let door = Door::open().await;
    let mut reply = door.post("chat/completions", &stream("hold on"), &[]).await;
    reply.until("1: ").await;
    drop(reply);
    // A retry gets the answer from its beginning, as soon as the server notices the broken connection.
    let again = door
        .post(
            "chat/completions",
            &stream("hold on"),
            &[("x-stainless-retry-count", "1")],
        )
        .await;
    door.model.go_on.add_permits(1);
    assert_eq!(content(&again.events().await), "1: hold on");
    let answer = door
        .chat(json!([
            user("hold on"),
            assistant("1: hold on"),
            user("bye")
        ]))
        .await
        .answer()
        .await;
    assert_eq!(answer, "2: bye");
    assert_eq!((door.conversations().await.len(), door.asked()), (1, 2));
}

#[tokio::test]
async fn who_joins_in_the_middle_reads_from_the_beginning() {
    let door = Door::open().await;
    let key = [("idempotency-key", "k")];
    let mut first = door
        .post("chat/completions", &stream("hold, shout"), &key)
        .await;
    first.until("\\n\\n1: ").await;
    let mut second = door
        .post("chat/completions", &stream("hold, shout"), &key)
        .await;
    second.until("\\n\\n1: ").await;
    door.model.go_on.add_permits(1);
    for reply in [first, second] {
        assert_eq!(
            content(&reply.events().await),
            "One moment.\n\n1: hold, shout"
        );
    }
}

#[tokio::test]
async fn a_response_has_its_events_in_order() {
    let door = Door::open().await;
    let body = json!({"model": "a", "input": "shout", "stream": true});
    let events = door.post("responses", &body, &[]).await.events().await;
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
    let wanted = [
        &["response.created", "response.in_progress"],
        &step[..],
        &step,
        &["response.completed"],
    ]
    .concat();
    assert_eq!(kinds, wanted);
    let of_item = |index: u64, kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["output_index"] == index && event["type"] == kind)
            .collect()
    };
    for (index, text) in ["One moment.", "1: shout"].into_iter().enumerate() {
        let deltas = of_item(index as u64, "response.output_text.delta");
        let said: String = deltas
            .iter()
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!(said, text);
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
async fn a_turn_that_fails_ends_its_stream() {
    let door = Door::open().await;
    let chunks = door
        .post("chat/completions", &stream("fail"), &[])
        .await
        .events()
        .await;
    let last = chunks.last().unwrap();
    assert_eq!(last["error"]["code"], "E_MODEL_STATUS", "{chunks:?}");
    let body = json!({"model": "a", "input": "fail", "stream": true});
    let events = door.post("responses", &body, &[]).await.events().await;
    let last = &events.last().unwrap()["response"];
    assert_eq!(
        (&last["status"], &last["error"]["code"]),
        (&json!("failed"), &json!("server_error"))
    );
    let path = format!("responses/{}", last["id"].as_str().unwrap());
    let told = door.request("GET", &path, "", &[]).await.json().await.1;
    assert_eq!(
        (&told["status"], &told["error"]),
        (&last["status"], &last["error"])
    );
}
