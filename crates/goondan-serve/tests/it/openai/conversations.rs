//! Assignment of requests to conversations.

use serde_json::json;

use super::{OpenAiServer, assistant, user};

const RETRY: (&str, &str) = ("x-stainless-retry-count", "1");

#[tokio::test]
async fn a_matching_history_continues_its_conversation() {
    let server = OpenAiServer::start().await;
    assert_eq!(
        server.chat(json!([user("hi")])).await.answer().await,
        "1: hi"
    );
    let history = json!([user("hi"), assistant(" 1: hi\n"), user("and"), user("more")]);
    assert_eq!(server.chat(history).await.answer().await, "2: and\n\nmore");
    assert_eq!(
        server.conversations().await,
        [[
            "user: hi",
            "assistant: 1: hi",
            "user: and\n\nmore",
            "assistant: 2: and\n\nmore"
        ]]
    );
}

#[tokio::test]
async fn equal_requests_get_separate_conversations() {
    let server = OpenAiServer::start().await;
    for _ in 0..2 {
        assert_eq!(
            server.chat(json!([user("hi")])).await.answer().await,
            "1: hi"
        );
    }
    for secret in ["A", "B", "C"] {
        let answer = server
            .chat(json!([user("hi"), assistant("1: hi"), user(secret)]))
            .await
            .answer()
            .await;
        assert_eq!(answer, format!("2: {secret}"));
    }
    let conversations = server.conversations().await;
    // One unchanged conversation, one continued, and two new ones with the sent history.
    assert_eq!(
        conversations.iter().map(Vec::len).collect::<Vec<_>>(),
        [2, 4, 4, 4]
    );
    for secret in ["A", "B", "C"] {
        let matching = conversations
            .iter()
            .filter(|talk| talk.contains(&format!("user: {secret}")));
        assert_eq!(matching.count(), 1, "{conversations:?}");
    }
}

