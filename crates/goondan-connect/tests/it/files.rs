//! Files of events: fetched only from the platform, with a size limit.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use goondan::ids::InstanceId;
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, json};
use crate::support::TestRuntime;
use crate::{discord, slack};

/// Starts a mock platform that serves attachments, a sign-in page and a redirect for download.
async fn platform() -> MockPlatform {
    MockPlatform::start(|call| {
        let file = |media_type: &str, content: &str| {
            (
                [("content-type", media_type.to_owned())],
                content.to_owned(),
            )
                .into_response()
        };
        Some(match call.path.as_str() {
            "/bot123:abc/getFile" => {
                let path = match call.body["file_id"].as_str() {
                    Some("evil") => "../../getMe",
                    _ => "photos/file_1.jpg",
                };
                json(200, json!({"ok": true, "result": {"file_path": path}}))
            }
            "/file/bot123:abc/photos/file_1.jpg" => file("application/octet-stream", "a photo"),
            "/files/report.txt" => file("text/plain; charset=utf-8", "a report"),
            "/files/login" => file("text/html", "<html>please sign in"),
            "/files/moved" => redirect(),
            _ => json(
                200,
                json!({"ok": true, "result": {"message_id": 1}, "id": "1"}),
            ),
        })
    })
    .await
}

/// Returns a redirect. The connector must not follow it, because it would send the token elsewhere.
fn redirect() -> Response {
    (StatusCode::FOUND, [("location", "/files/report.txt")]).into_response()
}

/// Waits for an answer. Returns the text of the first message, and the media type and data of its
/// files.
async fn received(runtime: &TestRuntime, key: &str) -> (String, Vec<(String, String)>) {
    runtime.wait_for_answers(key, 1).await;
    let messages = runtime
        .swarm
        .conversation(&InstanceId::new("a", key))
        .await
        .unwrap();
    let first = serde_json::to_value(&*messages[0]).unwrap();
    let mut files = Vec::new();
    collect(&first, &mut files);
    (messages[0].text(), files)
}

fn collect(value: &Value, files: &mut Vec<(String, String)>) {
    if let (Some(media_type), Some(data)) = (value["mediaType"].as_str(), value["data"].as_str()) {
        files.push((media_type.to_owned(), data.to_owned()));
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|value| collect(value, files)),
        Value::Array(items) => items.iter().for_each(|value| collect(value, files)),
        _ => {}
    }
}

fn file(media_type: &str, data: &str) -> (String, String) {
    (media_type.to_owned(), data.to_owned())
}

fn telegram(base: &str, more: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}, webhookUrl: {{value: \"https://x.example\"}}{more}}}\n  \
         secrets: {{botToken: {{value: \"123:abc\"}}}}\n  allow: {{senders: [\"7\"]}}\n"
    )
}

const FETCH: &str = ", files: {value: fetch}";

