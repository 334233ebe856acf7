use serde_json::{Value, json};
use wiremock::matchers::{method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::chat::{TOKEN, parts, platform_of};
use crate::mock_engine::{MockEngine, with_unknown};

fn message(id: &str, content: &str) -> Value {
    json!({
        "id": id, "channel_id": "5", "content": content, "timestamp": "2026-01-02T03:04:05.000000+00:00",
        "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": [], "mention_roles": [],
        "author": {"id": "7", "username": "ada", "global_name": "Ada", "avatar": "a_b", "discriminator": "0"},
        "attachments": [{
            "id": "8", "filename": "a.png", "size": 3, "content_type": "image/png",
            "url": "https://cdn.discordapp.com/attachments/5/8/a.png",
        }],
        "embeds": [], "reactions": [{"count": 2, "me": false, "emoji": {"id": null, "name": "👍"}}],
        "pinned": false, "type": 0,
    })
}

#[tokio::test]
async fn discord_exports_send_the_expected_requests() {
    let calls = json!({"parse": ["users"]});
    let rows = [
        (
            "POST",
            "/channels/5/messages",
            json!({
                "content": "**hi** <@77> \\<b\\>", "allowed_mentions": calls, "flags": 4100,
                "message_reference": {"message_id": "3", "fail_if_not_exists": false},
            }),
            message("9", "hi"),
        ),
        (
            "PATCH",
            "/channels/5/messages/9",
            json!({"content": "ho", "allowed_mentions": calls}),
            message("9", "ho"),
        ),
        ("DELETE", "/channels/5/messages/9", Value::Null, Value::Null),
        (
            "PUT",
            "/channels/5/messages/9/reactions/%F0%9F%91%8D/@me",
            Value::Null,
            Value::Null,
        ),
        (
            "PUT",
            "/channels/5/messages/9/reactions/party:77/@me",
            Value::Null,
            Value::Null,
        ),
        (
            "DELETE",
            "/channels/5/messages/9/reactions/%F0%9F%91%8D/@me",
            Value::Null,
            Value::Null,
        ),
        ("POST", "/channels/5/typing", json!({}), Value::Null),
        (
            "POST",
            "/channels/5/messages/9/threads",
            json!({"name": "More"}),
            json!({"id": "90", "type": 11}),
        ),
        (
            "GET",
            "/channels/5/messages/9",
            Value::Null,
            message("9", "hi"),
        ),
    ];
    let (server, engine) = platform_of(&rows).await;
    let send = json!({"channelId": "5", "text": "**hi** <@77> <b>", "replyToMessageId": "3", "silent": true, "suppressEmbeds": true});
    let sent = engine.ok("discord__send", send).await;
    assert_eq!(
        sent,
        json!({"ok": true, "channelId": "5", "messageId": "9", "text": "hi"})
    );
    let message_ids = json!({"channelId": "5", "messageId": "9"});
    let with = |more: Value| {
        let mut args = message_ids.clone();
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };
    assert_eq!(
        engine
            .ok("discord__edit", with(json!({"text": "ho"})))
            .await["edited"],
        true
    );
    assert_eq!(
        engine.ok("discord__delete", message_ids.clone()).await["deleted"],
        true
    );
    let reacted = engine
        .ok(
            "discord__react",
            with(json!({"emojis": ["👍", "<:party:77>", "👍"]})),
        )
        .await;
    assert_eq!(reacted["emojis"], json!(["👍", "party:77"]));
    assert_eq!(
        engine
            .ok(
                "discord__react",
                with(json!({"emoji": "👍", "remove": true}))
            )
            .await["removed"],
        true
    );
    assert_eq!(
        engine
            .ok("discord__typing", json!({"channelId": "5"}))
            .await["ok"],
        true
    );
    assert_eq!(
        engine
            .ok("discord__startThread", with(json!({"name": "More"})))
            .await["threadId"],
        "90"
    );
    let read = engine.ok("discord__read", message_ids.clone()).await;
    let expected = json!({
        "messageId": "9", "author": {"id": "7", "username": "ada", "name": "Ada"}, "text": "hi",
        "sentAt": "2026-01-02T03:04:05.000000+00:00",
        "files": [{
            "name": "a.png", "url": "https://cdn.discordapp.com/attachments/5/8/a.png", "contentType": "image/png", "sizeBytes": 3,
        }],
        "reactions": [{"emoji": "👍", "count": 2}],
    });
    assert_eq!(read["messages"], json!([expected]));
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 9);
    assert!(
        requests
            .iter()
            .all(|request| request.headers["authorization"] == format!("Bot {TOKEN}"))
    );
    // Discord requires this form.
    assert!(
        requests[0].headers["user-agent"]
            .to_str()
            .unwrap()
            .starts_with("DiscordBot (https://")
    );
}

#[tokio::test]
async fn discord_read_returns_one_page_of_messages() {
    let (server, engine) = platform_of(&[]).await;
    Mock::given(method("GET"))
        .and(path("/channels/5/messages"))
        .and(query_param("before", "9"))
        .and(query_param("limit", "2"))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!([message("8", "b"), message("7", "a")])),
        )
        .mount(&server)
        .await;
    let page = engine
        .ok(
            "discord__read",
            json!({"channelId": "5", "before": "9", "limit": 2}),
        )
        .await;
    assert_eq!(
        (&page["count"], &page["oldestId"]),
        (&json!(2), &json!("7"))
    );
}