#[tokio::test]
async fn a_different_history_starts_another_conversation() {
    let server = OpenAiServer::start().await;
    let talk = |more: serde_json::Value| {
        let mut body =
            json!({"model": "a", "messages": [user("hi"), assistant("1: hi"), user("again")]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    server.chat(json!([user("hi")])).await.answer().await;
    for other in [
        json!({"model": "b"}),
        json!({"user": "somebody"}),
        json!({"messages": [{"role": "system", "content": "x"}, user("hi"), assistant("1: hi"), user("again")]}),
        json!({"messages": [user("hi"), assistant("edited"), user("again")]}),
        json!({"messages": [user("ho"), assistant("1: hi"), user("again")]}),
    ] {
        let before = server.conversations().await.len();
        let answer = server
            .post("chat/completions", &talk(other), &[])
            .await
            .answer()
            .await;
        assert_eq!(answer, "2: again");
        assert_eq!(server.conversations().await.len(), before + 1);
    }
    let before = server.conversations().await.len();
    server
        .post("chat/completions", &talk(json!({})), &[])
        .await
        .answer()
        .await;
    assert_eq!(server.conversations().await.len(), before);
}

#[tokio::test]
async fn system_messages_become_turn_instructions() {
    let server = OpenAiServer::start().await;
    server
        .chat(json!([{"role": "system", "content": "Be kind."}, user("hi")]))
        .await
        .answer()
        .await;
    assert_eq!(
        server.model.seen.lock().unwrap()[0],
        ["Be kind.", "user: hi"]
    );
    assert_eq!(
        server.conversations().await,
        [["user: hi", "assistant: 1: hi"]]
    );
}

#[tokio::test]
async fn a_failed_turn_does_not_affect_the_next_request() {
    let server = OpenAiServer::start().await;
    server.chat(json!([user("hi")])).await.answer().await;
    let (status, head, _) = server
        .chat(json!([user("hi"), assistant("1: hi"), user("fail")]))
        .await
        .head()
        .await;
    assert_eq!(status, 502);
    assert!(head.contains("x-should-retry: false"), "{head}");
    let answer = server
        .chat(json!([user("hi"), assistant("1: hi"), user("go on")]))
        .await
        .answer()
        .await;
    assert_eq!(answer, "2: go on");
}

#[tokio::test]
async fn a_named_conversation_receives_only_new_messages() {
    let server = OpenAiServer::start().await;
    let post = async |messages: serde_json::Value| {
        let body = json!({"model": "a", "messages": messages});
        server
            .post("chat/completions", &body, &[("x-goondan-instance", "mine")])
            .await
            .answer()
            .await
    };
    // The sent history becomes the beginning of the new conversation.
    assert_eq!(
        post(json!([user("hi"), assistant("ho"), user("one")])).await,
        "2: one"
    );
    assert_eq!(post(json!([user("two")])).await, "3: two");
    assert_eq!(
        post(json!([user("x"), assistant("y"), user("three")])).await,
        "4: three"
    );
    let body =
        json!({"model": "a", "messages": [user("four")], "metadata": {"instanceKey": "mine"}});
    assert_eq!(
        server
            .post("chat/completions", &body, &[])
            .await
            .answer()
            .await,
        "5: four"
    );
    assert_eq!(server.conversations().await.len(), 1);
}

#[tokio::test]
async fn a_retry_starts_no_second_turn() {
    let server = OpenAiServer::start().await;
    let body = json!({"model": "a", "messages": [user("hold on")]});
    let lost = server
        .post(
            "chat/completions",
            &body,
            &[("x-stainless-retry-count", "0")],
        )
        .await;
    while server.model_calls() == 0 {
        tokio::task::yield_now().await;
    }
    drop(lost);
    let again = server.post("chat/completions", &body, &[RETRY]).await;
    server.model.resume.add_permits(1);
    assert_eq!(again.answer().await, "1: hold on");
    assert_eq!(server.model_calls(), 1);
    // A request without a retry count is a new request. A retry is also a new request if the answer
    // was already delivered to another client.
    for headers in [&[][..], &[RETRY]] {
        server.model.resume.add_permits(1);
        let answer = server.post("chat/completions", &body, headers).await;
        answer.answer().await;
    }
    assert_eq!(
        (server.model_calls(), server.conversations().await.len()),
        (3, 3)
    );
}

#[tokio::test]
async fn a_repeated_key_returns_the_answer_of_all_steps() {
    let server = OpenAiServer::start().await;
    server.chat(json!([user("hi")])).await.answer().await;
    let body = json!({"model": "a", "messages": [user("hi"), assistant("1: hi"), user("shout")]});
    for _ in 0..3 {
        let answer = server
            .post("chat/completions", &body, &[("idempotency-key", "k")])
            .await
            .answer()
            .await;
        assert_eq!(answer, "One moment.\n\n2: shout");
    }
    assert_eq!(server.model_calls(), 3);
}

#[tokio::test]
async fn requests_with_the_same_idempotency_key_share_a_turn() {
    let server = OpenAiServer::start().await;
    let body = json!({"model": "a", "messages": [user("hold on")]});
    let key = [("idempotency-key", "order-7")];
    let both = [
        server.post("chat/completions", &body, &key).await,
        server.post("chat/completions", &body, &key).await,
    ];
    while server.model_calls() == 0 {
        tokio::task::yield_now().await;
    }
    server.model.resume.add_permits(2);
    let mut answers = Vec::new();
    for reply in both {
        answers.push(reply.json().await.1);
    }
    assert_eq!(answers[0]["id"], answers[1]["id"]);
    assert_eq!(server.model_calls(), 1);
    // The idempotency key is still valid after a restart.
    let server = server.restart().await;
    let again = server
        .post("chat/completions", &body, &key)
        .await
        .json()
        .await
        .1;
    assert_eq!(again["choices"], answers[0]["choices"]);
    assert_eq!(
        (server.model_calls(), again["id"] == answers[0]["id"]),
        (1, true)
    );
    let other = json!({"model": "a", "messages": [user("another order")]});
    assert_eq!(
        server
            .post("chat/completions", &other, &key)
            .await
            .answer()
            .await,
        "1: another order"
    );
}

#[tokio::test]
async fn an_idempotency_key_finds_a_turn_interrupted_by_a_restart() {
    let server = OpenAiServer::start().await;
    let body = json!({"model": "a", "messages": [user("hold on")]});
    let key = [("idempotency-key", "order-7")];
    let _lost = server.post("chat/completions", &body, &key).await;
    while server.model_calls() == 0 {
        tokio::task::yield_now().await;
    }
    let server = server.restart().await;
    let again = server.post("chat/completions", &body, &key).await;
    server.model.resume.add_permits(2);
    assert_eq!(again.answer().await, "1: hold on");
    assert_eq!(
        server.conversations().await,
        [["user: hold on", "assistant: 1: hold on"]]
    );
}

#[tokio::test]
async fn two_continuations_of_a_response_use_separate_conversations() {
    let server = OpenAiServer::start().await;
    let create = async |input: &str, previous: Option<&str>| {
        let body = json!({"model": "a", "input": input, "previous_response_id": previous});
        server.post("responses", &body, &[]).await
    };
    let first = create("hi", None).await.json().await.1;
    let first = first["id"].as_str();
    let both = [create("hold A", first).await, create("hold B", first).await];
    while server.model_calls() < 3 {
        tokio::task::yield_now().await;
    }
    server.model.resume.add_permits(2);
    for (reply, expected) in both.into_iter().zip(["2: hold A", "2: hold B"]) {
        let body = reply.json().await.1;
        assert_eq!(body["output"][0]["content"][0]["text"], expected, "{body}");
    }
    assert_eq!(
        server
            .conversations()
            .await
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>(),
        [4, 4]
    );
}

#[tokio::test]
async fn a_response_can_be_continued_after_a_restart() {
    let server = OpenAiServer::start().await;
    let body = json!({"model": "a", "input": "shout", "metadata": {"ticket": "7"}});
    let first = server.post("responses", &body, &[]).await.json().await.1;
    let server = server.restart().await;
    let path = format!("responses/{}", first["id"].as_str().unwrap());
    let (status, mut retrieved) = server.request("GET", &path, "", &[]).await.json().await;
    assert_eq!(status, 200);
    // The timestamps differ: one is from the clock of the server, the other from the swarm.
    retrieved["created_at"] = first["created_at"].clone();
    assert_eq!(retrieved, first);
    let body = json!({"model": "a", "input": "and", "previous_response_id": first["id"]});
    let next = server.post("responses", &body, &[]).await.json().await.1;
    assert_eq!(next["output"][0]["content"][0]["text"], "2: and");
    assert_eq!(server.conversations().await.len(), 1);
    // Another agent continues with a copy of the history.
    let body = json!({"model": "b", "input": "and you", "previous_response_id": next["id"]});
    let other = server.post("responses", &body, &[]).await.json().await.1;
    assert_eq!(other["output"][0]["content"][0]["text"], "3: and you");
}

#[tokio::test]
async fn a_response_with_store_false_cannot_be_retrieved() {
    let server = OpenAiServer::start().await;
    let body = json!({"model": "a", "input": "hi", "store": false});
    let response = server.post("responses", &body, &[]).await.json().await.1;
    let path = format!("responses/{}", response["id"].as_str().unwrap());
    assert_eq!(
        server.request("GET", &path, "", &[]).await.json().await.0,
        404
    );
    let body = json!({"model": "a", "input": "hi", "previous_response_id": response["id"]});
    let (status, refused) = server.post("responses", &body, &[]).await.json().await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (400, &json!("previous_response_not_found"))
    );
}

#[tokio::test]
async fn a_forged_response_id_is_rejected() {
    use base64::Engine as _;

    let server = OpenAiServer::start().await;
    server.chat(json!([user("hi")])).await.answer().await;
    let [said] = &server.conversations().await[..] else {
        panic!("expected one conversation");
    };
    assert_eq!(said.len(), 2);
    let swarm = &server.inner.swarm;
    let meta = swarm.instances().await.remove(0);
    let messages = swarm.conversation(&meta.id()).await.unwrap();
    // Derives the event id, as an attacker could: message ids contain the turn id of the event.
    let event = format!("evt-{}", meta.instance_key);
    assert!(
        messages[0]
            .id
            .contains(goondan::event::turn_id(&event).as_str()),
        "{}",
        messages[0].id
    );
    for fields in [
        json!([event, meta.agent, meta.instance_key]),
        json!([event, meta.agent, meta.instance_key, true]),
    ] {
        let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(fields.to_string());
        let path = format!("responses/resp_{encoded}");
        let (status, _) = server.request("GET", &path, "", &[]).await.json().await;
        assert_eq!(status, 404, "{fields}");
        let body = json!({"model": "a", "input": "go on", "previous_response_id": format!("resp_{encoded}")});
        let (status, refused) = server.post("responses", &body, &[]).await.json().await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (400, &json!("previous_response_not_found"))
        );
    }
}

#[tokio::test]
async fn files_are_copied_with_the_history_of_a_response() {
    let server = OpenAiServer::start().await;
    let look = json!([{"role": "user", "content": [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]}]);
    let first = server
        .post("responses", &json!({"model": "a", "input": look}), &[])
        .await
        .json()
        .await
        .1;
    for input in ["one", "two"] {
        let body = json!({"model": "a", "input": input, "previous_response_id": first["id"]});
        assert_eq!(
            server.post("responses", &body, &[]).await.json().await.0,
            200
        );
    }
    for meta in server.inner.swarm.instances().await {
        let messages = server.inner.swarm.conversation(&meta.id()).await.unwrap();
        assert_eq!(messages[0].data.content.len(), 2, "{}", meta.id());
    }
}
