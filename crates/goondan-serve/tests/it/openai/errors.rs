//! Errors in the OpenAI format, from all layers of the server.

use serde_json::{Value, json};

use super::{OpenAiServer, stream, user};

/// Method, path, body and headers of a request; status, `param` and `code` of the response.
type ErrorCase<'a> = (
    &'a str,
    &'a str,
    &'a str,
    &'a [(&'a str, &'a str)],
    u16,
    Value,
    Value,
);

#[tokio::test]
async fn errors_before_a_turn_have_a_status_and_the_openai_shape() {
    let server = OpenAiServer::start().await;
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
    let cases: [ErrorCase<'_>; 13] = [
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
        let (seen, refused) = server
            .request(method, path, body, headers)
            .await
            .json()
            .await;
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
    assert_eq!(server.model_calls(), 0);
}

#[tokio::test]
async fn a_draining_server_returns_a_retryable_error() {
    let server = OpenAiServer::start().await;
    server.inner.service.drain();
    let (status, head, refused) = server
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
async fn a_stopped_swarm_ends_its_streams_with_an_error() {
    let server = OpenAiServer::start().await;
    let mut reply = server
        .post("chat/completions", &stream("hold on"), &[])
        .await;
    reply.read_until("1: ").await;
    server.inner.swarm.kill();
    let chunks = reply.events().await;
    assert_eq!(
        chunks.last().unwrap()["error"]["code"],
        "SWARM_STOPPED",
        "{chunks:?}"
    );
}

#[tokio::test]
async fn a_refused_input_does_not_change_its_conversation() {
    let server = OpenAiServer::start().await;
    server.chat(json!([user("hi")])).await.answer().await;
    let talk = |more: Value| {
        json!({"model": "a", "metadata": more, "messages": [
            user("hi"), {"role": "assistant", "content": "1: hi"}, user("again"),
        ]})
    };
    let (status, _) = server
        .post("chat/completions", &talk(json!({"cron": "x"})), &[])
        .await
        .json()
        .await;
    assert_eq!(status, 400);
    server
        .post("chat/completions", &talk(json!({})), &[])
        .await
        .answer()
        .await;
    assert_eq!(server.conversations().await.len(), 1);
}