/// Delivers a message with a document from a sender to a chat.
async fn send(
    runtime: &TestRuntime,
    platform: &MockPlatform,
    chat: i64,
    sender: i64,
    document: Value,
) {
    let secret = platform.wait_for_calls("setWebhook", 1).await[0]["secret_token"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut update = json!({"update_id": chat, "message": {
        "message_id": chat, "caption": "look", "chat": {"id": chat, "type": "private"},
        "from": {"id": sender, "is_bot": false, "first_name": "Ada"},
    }});
    update["message"]
        .as_object_mut()
        .unwrap()
        .extend(document.as_object().unwrap().clone());
    let headers = [("x-telegram-bot-api-secret-token", secret)];
    let (status, _) = runtime
        .deliver("bot", &headers, update.to_string().as_bytes())
        .await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn telegram_images_are_fetched_only_if_configured() {
    let state = tempfile::tempdir().unwrap();
    let platform = platform().await;
    let runtime = TestRuntime::start(state.path(), &telegram(&platform.base, FETCH)).await;
    let photo = json!({"photo": [{"file_id": "small"}, {"file_id": "large", "file_size": 7}]});
    send(&runtime, &platform, 1, 7, photo.clone()).await;
    assert_eq!(
        received(&runtime, "telegram:1").await,
        (
            "look\n[a photo]".to_owned(),
            vec![file("image/jpeg", "YSBwaG90bw==")]
        )
    );
    // Files of unknown senders are not fetched.
    send(&runtime, &platform, 2, 66, photo).await;
    assert_eq!(platform.calls("getFile").len(), 1);
    let failed = "look\n[a file: x]\n[a file could not be fetched]";
    for (chat, id, bytes) in [(3, "evil", 1), (4, "large", 6_000_000)] {
        let document = json!({"document": {"file_id": id, "file_name": "x", "file_size": bytes}});
        send(&runtime, &platform, chat, 7, document).await;
        assert_eq!(
            received(&runtime, &format!("telegram:{chat}")).await,
            (failed.to_owned(), vec![])
        );
    }
    // `getMe` is called once by the connection itself, not for the file with a path outside.
    assert_eq!(platform.calls("getMe").len(), 1);
    runtime.kill().await;
    let state = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(state.path(), &telegram(&platform.base, "")).await;
    send(
        &runtime,
        &platform,
        5,
        7,
        json!({"photo": [{"file_id": "large"}]}),
    )
    .await;
    assert_eq!(
        received(&runtime, "telegram:5").await,
        ("look\n[a photo]".to_owned(), vec![]),
        "files are not fetched by default"
    );
}

#[tokio::test]
async fn slack_files_are_fetched_only_from_slack() {
    let state = tempfile::tempdir().unwrap();
    let platform = platform().await;
    let connection =
        slack::app(&platform.base).replace("config: {", "config: {files: {value: fetch}, ");
    let runtime = TestRuntime::start(state.path(), &connection).await;
    let base = &platform.base;
    let file_entry = |url: String, kind: &str| json!({"url_private": url, "name": "f", "mimetype": kind, "size": 8});
    let body = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "message", "subtype": "file_share", "channel": "C1", "channel_type": "im", "user": "U1", "ts": "1.2", "text": "",
        "files": [
            file_entry(format!("{base}/files/report.txt"), "text/plain"),
            file_entry(format!("{base}/files/login"), "image/png"),
            file_entry(format!("{base}/files/moved"), "text/plain"),
            file_entry("http://169.254.169.254/latest/meta-data".to_owned(), "text/plain"),
            file_entry("https://slack.com.evil.example/x".to_owned(), "text/plain"),
        ],
    }})
    .to_string();
    let (status, _) = runtime
        .deliver(
            "team",
            &slack::signed(slack::SECRET, 0, &body),
            body.as_bytes(),
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    let (text, files) = received(&runtime, "slack:C1").await;
    assert_eq!(files, [file("text/plain", "YSByZXBvcnQ=")]);
    assert_eq!(
        text.matches("[a file could not be fetched]").count(),
        4,
        "{text}"
    );
}

#[tokio::test]
async fn discord_files_are_attached_to_the_message() {
    let state = tempfile::tempdir().unwrap();
    let platform = platform().await;
    let connection =
        discord::guild(&platform.base).replace("config: {", "config: {files: {value: fetch}, ");
    let runtime = TestRuntime::start(state.path(), &connection).await;
    let url = format!("{}/files/report.txt", platform.base);
    let body = json!({
        "type": 2, "id": "1", "application_id": "2", "token": "tok", "channel_id": "5",
        "data": {
            "name": "ask",
            "options": [{"name": "question", "type": 3, "value": "what is it?"}, {"name": "file", "type": 11, "value": "9"}],
            "resolved": {"attachments": {"9": {"url": url, "filename": "report.txt", "content_type": "text/plain", "size": 8}}},
        },
        "member": {"user": {"id": "7", "username": "ada"}},
    })
    .to_string();
    runtime
        .deliver("guild", &discord::signed(0, &body), body.as_bytes())
        .await;
    let (text, files) = received(&runtime, "discord:5").await;
    assert_eq!(text, "what is it?\n[a file: report.txt]");
    assert_eq!(files, [file("text/plain", "YSByZXBvcnQ=")]);
}