#[tokio::test]
async fn discord_uploads_and_downloads_files() {
    let rows = [(
        "POST",
        "/channels/5/messages",
        Value::Null,
        message("9", ""),
    )];
    let (server, engine) = platform_of(&rows).await;
    engine.write("plan.txt", "a plan");
    let sent = engine
        .ok(
            "discord__sendFile",
            json!({"channelId": "5", "path": "plan.txt", "text": "look"}),
        )
        .await;
    assert_eq!(
        sent,
        json!({"ok": true, "channelId": "5", "messageId": "9", "name": "plan.txt", "sizeBytes": 6})
    );
    let requests = server.received_requests().await.unwrap();
    let [payload, file] = parts(&requests[0]).try_into().unwrap();
    let payload_value: Value = serde_json::from_str(&payload.1).unwrap();
    assert_eq!(
        (payload.0.as_str(), &payload_value["content"]),
        ("payload_json", &json!("look"))
    );
    assert_eq!(file, ("files[0]".to_owned(), "a plan".to_owned()));
    let content = ResponseTemplate::new(200).set_body_raw(*b"text", "text/plain");
    Mock::given(path("/attachments/5/8/a.txt"))
        .respond_with(content)
        .mount(&server)
        .await;
    let url = format!("{}/attachments/5/8/a.txt", server.uri());
    let got = engine
        .ok(
            "discord__downloadFile",
            json!({"url": url, "savePath": "in/a.txt"}),
        )
        .await;
    assert_eq!(
        (&got["sizeBytes"], engine.read("in/a.txt").as_str()),
        (&json!(4), "text")
    );
    let requests = server.received_requests().await.unwrap();
    assert!(
        !requests
            .last()
            .unwrap()
            .headers
            .contains_key("authorization"),
        "the download must not send the token"
    );
    for url in [
        "https://cdn.discordapp.com.evil.example/a",
        "http://cdn.discordapp.com/a",
        "http://169.254.169.254/",
    ] {
        let (code, text) = engine
            .err("discord__downloadFile", json!({"url": url}))
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{text}");
    }
}

#[tokio::test]
async fn discord_reports_refusals_and_rejects_invalid_arguments() {
    let (server, engine) = platform_of(&[]).await;
    let refusal = json!({"message": "Missing Access", "code": 50001});
    Mock::given(path("/channels/5/messages"))
        .respond_with(ResponseTemplate::new(403).set_body_json(refusal))
        .mount(&server)
        .await;
    let (code, text) = engine
        .err("discord__send", json!({"channelId": "5", "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("E_TOOL_HTTP", "Discord refused the message: Missing Access")
    );
    let cases = [
        (
            "discord__send",
            json!({"channelId": "../users/@me", "text": "x"}),
        ),
        (
            "discord__send",
            json!({"channelId": "5", "text": "word ".repeat(9_000)}),
        ),
        (
            "discord__send",
            json!({"channelId": "5", "text": "x", "token": "other"}),
        ),
        (
            "discord__send",
            with_unknown(json!({"channelId": "5", "text": "x"})),
        ),
        (
            "discord__edit",
            json!({"channelId": "5", "messageId": "@original", "text": "x"}),
        ),
        (
            "discord__delete",
            json!({"channelId": "5", "messageId": ""}),
        ),
        (
            "discord__react",
            json!({"channelId": "5", "messageId": "9"}),
        ),
        (
            "discord__react",
            json!({"channelId": "5", "messageId": "9", "emoji": ".."}),
        ),
        (
            "discord__read",
            json!({"channelId": "5", "before": "1", "after": "2"}),
        ),
        ("discord__read", json!({"channelId": "5", "limit": 101})),
        ("discord__typing", json!({"channelId": "general"})),
        (
            "discord__startThread",
            json!({"channelId": "5", "messageId": "9", "name": ""}),
        ),
    ];
    for (tool, args) in cases {
        let (code, text) = engine.err(tool, args).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{tool}: {text}");
    }
    let environment = [("DISCORD_BOT_TOKEN".to_owned(), TOKEN.to_owned())]
        .into_iter()
        .collect();
    let engine = MockEngine::new()
        .config(json!({"apiBaseUrl": "https://evil.example"}))
        .environment(environment);
    let (code, text) = engine
        .err("discord__send", json!({"channelId": "5", "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("no token for Discord")),
        ("E_TOOL_UNAVAILABLE", true),
        "{text}"
    );
}

#[tokio::test]
async fn discord_splits_long_text_into_several_messages() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/channels/5/messages"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"id": "9"})))
        .expect(3)
        .mount(&server)
        .await;
    let config =
        json!({"token": {"value": "t"}, "apiBaseUrl": server.uri(), "allowHosts": ["127.0.0.1"]});
    let engine = MockEngine::new().config(config);
    let text = "word ".repeat(1_000);
    let send = json!({"channelId": "5", "text": text, "replyToMessageId": "3"});
    let sent = engine.ok("discord__send", send).await;
    assert_eq!(sent["allMessageIds"], json!(["9", "9", "9"]));
    let requests = server.received_requests().await.unwrap();
    let bodies: Vec<Value> = requests
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    let is_reply = |body: &Value| body.get("message_reference").is_some();
    let replies: Vec<bool> = bodies.iter().map(is_reply).collect();
    assert_eq!(
        replies,
        [true, false, false],
        "only the first message is a reply"
    );
    let contents = bodies.iter().map(|body| body["content"].as_str().unwrap());
    let sent_text = contents.collect::<Vec<_>>().join(" ");
    assert_eq!(sent_text, text.trim_end());
}
