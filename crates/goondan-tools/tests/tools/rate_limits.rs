//! Platform rate limits: calls wait for short limits, and fail on long limits.

use serde_json::{Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::chat::{parts, platform_of};

/// Mounts an answer that only the first call of a method gets.
async fn answer_first_call(server: &MockServer, at: &str, answer: ResponseTemplate) {
    Mock::given(path(at))
        .respond_with(answer)
        .up_to_n_times(1)
        .with_priority(1)
        .mount(server)
        .await;
}

#[tokio::test]
async fn a_call_waits_for_a_short_rate_limit_on_every_platform() {
    let success = json!({"ok": true, "result": {"message_id": 9}, "id": "5"});
    let issue = "/repos/o/r/issues/1/comments";
    let rows = [
        "/bot7:s3cr3t/sendDocument",
        "/chat.postMessage",
        "/channels/1/messages",
        issue,
    ]
    .map(|at| ("POST", at, Value::Null, success.clone()));
    let (server, engine) = platform_of(&rows).await;
    let refused = |status: u16, body: Value| ResponseTemplate::new(status).set_body_json(body);
    let telegram = json!({"ok": false, "error_code": 429, "parameters": {"retry_after": 0}});
    answer_first_call(&server, rows[0].1, refused(429, telegram)).await;
    let slack = refused(200, json!({"ok": false, "error": "ratelimited"}));
    answer_first_call(&server, rows[1].1, slack.insert_header("retry-after", "0")).await;
    let discord = refused(429, json!({"retry_after": 0.01, "global": false}));
    answer_first_call(&server, rows[2].1, discord).await;
    let github = refused(
        403,
        json!({"message": "You have exceeded a secondary rate limit."}),
    );
    answer_first_call(&server, issue, github.insert_header("retry-after", "0")).await;
    engine.write("plan.txt", "a plan");
    let calls = [
        (
            "telegram__sendFile",
            json!({"chatId": 42, "path": "plan.txt"}),
        ),
        ("slack__send", json!({"channelId": "C", "text": "x"})),
        ("discord__send", json!({"channelId": "1", "text": "x"})),
        (
            "github__comment",
            json!({"repository": "o/r", "number": 1, "text": "x"}),
        ),
    ];
    for (tool, args) in calls {
        engine.ok(tool, args).await;
    }
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 8);
    assert_eq!(parts(&requests[0]), parts(&requests[1]));
}

#[tokio::test]
async fn a_long_rate_limit_is_an_error_with_the_wait_time() {
    let (server, engine) = platform_of(&[]).await;
    let limited = |at: &'static str, status: u16, wait: &'static str| {
        let answer = ResponseTemplate::new(status).insert_header("retry-after", wait);
        Mock::given(path(at)).respond_with(answer).mount(&server)
    };
    limited("/chat.postMessage", 429, "31").await;
    limited("/chat.delete", 503, "20").await;
    let hour = ResponseTemplate::new(403).insert_header("x-ratelimit-remaining", "0");
    let reset = chrono::Utc::now().timestamp() + 3_000;
    let hour = hour.insert_header("x-ratelimit-reset", reset.to_string());
    Mock::given(path("/repos/o/r/issues/1/comments"))
        .respond_with(hour)
        .mount(&server)
        .await;
    let message = json!({"channelId": "C", "messageTs": "1.1"});
    for (tool, args, expected) in [
        (
            "slack__send",
            json!({"channelId": "C", "text": "x", "timeoutMs": 60000}),
            "accepts the next one in 31 s",
        ),
        ("slack__delete", message, "accepts the next one in 20 s"),
        (
            "github__comment",
            json!({"repository": "o/r", "number": 1, "text": "x"}),
            "GitHub limits the rate of requests, and accepts the next one in ",
        ),
    ] {
        let (code, text) = engine.err(tool, args).await;
        assert_eq!(
            (code.as_str(), text.contains(expected)),
            ("E_TOOL_HTTP", true),
            "{text}"
        );
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 3);
}
