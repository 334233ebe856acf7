//! Files that come with events: fetched from the platform alone, bounded, and never waited for in vain.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use goondan::ids::InstanceId;
use serde_json::{Value, json};

use crate::platform::{Platform, json};
use crate::support::Running;
use crate::{discord, slack};

/// A platform with some files, and how often each was fetched.
async fn platform() -> Platform {
    Platform::start(|call| {
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
            "/files/moved" => moved(),
            _ => json(
                200,
                json!({"ok": true, "result": {"message_id": 1}, "id": "1"}),
            ),
        })
    })
    .await
}

/// A redirect would carry the token elsewhere.
fn moved() -> Response {
    (StatusCode::FOUND, [("location", "/files/report.txt")]).into_response()
}

/// What the agent was given: the text, and the files with their types and names.
async fn given(running: &Running, key: &str) -> (String, Vec<(String, String)>) {
    running.answered(key, 1).await;
    let messages = running
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

/// Delivers a picture from somebody to the chat of that number.
async fn send(running: &Running, platform: &Platform, chat: i64, sender: i64, document: Value) {
    let secret = platform.wait("setWebhook", 1).await[0]["secret_token"]
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
    let (status, _) = running
        .deliver("bot", &headers, update.to_string().as_bytes())
        .await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn pictures_of_telegram_are_fetched_where_that_is_wanted() {
    let state = tempfile::tempdir().unwrap();
    let platform = platform().await;
    let running = Running::start(state.path(), &telegram(&platform.base, FETCH)).await;
    let photo = json!({"photo": [{"file_id": "small"}, {"file_id": "large", "file_size": 7}]});
    send(&running, &platform, 1, 7, photo.clone()).await;
    assert_eq!(
        given(&running, "telegram:1").await,
        (
            "look\n[a photo]".to_owned(),
            vec![file("image/jpeg", "YSBwaG90bw==")]
        )
    );
    // Who is not known makes nobody fetch anything.
    send(&running, &platform, 2, 66, photo).await;
    assert_eq!(platform.calls("getFile").len(), 1);
    let lost = "look\n[a file: x]\n[a file could not be fetched]";
    for (chat, id, bytes) in [(3, "evil", 1), (4, "large", 6_000_000)] {
        let document = json!({"document": {"file_id": id, "file_name": "x", "file_size": bytes}});
        send(&running, &platform, chat, 7, document).await;
        assert_eq!(
            given(&running, &format!("telegram:{chat}")).await,
            (lost.to_owned(), vec![])
        );
    }
    // The connection itself makes one such call.
    assert_eq!(platform.calls("getMe").len(), 1);
    running.kill().await;
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path(), &telegram(&platform.base, "")).await;
    send(
        &running,
        &platform,
        5,
        7,
        json!({"photo": [{"file_id": "large"}]}),
    )
    .await;
    assert_eq!(
        given(&running, "telegram:5").await,
        ("look\n[a photo]".to_owned(), vec![]),
        "unless it is said, nothing is fetched"
    );
}

#[tokio::test]
async fn files_of_slack_are_fetched_from_slack_alone() {
    let state = tempfile::tempdir().unwrap();
    let platform = platform().await;
    let connection =
        slack::app(&platform.base).replace("config: {", "config: {files: {value: fetch}, ");
    let running = Running::start(state.path(), &connection).await;
    let base = &platform.base;
    let sent = |url: String, kind: &str| json!({"url_private": url, "name": "f", "mimetype": kind, "size": 8});
    let body = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "message", "subtype": "file_share", "channel": "C1", "channel_type": "im", "user": "U1", "ts": "1.2", "text": "",
        "files": [
            sent(format!("{base}/files/report.txt"), "text/plain"),
            sent(format!("{base}/files/login"), "image/png"),
            sent(format!("{base}/files/moved"), "text/plain"),
            sent("http://169.254.169.254/latest/meta-data".to_owned(), "text/plain"),
            sent("https://slack.com.evil.example/x".to_owned(), "text/plain"),
        ],
    }})
    .to_string();
    let (status, _) = running
        .deliver(
            "team",
            &slack::signed(slack::SECRET, 0, &body),
            body.as_bytes(),
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    let (text, files) = given(&running, "slack:C1").await;
    assert_eq!(files, [file("text/plain", "YSByZXBvcnQ=")]);
    assert_eq!(
        text.matches("[a file could not be fetched]").count(),
        4,
        "{text}"
    );
}

#[tokio::test]
async fn files_of_discord_come_beside_the_text() {
    let state = tempfile::tempdir().unwrap();
    let platform = platform().await;
    let connection =
        discord::guild(&platform.base).replace("config: {", "config: {files: {value: fetch}, ");
    let running = Running::start(state.path(), &connection).await;
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
    running
        .deliver("guild", &discord::signed(0, &body), body.as_bytes())
        .await;
    let (text, files) = given(&running, "discord:5").await;
    assert_eq!(text, "what is it?\n[a file: report.txt]");
    assert_eq!(files, [file("text/plain", "YSByZXBvcnQ=")]);
}
