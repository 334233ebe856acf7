use serde_json::{Value, json};
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::mock_engine::{MockEngine, with_unknown};

pub(crate) const TOKEN: &str = "7:s3cr3t";

/// Starts a mock platform with rows of `POST` path, expected body and answer.
async fn platform(rows: &[(&str, Value, Value)]) -> (MockServer, MockEngine) {
    let rows: Vec<_> = rows
        .iter()
        .map(|(at, expected, answer)| ("POST", *at, expected.clone(), answer.clone()))
        .collect();
    platform_of(&rows).await
}

/// Starts a mock platform with rows of method, path, expected body and answer. A `null` body
/// matches every request.
pub(crate) async fn platform_of(rows: &[(&str, &str, Value, Value)]) -> (MockServer, MockEngine) {
    let server = MockServer::builder().start().await;
    for (verb, at, expected, answer) in rows {
        let mut mock = Mock::given(method(*verb)).and(path(*at));
        if !expected.is_null() {
            mock = mock.and(body_json(expected));
        }
        mock.respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .mount(&server)
            .await;
    }
    let config =
        json!({"token": {"value": TOKEN}, "apiBaseUrl": server.uri(), "allowHosts": ["127.0.0.1"]});
    (server, MockEngine::new().config(config))
}

#[tokio::test]
async fn telegram_exports_send_the_expected_requests() {
    let success = |result: Value| json!({"ok": true, "result": result});
    let rows = [
        (
            "/bot7:s3cr3t/sendMessage",
            json!({"chat_id": "42", "text": "hi", "parse_mode": "MarkdownV2", "reply_to_message_id": 3}),
            success(json!({"message_id": 9, "date": 1, "text": "hi"})),
        ),
        (
            "/bot7:s3cr3t/editMessageText",
            json!({"chat_id": "42", "message_id": 9, "text": "<b>ho</b>", "parse_mode": "HTML"}),
            success(json!({})),
        ),
        (
            "/bot7:s3cr3t/deleteMessage",
            json!({"chat_id": "@news", "message_id": 9}),
            success(json!(true)),
        ),
        (
            "/bot7:s3cr3t/setMessageReaction",
            json!({"chat_id": "42", "message_id": 9, "reaction": [{"type": "emoji", "emoji": "👍"}]}),
            success(json!(true)),
        ),
        (
            "/bot7:s3cr3t/sendChatAction",
            json!({"chat_id": "42", "action": "upload_photo"}),
            success(json!(true)),
        ),
    ];
    let (server, engine) = platform(&rows).await;
    let send =
        json!({"chatId": 42, "text": "hi", "parseMode": "MarkdownV2", "replyToMessageId": "3"});
    let sent = engine.ok("telegram__send", send).await;
    assert_eq!(
        sent,
        json!({"ok": true, "chatId": "42", "messageId": 9, "date": 1, "text": "hi"})
    );
    let edited = engine
        .ok(
            "telegram__edit",
            json!({"chatId": "42", "messageId": 9, "text": "**ho**"}),
        )
        .await;
    assert_eq!(edited["edited"], true);
    assert_eq!(
        engine
            .ok(
                "telegram__delete",
                json!({"chatId": "@news", "messageId": "9"})
            )
            .await["deleted"],
        true
    );
    let reaction = json!({"chatId": 42, "messageId": 9, "emoji": "👍", "emojis": ["👍"]});
    assert_eq!(
        engine.ok("telegram__react", reaction).await["reactionCount"],
        1
    );
    let action = json!({"chatId": 42, "status": "upload-photo"});
    assert_eq!(
        engine.ok("telegram__setChatAction", action).await["action"],
        "upload_photo"
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 5);
}

#[tokio::test]
async fn telegram_downloads_a_file_without_revealing_its_url() {
    let answer = json!({"ok": true, "result": {"file_id": "f", "file_path": "photos/a.png", "file_size": 3}});
    let (server, engine) =
        platform(&[("/bot7:s3cr3t/getFile", json!({"file_id": "f"}), answer)]).await;
    let file = ResponseTemplate::new(200).set_body_raw(*b"PNG", "image/png");
    Mock::given(path("/file/bot7:s3cr3t/photos/a.png"))
        .respond_with(file)
        .mount(&server)
        .await;
    let got = engine
        .ok(
            "telegram__downloadFile",
            json!({"fileId": "f", "includeBase64": true, "savePath": "in/a.png"}),
        )
        .await;
    assert_eq!(
        (&got["sizeBytes"], &got["base64"], &got["filePath"]),
        (&json!(3), &json!("UE5H"), &json!("photos/a.png"))
    );
    assert!(!got.to_string().contains("s3cr3t"), "{got}");
    assert_eq!(
        std::fs::read(engine.dir.path().join("work/in/a.png")).unwrap(),
        b"PNG"
    );
    let (code, _) = engine
        .err(
            "telegram__downloadFile",
            json!({"fileId": "f", "maxBytes": 2}),
        )
        .await;
    assert_eq!(code, "E_TOOL_TOO_LARGE");
}

