//! Files of answers: what tools have brought back goes where the answer goes, if the connection says so.

use axum::http::StatusCode;
use goondan::ids::InstanceId;
use serde_json::{Value, json};

use crate::platform::{Call, Platform, fine, json};
use crate::support::Running;
use crate::{discord, slack};

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\nabc";

/// What the agent will read, in a conversation.
fn put_picture(running: &Running, key: &str) {
    let folder = running.swarm.workdir(&InstanceId::new("a", key));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("picture.png"), PICTURE).unwrap();
}

fn names(form: &[(String, String)]) -> Vec<&str> {
    form.iter().map(|(name, _)| name.as_str()).collect()
}

/// A bot that is written to once.
async fn telegram(
    answer: impl Fn(&Call) -> Option<axum::response::Response> + Send + Sync + 'static,
) -> Platform {
    let update = json!({"update_id": 1, "message": {
        "message_id": 1, "text": "draw", "chat": {"id": 7, "type": "private"}, "message_thread_id": 3, "is_topic_message": true,
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
    }});
    Platform::start(move |call| match call.path.ends_with("getUpdates") {
        true if call.body["offset"] == 0 => {
            Some(json(200, json!({"ok": true, "result": [update]})))
        }
        true => None,
        false => Some(answer(call).unwrap_or_else(fine)),
    })
    .await
}

fn bot(base: &str, files: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}, files: {{value: {files}}}, webhookUrl: {{value: \"https://x.example\"}}}}\n  \
         secrets: {{botToken: {{value: \"123:abc\"}}}}\n  allow: {{senders: [\"*\"]}}\n"
    )
}

/// Polls from the moment in which the picture is there.
async fn start(state: &std::path::Path, platform: &Platform, files: &str) -> Running {
    let running = Running::start(state, &bot(&platform.base, files)).await;
    put_picture(&running, "telegram:7:3");
    running
        .reload(
            &bot(&platform.base, files).replace(", webhookUrl: {value: \"https://x.example\"}", ""),
        )
        .await;
    running
}

#[tokio::test]
async fn a_picture_goes_to_the_chat_behind_the_text() {
    let state = tempfile::tempdir().unwrap();
    let platform = telegram(|_| None).await;
    let running = start(state.path(), &platform, "both").await;
    platform.wait("sendPhoto", 1).await;
    running.until("bot", |look| look.owed == 0).await;
    assert_eq!(platform.calls("sendMessage")[0]["text"], "it is done");
    let form = platform.forms("sendPhoto").remove(0);
    assert_eq!(names(&form), ["chat_id", "photo", "message_thread_id"]);
    assert_eq!((form[0].1.as_str(), form[2].1.as_str()), ("7", "3"));
    assert_eq!(form[1].1, String::from_utf8_lossy(PICTURE));
}

#[tokio::test]
async fn a_picture_that_is_refused_goes_as_a_file_and_one_that_is_not_taken_at_all_is_told() {
    let state = tempfile::tempdir().unwrap();
    let no = |call: &Call| {
        let is_upload = call.path.ends_with("sendPhoto") || call.path.ends_with("sendDocument");
        is_upload.then(|| {
            json(
                400,
                json!({"ok": false, "description": "Bad Request: PHOTO_INVALID_DIMENSIONS"}),
            )
        })
    };
    let platform = telegram(no).await;
    let running = start(state.path(), &platform, "send").await;
    let sent = platform.wait("sendMessage", 2).await;
    assert_eq!(
        (
            platform.calls("sendPhoto").len(),
            platform.calls("sendDocument").len()
        ),
        (1, 1)
    );
    assert_eq!(
        sent[1]["text"],
        "[a file that could not be sent: picture.png]"
    );
    running.until("bot", |look| look.owed == 0).await;
    assert_eq!(running.look("bot").failed.len(), 0);
}

#[tokio::test]
async fn without_a_word_about_files_none_is_sent() {
    let state = tempfile::tempdir().unwrap();
    let platform = telegram(|_| None).await;
    let running = start(state.path(), &platform, "fetch").await;
    platform.wait("sendMessage", 1).await;
    running.until("bot", |look| look.owed == 0).await;
    assert_eq!(
        platform.calls("sendPhoto").len() + platform.calls("sendDocument").len(),
        0
    );
}

#[tokio::test]
async fn slack_gets_a_file_in_three_steps_in_the_thread() {
    let state = tempfile::tempdir().unwrap();
    let base = crate::support::shared(String::new());
    let known = std::sync::Arc::clone(&base);
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let platform = Platform::start(move |call| {
        Some(match call.path.as_str() {
            "/files.getUploadURLExternal" => {
                assert_eq!(call.form, "filename=picture.png&length=11");
                let url = format!("{}/upload/1", known.lock().unwrap());
                json(200, json!({"ok": true, "upload_url": url, "file_id": "F1"}))
            }
            // Nobody sees this step: it is done again.
            "/upload/1" if tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
                json(502, json!({}))
            }
            _ => json(200, json!({"ok": true, "ts": "1.9"})),
        })
    })
    .await;
    platform.base.clone_into(&mut base.lock().unwrap());
    let app = slack::app(&platform.base).replace("config: {", "config: {files: {value: send}, ");
    let running = Running::start(state.path(), &app).await;
    put_picture(&running, "slack:C1:1.2");
    let body = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "app_mention", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "1.2", "text": "draw",
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
    let done = platform.wait("files.completeUploadExternal", 1).await;
    assert_eq!(
        done,
        [
            json!({"files": [{"id": "F1", "title": "picture.png"}], "channel_id": "C1", "thread_ts": "1.2"})
        ]
    );
    assert_eq!(names(&platform.forms("/upload/1")[1]), ["file"]);
    running.until("team", |look| look.owed == 0).await;
    assert_eq!(platform.calls("chat.postMessage").len(), 1);
}

#[tokio::test]
async fn discord_gets_a_file_behind_the_answer() {
    let state = tempfile::tempdir().unwrap();
    let platform = Platform::start(|_| Some(json(200, json!({"id": "9"})))).await;
    let connection =
        discord::guild(&platform.base).replace("config: {", "config: {files: {value: send}, ");
    let running = Running::start(state.path(), &connection).await;
    put_picture(&running, "discord:5");
    let body = json!({
        "type": 2, "id": "1", "application_id": "2", "token": "tok", "channel_id": "5",
        "data": {"name": "ask", "options": [{"name": "question", "type": 3, "value": "draw"}]},
        "member": {"user": {"id": "7", "username": "ada"}},
    })
    .to_string();
    running
        .deliver("guild", &discord::signed(0, &body), body.as_bytes())
        .await;
    platform.wait("/webhooks/2/tok", 1).await;
    running.until("guild", |look| look.owed == 0).await;
    assert_eq!(
        platform.calls("/messages/@original")[0]["content"],
        "it is done"
    );
    let form = platform.forms("/webhooks/2/tok").remove(0);
    assert_eq!(names(&form), ["payload_json", "files[0]"]);
    let told: Value = serde_json::from_str(&form[0].1).unwrap();
    assert_eq!(told["allowed_mentions"], json!({"parse": []}));
}
