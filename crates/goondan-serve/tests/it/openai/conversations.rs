//! Which conversation a request belongs to.

use serde_json::json;

use super::{Door, assistant, user};

const RETRY: (&str, &str) = ("x-stainless-retry-count", "1");

#[tokio::test]
async fn a_history_goes_on_in_its_conversation() {
    let door = Door::open().await;
    assert_eq!(door.chat(json!([user("hi")])).await.answer().await, "1: hi");
    let talk = json!([user("hi"), assistant(" 1: hi\n"), user("and"), user("more")]);
    assert_eq!(door.chat(talk).await.answer().await, "2: and\n\nmore");
    assert_eq!(
        door.conversations().await,
        [[
            "user: hi",
            "assistant: 1: hi",
            "user: and\n\nmore",
            "assistant: 2: and\n\nmore"
        ]]
    );
}

#[tokio::test]
async fn whoever_says_the_same_has_a_conversation_of_its_own() {
    let door = Door::open().await;
    for _ in 0..2 {
        assert_eq!(door.chat(json!([user("hi")])).await.answer().await, "1: hi");
    }
    for secret in ["A", "B", "C"] {
        let answer = door
            .chat(json!([user("hi"), assistant("1: hi"), user(secret)]))
            .await
            .answer()
            .await;
        assert_eq!(answer, format!("2: {secret}"));
    }
    let conversations = door.conversations().await;
    // One stands still; one goes on; two were opened by what was sent.
    assert_eq!(
        conversations.iter().map(Vec::len).collect::<Vec<_>>(),
        [2, 4, 4, 4]
    );
    for secret in ["A", "B", "C"] {
        let heard = conversations
            .iter()
            .filter(|talk| talk.contains(&format!("user: {secret}")));
        assert_eq!(heard.count(), 1, "{conversations:?}");
    }
}