#[tokio::test]
async fn slack_exports_send_the_expected_requests() {
    let rows = [
        (
            "/chat.postMessage",
            json!({"channel": "C1", "text": "*hi* <@U12> &lt;!channel&gt;", "thread_ts": "1.1"}),
            json!({"ok": true, "channel": "C1", "ts": "1.2", "message": {"text": "hi"}}),
        ),
        (
            "/chat.update",
            json!({"channel": "C1", "ts": "1.2", "text": "*ho*"}),
            json!({"ok": true}),
        ),
        (
            "/chat.delete",
            json!({"channel": "C1", "ts": "1.2"}),
            json!({"ok": true}),
        ),
        (
            "/reactions.add",
            json!({"channel": "C1", "timestamp": "1.2", "name": "eyes"}),
            json!({"ok": true}),
        ),
        (
            "/reactions.add",
            json!({"channel": "C1", "timestamp": "1.2", "name": "tea"}),
            json!({"ok": true}),
        ),
        (
            "/conversations.history",
            json!({"channel": "C1", "latest": "1.2", "inclusive": true, "limit": 1}),
            json!({"ok": true, "messages": [{"ts": "1.2", "text": "hi"}], "has_more": true}),
        ),
        (
            "/conversations.replies",
            json!({"channel": "C1", "ts": "1.1", "limit": 20}),
            json!({"ok": true, "messages": [], "response_metadata": {"next_cursor": "more"}}),
        ),
    ];
    let (server, engine) = platform(&rows).await;
    let sent = engine
        .ok(
            "slack__send",
            json!({"channelId": "C1", "text": "**hi** <@U12> <!channel>", "threadTs": "1.1"}),
        )
        .await;
    assert_eq!(
        sent,
        json!({"ok": true, "channelId": "C1", "messageTs": "1.2", "text": "hi"})
    );
    let message = json!({"channelId": "C1", "messageTs": "1.2"});
    let with = |more: Value| {
        let mut args = message.clone();
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };
    assert_eq!(
        engine
            .ok("slack__edit", with(json!({"text": "*ho*", "raw": true})))
            .await["edited"],
        true
    );
    assert_eq!(
        engine.ok("slack__delete", message.clone()).await["deleted"],
        true
    );
    let reactions = with(json!({"emoji": ":eyes:", "emojis": ["tea", "eyes"]}));
    assert_eq!(
        engine.ok("slack__react", reactions).await["emojis"],
        json!(["eyes", "tea"])
    );
    let read = engine.ok("slack__read", message.clone()).await;
    assert_eq!(
        (&read["found"]["text"], &read["hasMore"]),
        (&json!("hi"), &json!(true))
    );
    let thread = engine
        .ok("slack__read", json!({"channelId": "C1", "threadTs": "1.1"}))
        .await;
    assert_eq!(
        (&thread["method"], &thread["nextCursor"]),
        (&json!("conversations.replies"), &json!("more"))
    );
    let requests = server.received_requests().await.unwrap();
    assert!(
        requests
            .iter()
            .all(|request| request.headers["authorization"] == format!("Bearer {TOKEN}"))
    );
}

#[tokio::test]
async fn slack_downloads_send_the_token_only_to_slack() {
    let (server, engine) = platform(&[]).await;
    let file = ResponseTemplate::new(200).set_body_raw(*b"text", "text/plain");
    Mock::given(path("/files/a"))
        .and(header("authorization", "Bearer 7:s3cr3t"))
        .respond_with(file)
        .mount(&server)
        .await;
    let got = engine
        .ok(
            "slack__downloadFile",
            json!({"url": format!("{}/files/a", server.uri()), "includeDataUrl": true}),
        )
        .await;
    assert_eq!(
        (&got["contentType"], &got["dataUrl"]),
        (
            &json!("text/plain"),
            &json!("data:text/plain;base64,dGV4dA==")
        )
    );
    for url in [
        "http://localhost:9/files/a",
        "https://files.slack.com.example/a",
        "http://files.slack.com/a",
    ] {
        let (code, text) = engine.err("slack__downloadFile", json!({"url": url})).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{text}");
    }
}

