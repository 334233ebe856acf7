use serde_json::{Value, json};
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::bench::{Bench, with_unknown};

pub(crate) const TOKEN: &str = "7:s3cr3t";

/// Starts a mock platform that answers correct calls of a method.
async fn platform(rows: &[(&str, Value, Value)]) -> (MockServer, Bench) {
    let rows: Vec<_> = rows
        .iter()
        .map(|(at, wanted, answer)| ("POST", *at, wanted.clone(), answer.clone()))
        .collect();
    platform_of(&rows).await
}

/// Starts a mock platform that answers such requests. A body of `null` matches any.
pub(crate) async fn platform_of(rows: &[(&str, &str, Value, Value)]) -> (MockServer, Bench) {
    let server = MockServer::builder().start().await;
    for (verb, at, wanted, answer) in rows {
        let mut mock = Mock::given(method(*verb)).and(path(*at));
        if !wanted.is_null() {
            mock = mock.and(body_json(wanted));
        }
        mock.respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .mount(&server)
            .await;
    }
    let config =
        json!({"token": {"value": TOKEN}, "apiBaseUrl": server.uri(), "allowHosts": ["127.0.0.1"]});
    (server, Bench::new().config(config))
}

#[tokio::test]
async fn a_bot_of_telegram_speaks() {
    let fine = |result: Value| json!({"ok": true, "result": result});
    let rows = [
        (
            "/bot7:s3cr3t/sendMessage",
            json!({"chat_id": "42", "text": "hi", "parse_mode": "MarkdownV2", "reply_to_message_id": 3}),
            fine(json!({"message_id": 9, "date": 1, "text": "hi"})),
        ),
        (
            "/bot7:s3cr3t/editMessageText",
            json!({"chat_id": "42", "message_id": 9, "text": "<b>ho</b>", "parse_mode": "HTML"}),
            fine(json!({})),
        ),
        (
            "/bot7:s3cr3t/deleteMessage",
            json!({"chat_id": "@news", "message_id": 9}),
            fine(json!(true)),
        ),
        (
            "/bot7:s3cr3t/setMessageReaction",
            json!({"chat_id": "42", "message_id": 9, "reaction": [{"type": "emoji", "emoji": "👍"}]}),
            fine(json!(true)),
        ),
        (
            "/bot7:s3cr3t/sendChatAction",
            json!({"chat_id": "42", "action": "upload_photo"}),
            fine(json!(true)),
        ),
    ];
    let (server, bench) = platform(&rows).await;
    let send =
        json!({"chatId": 42, "text": "hi", "parseMode": "MarkdownV2", "replyToMessageId": "3"});
    let sent = bench.ok("telegram__send", send).await;
    assert_eq!(
        sent,
        json!({"ok": true, "chatId": "42", "messageId": 9, "date": 1, "text": "hi"})
    );
    let edited = bench
        .ok(
            "telegram__edit",
            json!({"chatId": "42", "messageId": 9, "text": "**ho**"}),
        )
        .await;
    assert_eq!(edited["edited"], true);
    assert_eq!(
        bench
            .ok(
                "telegram__delete",
                json!({"chatId": "@news", "messageId": "9"})
            )
            .await["deleted"],
        true
    );
    let reaction = json!({"chatId": 42, "messageId": 9, "emoji": "👍", "emojis": ["👍"]});
    assert_eq!(
        bench.ok("telegram__react", reaction).await["reactionCount"],
        1
    );
    let action = json!({"chatId": 42, "status": "upload-photo"});
    assert_eq!(
        bench.ok("telegram__setChatAction", action).await["action"],
        "upload_photo"
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_file_of_telegram_is_fetched_and_its_address_is_told_nobody() {
    let answer = json!({"ok": true, "result": {"file_id": "f", "file_path": "photos/a.png", "file_size": 3}});
    let (server, bench) =
        platform(&[("/bot7:s3cr3t/getFile", json!({"file_id": "f"}), answer)]).await;
    let file = ResponseTemplate::new(200).set_body_raw(*b"PNG", "image/png");
    Mock::given(path("/file/bot7:s3cr3t/photos/a.png"))
        .respond_with(file)
        .mount(&server)
        .await;
    let got = bench
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
        std::fs::read(bench.dir.path().join("work/in/a.png")).unwrap(),
        b"PNG"
    );
    let (code, _) = bench
        .err(
            "telegram__downloadFile",
            json!({"fileId": "f", "maxBytes": 2}),
        )
        .await;
    assert_eq!(code, "E_TOOL_TOO_LARGE");
}

#[tokio::test]
async fn an_app_of_slack_speaks_and_reads() {
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
    let (server, bench) = platform(&rows).await;
    let sent = bench
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
        bench
            .ok("slack__edit", with(json!({"text": "*ho*", "raw": true})))
            .await["edited"],
        true
    );
    assert_eq!(
        bench.ok("slack__delete", message.clone()).await["deleted"],
        true
    );
    let reactions = with(json!({"emoji": ":eyes:", "emojis": ["tea", "eyes"]}));
    assert_eq!(
        bench.ok("slack__react", reactions).await["emojis"],
        json!(["eyes", "tea"])
    );
    let read = bench.ok("slack__read", message.clone()).await;
    assert_eq!(
        (&read["found"]["text"], &read["hasMore"]),
        (&json!("hi"), &json!(true))
    );
    let thread = bench
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
async fn the_token_for_slack_goes_to_slack_alone() {
    let (server, bench) = platform(&[]).await;
    let file = ResponseTemplate::new(200).set_body_raw(*b"text", "text/plain");
    Mock::given(path("/files/a"))
        .and(header("authorization", "Bearer 7:s3cr3t"))
        .respond_with(file)
        .mount(&server)
        .await;
    let got = bench
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
        let (code, text) = bench.err("slack__downloadFile", json!({"url": url})).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{text}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_without_the_token() {
    let (server, bench) = platform(&[]).await;
    let gone =
        json!({"ok": false, "error_code": 400, "description": "Bad Request: chat not found"});
    Mock::given(path("/bot7:s3cr3t/sendMessage"))
        .respond_with(ResponseTemplate::new(400).set_body_json(gone))
        .mount(&server)
        .await;
    let no = json!({"ok": false, "error": "channel_not_found"});
    Mock::given(path("/chat.postMessage"))
        .respond_with(ResponseTemplate::new(200).set_body_json(no))
        .mount(&server)
        .await;
    let (code, text) = bench
        .err("telegram__send", json!({"chatId": 1, "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("chat not found")),
        ("E_TOOL_HTTP", true),
        "{text}"
    );
    let (code, text) = bench
        .err("slack__send", json!({"channelId": "C", "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("channel_not_found")),
        ("E_TOOL_HTTP", true),
        "{text}"
    );
    drop(server);
    let (code, text) = bench
        .err("telegram__delete", json!({"chatId": 1, "messageId": 1}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("s3cr3t")),
        ("E_TOOL_HTTP", false),
        "{text}"
    );
}

#[tokio::test]
async fn bad_arguments_and_missing_tokens_are_errors() {
    let (_server, bench) = platform(&[]).await;
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
        let (code, text) = bench.err(tool, args).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{tool}: {text}");
    }
    // The usual token must not be sent to another URL.
    let elsewhere = json!({"apiBaseUrl": "https://evil.example"});
    let environment = [("TELEGRAM_BOT_TOKEN".to_owned(), TOKEN.to_owned())]
        .into_iter()
        .collect();
    let bench = Bench::new().config(elsewhere).environment(environment);
    let (code, text) = bench
        .err("telegram__send", json!({"chatId": 1, "text": "x"}))
        .await;
    assert_eq!(
        (code.as_str(), text.contains("no token for Telegram")),
        ("E_TOOL_UNAVAILABLE", true),
        "{text}"
    );
}

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
async fn a_file_goes_to_telegram_as_what_it_is_shown_as() {
    let fine = json!({"ok": true, "result": {"message_id": 9}});
    let rows = [
        ("/bot7:s3cr3t/sendDocument", Value::Null, fine.clone()),
        ("/bot7:s3cr3t/sendPhoto", Value::Null, fine),
    ];
    let (server, bench) = platform(&rows).await;
    bench.write("out/plan.txt", "a plan");
    let sent = bench
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
    bench.ok("telegram__sendFile", photo).await;
    let requests = server.received_requests().await.unwrap();
    let wanted = [
        ("chat_id", "42"),
        ("caption", "<b>look</b>"),
        ("parse_mode", "HTML"),
        ("reply_to_message_id", "3"),
        ("document", "a plan"),
    ];
    assert_eq!(
        parts(&requests[0]),
        wanted.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    // A name cannot end its header line.
    assert_eq!(
        parts(&requests[1]),
        [("chat_id", "@news"), ("photo", "a plan")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[tokio::test]
async fn a_file_goes_to_slack_in_three_steps_and_to_nobody_else() {
    let (server, bench) = platform(&[]).await;
    let room =
        json!({"ok": true, "upload_url": format!("{}/upload/1", server.uri()), "file_id": "F1"});
    Mock::given(path("/files.getUploadURLExternal"))
        .and(wiremock::matchers::body_string(
            "filename=plan.txt&length=6",
        ))
        .respond_with(ResponseTemplate::new(200).set_body_json(room))
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
    bench.write("plan.txt", "a plan");
    let sent = bench
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
    let (_server, bench) =
        platform(&[("/files.getUploadURLExternal", Value::Null, elsewhere)]).await;
    bench.write("plan.txt", "a plan");
    let (code, text) = bench
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
async fn what_lies_outside_or_is_too_large_is_not_sent() {
    let (server, bench) = platform(&[]).await;
    bench.write("empty", "");
    bench.write("large", vec![0; 10_000_001]);
    std::fs::write(bench.dir.path().join("secret"), "x").unwrap();
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
            let (got, text) = bench.err(tool, json!({to: "1", "path": path})).await;
            assert_eq!(got, code, "{tool} {path}: {text}");
        }
    }
    assert!(server.received_requests().await.unwrap().is_empty());
}
