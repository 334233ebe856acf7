//! Files of answers: connections can send files of tool results with the answer.

use axum::http::StatusCode;
use goondan::ids::InstanceId;
use serde_json::{Value, json};

use crate::mock_platform::{Call, MockPlatform, json, ok_response};
use crate::support::TestRuntime;
use crate::{discord, slack};

const IMAGE: &[u8] = b"\x89PNG\r\n\x1a\nabc";

/// Writes the image that the agent reads to the working directory of a conversation.
fn write_image(runtime: &TestRuntime, key: &str) {
    let directory = runtime.swarm.workdir(&InstanceId::new("a", key));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("picture.png"), IMAGE).unwrap();
}

fn names(form: &[(String, String)]) -> Vec<&str> {
    form.iter().map(|(name, _)| name.as_str()).collect()
}

/// Starts a Telegram mock with one update.
async fn telegram(
    answer: impl Fn(&Call) -> Option<axum::response::Response> + Send + Sync + 'static,
) -> MockPlatform {
    let update = json!({"update_id": 1, "message": {
        "message_id": 1, "text": "draw", "chat": {"id": 7, "type": "private"}, "message_thread_id": 3, "is_topic_message": true,
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
    }});
    MockPlatform::start(move |call| match call.path.ends_with("getUpdates") {
        true if call.body["offset"] == 0 => {
            Some(json(200, json!({"ok": true, "result": [update]})))
        }
        true => None,
        false => Some(answer(call).unwrap_or_else(ok_response)),
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

/// Starts polling after the image was written, with a reload that removes the webhook.
async fn start(state: &std::path::Path, platform: &MockPlatform, files: &str) -> TestRuntime {
    let runtime = TestRuntime::start(state, &bot(&platform.base, files)).await;
    write_image(&runtime, "telegram:7:3");
    runtime
        .reload(
            &bot(&platform.base, files).replace(", webhookUrl: {value: \"https://x.example\"}", ""),
        )
        .await;
    runtime
}

#[tokio::test]
async fn an_image_is_sent_to_the_chat_after_the_text() {
    let state = tempfile::tempdir().unwrap();
    let platform = telegram(|_| None).await;
    let runtime = start(state.path(), &platform, "both").await;
    platform.wait_for_calls("sendPhoto", 1).await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(platform.calls("sendMessage")[0]["text"], "it is done");
    let form = platform.forms("sendPhoto").remove(0);
    assert_eq!(names(&form), ["chat_id", "photo", "message_thread_id"]);
    assert_eq!((form[0].1.as_str(), form[2].1.as_str()), ("7", "3"));
    assert_eq!(form[1].1, String::from_utf8_lossy(IMAGE));
}

#[tokio::test]
async fn a_rejected_image_is_sent_as_a_file_and_its_failure_reported() {
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
    let runtime = start(state.path(), &platform, "send").await;
    let sent = platform.wait_for_calls("sendMessage", 2).await;
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
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(runtime.snapshot("bot").failed.len(), 0);
}

#[tokio::test]
async fn files_are_sent_only_if_configured() {
    let state = tempfile::tempdir().unwrap();
    let platform = telegram(|_| None).await;
    let runtime = start(state.path(), &platform, "fetch").await;
    platform.wait_for_calls("sendMessage", 1).await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(
        platform.calls("sendPhoto").len() + platform.calls("sendDocument").len(),
        0
    );
}

#[tokio::test]
async fn a_file_is_uploaded_to_a_slack_thread_in_three_steps() {
    let state = tempfile::tempdir().unwrap();
    let base = crate::support::shared(String::new());
    let shared_base = std::sync::Arc::clone(&base);
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let platform = MockPlatform::start(move |call| {
        Some(match call.path.as_str() {
            "/files.getUploadURLExternal" => {
                assert_eq!(call.form, "filename=picture.png&length=11");
                let url = format!("{}/upload/1", shared_base.lock().unwrap());
                json(200, json!({"ok": true, "upload_url": url, "file_id": "F1"}))
            }
            // The first upload fails; the upload is not visible to users yet, so it is retried.
            "/upload/1" if attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
                json(502, json!({}))
            }
            _ => json(200, json!({"ok": true, "ts": "1.9"})),
        })
    })
    .await;
    platform.base.clone_into(&mut base.lock().unwrap());
    let app = slack::app(&platform.base).replace("config: {", "config: {files: {value: send}, ");
    let runtime = TestRuntime::start(state.path(), &app).await;
    write_image(&runtime, "slack:C1:1.2");
    let body = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "app_mention", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "1.2", "text": "draw",
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
    let done = platform
        .wait_for_calls("files.completeUploadExternal", 1)
        .await;
    assert_eq!(
        done,
        [
            json!({"files": [{"id": "F1", "title": "picture.png"}], "channel_id": "C1", "thread_ts": "1.2"})
        ]
    );
    assert_eq!(names(&platform.forms("/upload/1")[1]), ["file"]);
    runtime
        .wait_until("team", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(platform.calls("chat.postMessage").len(), 1);
}

#[tokio::test]
async fn discord_receives_a_file_after_the_answer() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(200, json!({"id": "9"})))).await;
    let connection =
        discord::guild(&platform.base).replace("config: {", "config: {files: {value: send}, ");
    let runtime = TestRuntime::start(state.path(), &connection).await;
    write_image(&runtime, "discord:5");
    let body = json!({
        "type": 2, "id": "1", "application_id": "2", "token": "tok", "channel_id": "5",
        "data": {"name": "ask", "options": [{"name": "question", "type": 3, "value": "draw"}]},
        "member": {"user": {"id": "7", "username": "ada"}},
    })
    .to_string();
    runtime
        .deliver("guild", &discord::signed(0, &body), body.as_bytes())
        .await;
    platform.wait_for_calls("/webhooks/2/tok", 1).await;
    runtime
        .wait_until("guild", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(
        platform.calls("/messages/@original")[0]["content"],
        "it is done"
    );
    let form = platform.forms("/webhooks/2/tok").remove(0);
    assert_eq!(names(&form), ["payload_json", "files[0]"]);
    let payload: Value = serde_json::from_str(&form[0].1).unwrap();
    assert_eq!(payload["allowed_mentions"], json!({"parse": []}));
}