#[tokio::test]
async fn platform_errors_are_reported_without_the_token() {
    let (server, engine) = platform(&[]).await;
    let telegram_refusal =
        json!({"ok": false, "error_code": 400, "description": "Bad Request: chat not found"});
    Mock::given(path("/bot7:s3cr3t/sendMessage"))
        .respond_with(ResponseTemplate::new(400).set_body_json(telegram_refusal))
        .mount(&server)
        .await;
    let slack_refusal = json!({"ok": false, "error": "channel_not_found"});
    Mock::given(path("/chat.postMessage"))
        .respond_with(ResponseTemplate::new(200).set_body_json(slack_refusal))
        .mount(&server)
        .await;
    let (code, text) = engine
        .err("telegram__send", json!({"chatId": 1, "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("chat not found")),
        ("E_TOOL_HTTP", true),
        "{text}"
    );
    let (code, text) = engine
        .err("slack__send", json!({"channelId": "C", "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("channel_not_found")),
        ("E_TOOL_HTTP", true),
        "{text}"
    );
    drop(server);
    let (code, text) = engine
        .err("telegram__delete", json!({"chatId": 1, "messageId": 1}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("s3cr3t")),
        ("E_TOOL_HTTP", false),
        "{text}"
    );
}

#[tokio::test]
async fn telegram_and_slack_reject_invalid_arguments_and_missing_tokens() {
    let (_server, engine) = platform(&[]).await;
    let cases = [
        ("telegram__send", json!({"chatId": " ", "text": "x"})),
        (
            "telegram__send",
            json!({"chatId": 1, "text": "x", "token": "other"}),
        ),
        (
            "telegram__send",
            json!({"chatId": 1, "text": "x", "apiBaseUrl": "https://evil.example"}),
        ),
        (
            "telegram__edit",
            json!({"chatId": 1, "messageId": "0", "text": "x"}),
        ),
        ("telegram__react", json!({"chatId": 1, "messageId": 1})),
        (
            "telegram__setChatAction",
            json!({"chatId": 1, "action": "sleep"}),
        ),
        (
            "slack__react",
            json!({"channelId": "C", "messageTs": "1", "emoji": "two words"}),
        ),
        ("slack__read", json!({"channelId": "C", "limit": 1001})),
        (
            "slack__send",
            with_unknown(json!({"channelId": "C", "text": "x"})),
        ),
    ];
    for (tool, args) in cases {
        let (code, text) = engine.err(tool, args).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{tool}: {text}");
    }
    // The token from the environment must not be sent to a configured URL.
    let elsewhere = json!({"apiBaseUrl": "https://evil.example"});
    let environment = [("TELEGRAM_BOT_TOKEN".to_owned(), TOKEN.to_owned())]
        .into_iter()
        .collect();
    let engine = MockEngine::new().config(elsewhere).environment(environment);
    let (code, text) = engine
        .err("telegram__send", json!({"chatId": 1, "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("no token for Telegram")),
        ("E_TOOL_UNAVAILABLE", true),
        "{text}"
    );
}

/// Returns the names and contents of the parts of a multipart request.
pub(crate) fn parts(request: &wiremock::Request) -> Vec<(String, String)> {
    let kind = request.headers["content-type"].to_str().unwrap();
    let boundary = kind.split_once("boundary=").unwrap().1;
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let part = |part: &str| {
        let (head, content) = part.split_once("\r\n\r\n")?;
        let name = head.split("name=\"").nth(1)?.split('"').next()?;
        Some((name.to_owned(), content.trim_end_matches("\r\n").to_owned()))
    };
    text.split(&format!("--{boundary}"))
        .filter_map(part)
        .collect()
}

#[tokio::test]
async fn telegram_uploads_a_file_as_document_or_photo() {
    let success = json!({"ok": true, "result": {"message_id": 9}});
    let rows = [
        ("/bot7:s3cr3t/sendDocument", Value::Null, success.clone()),
        ("/bot7:s3cr3t/sendPhoto", Value::Null, success),
    ];
    let (server, engine) = platform(&rows).await;
    engine.write("out/plan.txt", "a plan");
    let sent = engine
        .ok(
            "telegram__sendFile",
            json!({"chatId": 42, "path": "out/plan.txt", "text": "**look**", "replyToMessageId": 3}),
        )
        .await;
    assert_eq!(
        sent,
        json!({"ok": true, "chatId": "42", "messageId": 9, "name": "plan.txt", "sizeBytes": 6})
    );
    let photo = json!({"chatId": "@news", "path": "out/plan.txt", "name": "a \"b\"\r\nc.png", "shownAs": "photo"});
    engine.ok("telegram__sendFile", photo).await;
    let requests = server.received_requests().await.unwrap();
    let expected = [
        ("chat_id", "42"),
        ("caption", "<b>look</b>"),
        ("parse_mode", "HTML"),
        ("reply_to_message_id", "3"),
        ("document", "a plan"),
    ];
    assert_eq!(
        parts(&requests[0]),
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    // A line break in a file name does not end the header line.
    assert_eq!(
        parts(&requests[1]),
        [("chat_id", "@news"), ("photo", "a plan")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[tokio::test]
async fn slack_uploads_a_file_in_three_steps_and_only_to_slack() {
    let (server, engine) = platform(&[]).await;
    let upload =
        json!({"ok": true, "upload_url": format!("{}/upload/1", server.uri()), "file_id": "F1"});
    Mock::given(path("/files.getUploadURLExternal"))
        .and(wiremock::matchers::body_string(
            "filename=plan.txt&length=6",
        ))
        .respond_with(ResponseTemplate::new(200).set_body_json(upload))
        .mount(&server)
        .await;
    Mock::given(path("/upload/1"))
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    let done = json!({"files": [{"id": "F1", "title": "plan.txt"}], "channel_id": "C1", "thread_ts": "1.1"});
    Mock::given(path("/files.completeUploadExternal"))
        .and(body_json(done))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({"ok": true, "files": [{"id": "F1"}]})),
        )
        .mount(&server)
        .await;
    engine.write("plan.txt", "a plan");
    let sent = engine
        .ok(
            "slack__sendFile",
            json!({"channelId": "C1", "path": "plan.txt", "threadTs": "1.1"}),
        )
        .await;
    assert_eq!(
        sent,
        json!({"ok": true, "channelId": "C1", "fileId": "F1", "name": "plan.txt", "sizeBytes": 6})
    );
    let requests = server.received_requests().await.unwrap();
    assert_eq!(
        parts(&requests[1]),
        [("file".to_owned(), "a plan".to_owned())]
    );
    assert!(!requests[1].headers.contains_key("authorization"));
    let elsewhere =
        json!({"ok": true, "upload_url": "https://slack.com.evil.example/", "file_id": "F1"});
    let (_server, engine) =
        platform(&[("/files.getUploadURLExternal", Value::Null, elsewhere)]).await;
    engine.write("plan.txt", "a plan");
    let (code, text) = engine
        .err(
            "slack__sendFile",
            json!({"channelId": "C1", "path": "plan.txt"}),
        )
        .await;
    assert_eq!(
        (code.as_str(), text.contains("outside of Slack")),
        ("E_TOOL_HTTP", true),
        "{text}"
    );
}

#[tokio::test]
async fn files_outside_the_workdir_or_too_large_are_not_sent() {
    let (server, engine) = platform(&[]).await;
    engine.write("empty", "");
    engine.write("large", vec![0; 10_000_001]);
    std::fs::write(engine.dir.path().join("secret"), "x").unwrap();
    for tool in ["discord__sendFile", "slack__sendFile", "telegram__sendFile"] {
        let to = if tool.starts_with("telegram") {
            "chatId"
        } else {
            "channelId"
        };
        for (path, code) in [
            ("../secret", "E_TOOL_PATH_ESCAPE"),
            ("missing", "E_TOOL_FILE_NOT_FOUND"),
            (".", "E_TOOL_WRONG_FILE_TYPE"),
            ("empty", "E_TOOL_INVALID_ARGS"),
            ("large", "E_TOOL_TOO_LARGE"),
        ] {
            let (got, text) = engine.err(tool, json!({to: "1", "path": path})).await;
            assert_eq!(got, code, "{tool} {path}: {text}");
        }
    }
    assert!(server.received_requests().await.unwrap().is_empty());
}