#[tokio::test]
async fn what_differs_is_another_conversation() {
    let door = Door::open().await;
    let talk = |more: serde_json::Value| {
        let mut body =
            json!({"model": "a", "messages": [user("hi"), assistant("1: hi"), user("again")]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    door.chat(json!([user("hi")])).await.answer().await;
    for other in [
        json!({"model": "b"}),
        json!({"user": "somebody"}),
        json!({"messages": [{"role": "system", "content": "x"}, user("hi"), assistant("1: hi"), user("again")]}),
        json!({"messages": [user("hi"), assistant("edited"), user("again")]}),
        json!({"messages": [user("ho"), assistant("1: hi"), user("again")]}),
    ] {
        let before = door.conversations().await.len();
        let answer = door
            .post("chat/completions", &talk(other), &[])
            .await
            .answer()
            .await;
        assert_eq!(answer, "2: again");
        assert_eq!(door.conversations().await.len(), before + 1);
    }
    let before = door.conversations().await.len();
    door.post("chat/completions", &talk(json!({})), &[])
        .await
        .answer()
        .await;
    assert_eq!(door.conversations().await.len(), before);
}

#[tokio::test]
async fn system_messages_are_instructions_of_the_turn() {
    let door = Door::open().await;
    door.chat(json!([{"role": "system", "content": "Be kind."}, user("hi")]))
        .await
        .answer()
        .await;
    assert_eq!(door.model.seen.lock().unwrap()[0], ["Be kind.", "user: hi"]);
    assert_eq!(
        door.conversations().await,
        [["user: hi", "assistant: 1: hi"]]
    );
}

#[tokio::test]
async fn a_failed_turn_leaves_its_conversation() {
    let door = Door::open().await;
    door.chat(json!([user("hi")])).await.answer().await;
    let (status, head, _) = door
        .chat(json!([user("hi"), assistant("1: hi"), user("fail")]))
        .await
        .head()
        .await;
    assert_eq!(status, 502);
    assert!(head.contains("x-should-retry: false"), "{head}");
    let answer = door
        .chat(json!([user("hi"), assistant("1: hi"), user("go on")]))
        .await
        .answer()
        .await;
    assert_eq!(answer, "2: go on");
}

#[tokio::test]
async fn a_conversation_with_a_name_takes_what_is_new() {
    let door = Door::open().await;
    let post = async |messages: serde_json::Value| {
        let body = json!({"model": "a", "messages": messages});
        door.post("chat/completions", &body, &[("x-goondan-instance", "mine")])
            .await
            .answer()
            .await
    };
    // What was said elsewhere opens it.
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
        door.post("chat/completions", &body, &[])
            .await
            .answer()
            .await,
        "5: four"
    );
    assert_eq!(door.conversations().await.len(), 1);
}

#[tokio::test]
async fn a_retry_begins_no_second_turn() {
    let door = Door::open().await;
    let body = json!({"model": "a", "messages": [user("hold on")]});
    let lost = door
        .post(
            "chat/completions",
            &body,
            &[("x-stainless-retry-count", "0")],
        )
        .await;
    while door.asked() == 0 {
        tokio::task::yield_now().await;
    }
    drop(lost);
    let again = door.post("chat/completions", &body, &[RETRY]).await;
    door.model.go_on.add_permits(1);
    assert_eq!(again.answer().await, "1: hold on");
    assert_eq!(door.asked(), 1);
    // A client that does not state a retry has a new request. So has a client that states one for
    // an answer that another client has received.
    for headers in [&[][..], &[RETRY]] {
        door.model.go_on.add_permits(1);
        let answer = door.post("chat/completions", &body, headers).await;
        answer.answer().await;
    }
    assert_eq!((door.asked(), door.conversations().await.len()), (3, 3));
}

#[tokio::test]
async fn a_retry_inside_a_conversation_is_answered_with_all_steps() {
    let door = Door::open().await;
    door.chat(json!([user("hi")])).await.answer().await;
    let body = json!({"model": "a", "messages": [user("hi"), assistant("1: hi"), user("shout")]});
    for _ in 0..3 {
        let answer = door
            .post("chat/completions", &body, &[("idempotency-key", "k")])
            .await
            .answer()
            .await;
        assert_eq!(answer, "One moment.\n\n2: shout");
    }
    assert_eq!(door.asked(), 3);
}

#[tokio::test]
async fn requests_with_the_same_key_are_one() {
    let door = Door::open().await;
    let body = json!({"model": "a", "messages": [user("hold on")]});
    let key = [("idempotency-key", "order-7")];
    let both = [
        door.post("chat/completions", &body, &key).await,
        door.post("chat/completions", &body, &key).await,
    ];
    while door.asked() == 0 {
        tokio::task::yield_now().await;
    }
    door.model.go_on.add_permits(2);
    let mut answers = Vec::new();
    for reply in both {
        answers.push(reply.json().await.1);
    }
    assert_eq!(answers[0]["id"], answers[1]["id"]);
    assert_eq!(door.asked(), 1);
    // The key holds after a restart.
    let door = door.open_again().await;
    let again = door
        .post("chat/completions", &body, &key)
        .await
        .json()
        .await
        .1;
    assert_eq!(again["choices"], answers[0]["choices"]);
    assert_eq!((door.asked(), again["id"] == answers[0]["id"]), (1, true));
    let other = json!({"model": "a", "messages": [user("another order")]});
    assert_eq!(
        door.post("chat/completions", &other, &key)
            .await
            .answer()
            .await,
        "1: another order"
    );
}

#[tokio::test]
async fn a_key_finds_its_turn_that_a_restart_has_cut_off() {
    let door = Door::open().await;
    let body = json!({"model": "a", "messages": [user("hold on")]});
    let key = [("idempotency-key", "order-7")];
    let _lost = door.post("chat/completions", &body, &key).await;
    while door.asked() == 0 {
        tokio::task::yield_now().await;
    }
    let door = door.open_again().await;
    let again = door.post("chat/completions", &body, &key).await;
    door.model.go_on.add_permits(2);
    assert_eq!(again.answer().await, "1: hold on");
    assert_eq!(
        door.conversations().await,
        [["user: hold on", "assistant: 1: hold on"]]
    );
}

#[tokio::test]
async fn two_who_go_on_from_one_response_do_not_meet() {
    let door = Door::open().await;
    let create = async |input: &str, previous: Option<&str>| {
        let body = json!({"model": "a", "input": input, "previous_response_id": previous});
        door.post("responses", &body, &[]).await
    };
    let first = create("hi", None).await.json().await.1;
    let first = first["id"].as_str();
    let both = [create("hold A", first).await, create("hold B", first).await];
    while door.asked() < 3 {
        tokio::task::yield_now().await;
    }
    door.model.go_on.add_permits(2);
    for (reply, wanted) in both.into_iter().zip(["2: hold A", "2: hold B"]) {
        let body = reply.json().await.1;
        assert_eq!(body["output"][0]["content"][0]["text"], wanted, "{body}");
    }
    assert_eq!(
        door.conversations()
            .await
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>(),
        [4, 4]
    );
}

#[tokio::test]
async fn a_response_is_known_after_a_restart_and_goes_on() {
    let door = Door::open().await;
    let body = json!({"model": "a", "input": "shout", "metadata": {"ticket": "7"}});
    let first = door.post("responses", &body, &[]).await.json().await.1;
    let door = door.open_again().await;
    let path = format!("responses/{}", first["id"].as_str().unwrap());
    let (status, mut told) = door.request("GET", &path, "", &[]).await.json().await;
    assert_eq!(status, 200);
    // The one is the clock of the server, the other that of the swarm.
    told["created_at"] = first["created_at"].clone();
    assert_eq!(told, first);
    let body = json!({"model": "a", "input": "and", "previous_response_id": first["id"]});
    let next = door.post("responses", &body, &[]).await.json().await.1;
    assert_eq!(next["output"][0]["content"][0]["text"], "2: and");
    assert_eq!(door.conversations().await.len(), 1);
    // Another agent gets what was said.
    let body = json!({"model": "b", "input": "and you", "previous_response_id": next["id"]});
    let other = door.post("responses", &body, &[]).await.json().await.1;
    assert_eq!(other["output"][0]["content"][0]["text"], "3: and you");
}

#[tokio::test]
async fn a_response_without_store_is_not_told_again() {
    let door = Door::open().await;
    let body = json!({"model": "a", "input": "hi", "store": false});
    let response = door.post("responses", &body, &[]).await.json().await.1;
    let path = format!("responses/{}", response["id"].as_str().unwrap());
    assert_eq!(
        door.request("GET", &path, "", &[]).await.json().await.0,
        404
    );
    let body = json!({"model": "a", "input": "hi", "previous_response_id": response["id"]});
    let (status, refused) = door.post("responses", &body, &[]).await.json().await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (400, &json!("previous_response_not_found"))
    );
}

#[tokio::test]
async fn an_id_that_a_client_made_is_no_response() {
    use base64::Engine as _;

    let door = Door::open().await;
    door.chat(json!([user("hi")])).await.answer().await;
    let [said] = &door.conversations().await[..] else {
        panic!("one conversation");
    };
    assert_eq!(said.len(), 2);
    let swarm = &door.running.swarm;
    let meta = swarm.instances().await.remove(0);
    let messages = swarm.conversation(&meta.id()).await.unwrap();
    // A turn id is that of its event.
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
        let (status, _) = door.request("GET", &path, "", &[]).await.json().await;
        assert_eq!(status, 404, "{fields}");
        let body = json!({"model": "a", "input": "go on", "previous_response_id": format!("resp_{encoded}")});
        let (status, refused) = door.post("responses", &body, &[]).await.json().await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (400, &json!("previous_response_not_found"))
        );
    }
}

#[tokio::test]
async fn files_stay_in_the_past_that_another_conversation_gets() {
    let door = Door::open().await;
    let look = json!([{"role": "user", "content": [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]}]);
    let first = door
        .post("responses", &json!({"model": "a", "input": look}), &[])
        .await
        .json()
        .await
        .1;
    for input in ["one", "two"] {
        let body = json!({"model": "a", "input": input, "previous_response_id": first["id"]});
        assert_eq!(door.post("responses", &body, &[]).await.json().await.0, 200);
    }
    for meta in door.running.swarm.instances().await {
        let messages = door.running.swarm.conversation(&meta.id()).await.unwrap();
        assert_eq!(messages[0].data.content.len(), 2, "{}", meta.id());
    }
}
