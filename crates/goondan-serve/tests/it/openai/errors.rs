//! Errors in OpenAI's shape, whoever makes them.

use serde_json::{Value, json};

use super::{Door, stream, user};

/// Method, address, body, headers; status, `param` and `code` of what comes back.
type Case<'a> = (
    &'a str,
    &'a str,
    &'a str,
    &'a [(&'a str, &'a str)],
    u16,
    Value,
    Value,
);

#[tokio::test]
async fn errors_before_a_turn_have_a_status_and_one_shape() {
    let door = Door::open().await;
    let chat = |more: Value| {
        let mut body = json!({"model": "a", "messages": [user("hi")]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let wrong = [("authorization", "Bearer wrong-wrong-wrong-wrong")];
    let foreign = [("origin", "https://evil.example")];
    let large = chat(json!({"user": "x".repeat(200_000)}));
    let cases: [Case<'_>; 13] = [
        (
            "GET",
            "models",
            "",
            &wrong,
            401,
            Value::Null,
            json!("invalid_api_key"),
        ),
        (
            "GET",
            "models",
            "",
            &foreign,
            403,
            Value::Null,
            json!("E_SERVE_ORIGIN"),
        ),
        (
            "GET",
            "nothing",
            "",
            &[],
            404,
            Value::Null,
            json!("unknown_url"),
        ),
        (
            "GET",
            "chat/completions",
            "",
            &[],
            405,
            Value::Null,
            Value::Null,
        ),
        (
            "GET",
            "models/c",
            "",
            &[],
            404,
            json!("model"),
            json!("model_not_found"),
        ),
        (
            "GET",
            "responses/resp_x",
            "",
            &[],
            404,
            Value::Null,
            json!("response_not_found"),
        ),
        (
            "POST",
            "chat/completions",
            "{",
            &[],
            400,
            Value::Null,
            Value::Null,
        ),
        (
            "POST",
            "chat/completions",
            "[]",
            &[],
            400,
            Value::Null,
            Value::Null,
        ),
        (
            "POST",
            "chat/completions",
            &large,
            &[],
            413,
            Value::Null,
            json!("E_SERVE_TOO_LARGE"),
        ),
        (
            "POST",
            "chat/completions",
            &chat(json!({"model": null})),
            &[],
            400,
            json!("model"),
            Value::Null,
        ),
        (
            "POST",
            "chat/completions",
            &chat(json!({"stream": 1})),
            &[],
            400,
            json!("stream"),
            Value::Null,
        ),
        (
            "POST",
            "responses",
            &chat(json!({})),
            &[],
            400,
            json!("input"),
            Value::Null,
        ),
        (
            "POST",
            "chat/completions",
            &chat(json!({"metadata": {"gdn.x": "y"}})),
            &[],
            400,
            Value::Null,
            json!("AGENT_EVENT_RESERVED"),
        ),
    ];
    for (method, path, body, headers, status, param, code) in cases {
        let (seen, refused) = door.request(method, path, body, headers).await.json().await;
        let error = refused["error"].as_object().unwrap();
        assert_eq!(
            error.keys().collect::<Vec<_>>(),
            ["message", "type", "param", "code"]
        );
        assert_eq!(
            (seen, &error["param"], &error["code"]),
            (status, &param, &code),
            "{method} {path}: {refused}"
        );
        assert_eq!(error["type"], "invalid_request_error");
    }
    assert_eq!(door.asked(), 0);
}

#[tokio::test]
async fn a_server_that_stops_says_so_and_may_be_asked_again() {
    let door = Door::open().await;
    door.running.service.drain();
    let (status, head, refused) = door
        .post("chat/completions", &stream("hi"), &[])
        .await
        .head()
        .await;
    assert_eq!(
        (status, &refused["error"]["type"]),
        (503, &json!("server_error"))
    );
    assert!(
        head.contains("retry-after: 1") && !head.contains("x-should-retry"),
        "{head}"
    );
}

#[tokio::test]
async fn a_swarm_that_ends_ends_its_streams() {
    let door = Door::open().await;
    let mut reply = door.post("chat/completions", &stream("hold on"), &[]).await;
    reply.until("1: ").await;
    door.running.swarm.kill();
    let chunks = reply.events().await;
    assert_eq!(
        chunks.last().unwrap()["error"]["code"],
        "SWARM_STOPPED",
        "{chunks:?}"
    );
}

#[tokio::test]
async fn a_refused_input_leaves_its_conversation_where_it_stood() {
    let door = Door::open().await;
    door.chat(json!([user("hi")])).await.answer().await;
    let talk = |more: Value| {
        json!({"model": "a", "metadata": more, "messages": [
            user("hi"), {"role": "assistant", "content": "1: hi"}, user("again"),
        ]})
    };
    let (status, _) = door
        .post("chat/completions", &talk(json!({"cron": "x"})), &[])
        .await
        .json()
        .await;
    assert_eq!(status, 400);
    door.post("chat/completions", &talk(json!({})), &[])
        .await
        .answer()
        .await;
    assert_eq!(door.conversations().await.len(), 1);
}
