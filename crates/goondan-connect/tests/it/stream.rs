//! Streamed answers: intermediate messages, final messages, and crashes.

use std::path::Path;

use axum::response::Response;
use serde_json::{Value, json};

use crate::mock_platform::{Call, MockPlatform, json, ok_response};
use crate::support::{TestRuntime, with_timeout};

fn bot(base: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  secrets: {{botToken: {{value: \"123:abc\"}}}}\n  reply: stream\n  \
         allow: {{senders: [\"7\"], approvers: [\"7\"]}}\n"
    )
}

fn user_update(id: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id, "text": text, "chat": {"id": 7, "type": "private"},
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
    }})
}

/// Starts a Telegram mock. `getUpdates` returns the `updates` from the requested offset, and `edit`
/// answers `editMessageText`.
async fn telegram(
    updates: std::sync::Arc<std::sync::Mutex<Vec<Value>>>,
    edit: impl Fn(&Call) -> Response + Send + Sync + 'static,
) -> MockPlatform {
    let sent = std::sync::atomic::AtomicU64::new(100);
    MockPlatform::start(move |call| match call.path.rsplit('/').next() {
        Some("getUpdates") => {
            let offset = call.body["offset"].as_i64().unwrap();
            let updates = updates.lock().unwrap();
            let open: Vec<&Value> = updates
                .iter()
                .filter(|update| update["update_id"].as_i64() >= Some(offset))
                .collect();
            Some(json(200, json!({"ok": true, "result": open})))
        }
        Some("sendMessage") => {
            let number = sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Some(json(
                200,
                json!({"ok": true, "result": {"message_id": number}}),
            ))
        }
        Some("editMessageText") => Some(edit(call)),
        _ => Some(ok_response()),
    })
    .await
}

async fn start(state: &Path, platform: &MockPlatform) -> TestRuntime {
    TestRuntime::start(state, &bot(&platform.base)).await
}

/// Returns the texts of messages without buttons.
fn plain(calls: &[Value]) -> Vec<&str> {
    calls
        .iter()
        .filter(|call| call["reply_markup"].is_null())
        .map(|call| call["text"].as_str().unwrap())
        .collect()
}

/// Presses the first button of the approval request.
async fn allow(platform: &MockPlatform, updates: &std::sync::Mutex<Vec<Value>>, id: i64) {
    let calls_with_buttons = platform
        .wait_until("", |calls| {
            calls.iter().any(|call| !call["reply_markup"].is_null())
        })
        .await;
    let request = calls_with_buttons
        .iter()
        .find(|call| !call["reply_markup"].is_null())
        .unwrap();
    let data = &request["reply_markup"]["inline_keyboard"][0][0]["callback_data"];
    let press = json!({"update_id": id, "callback_query": {
        "id": "q", "data": data, "from": {"id": 7}, "message": {"chat": {"id": 7}},
    }});
    updates.lock().unwrap().push(press);
}

#[tokio::test]
async fn an_answer_is_streamed_into_one_message() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![user_update(1, "plan it")]);
    let platform = telegram(std::sync::Arc::clone(&updates), |_| ok_response()).await;
    let runtime = start(state.path(), &platform).await;
    platform
        .wait_until("sendMessage", |calls| plain(calls) == ["Let me plan. …"])
        .await;
    allow(&platform, &updates, 2).await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    let edits = platform.calls("editMessageText");
    let edited_texts: Vec<&str> = edits
        .iter()
        .filter_map(|edit| edit["text"].as_str())
        .filter(|text| !text.contains("May a run"))
        .collect();
    assert_eq!(edited_texts, ["it is done"]);
    assert_eq!(
        plain(&platform.calls("sendMessage")).len(),
        1,
        "the answer uses one message"
    );
    assert!(runtime.snapshot("bot").failed.is_empty());
}

#[tokio::test]
async fn a_long_streamed_answer_is_split_despite_a_rate_limit() {
    let state = tempfile::tempdir().unwrap();
    let long = "word ".repeat(1_500);
    let updates = crate::support::shared(vec![user_update(1, &long), user_update(2, "short")]);
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let platform = telegram(updates, move |_| {
        match is_first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => json(
                429,
                json!({"ok": false, "parameters": {"retry_after": 0.01}}),
            ),
            false => ok_response(),
        }
    })
    .await;
    let runtime = start(state.path(), &platform).await;
    runtime
        .wait_until("bot", |snapshot| {
            snapshot.owed == 0 && snapshot.status.is_some()
        })
        .await;
    with_timeout(async {
        while runtime.user_messages("telegram:7").await.len() < 2
            || runtime.snapshot("bot").owed > 0
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Computes the final messages of the chat.
    let mut chat: Vec<String> = Vec::new();
    for call in platform.calls("") {
        match (call["message_id"].as_u64(), call["text"].as_str()) {
            (Some(number), Some(text)) => {
                chat[usize::try_from(number - 100).unwrap()] = text.to_owned()
            }
            (None, Some(text)) => chat.push(text.to_owned()),
            _ => {}
        }
    }
    assert!(
        chat.iter()
            .all(|message| message.encode_utf16().count() <= 4_096 && !message.ends_with('…')),
        "{chat:?}"
    );
    let joined: String = chat.concat().split_whitespace().collect();
    let expected: String = format!("heard {long} heard short")
        .split_whitespace()
        .collect();
    assert_eq!(joined, expected);
}

#[tokio::test]
async fn a_crash_during_streaming_leaves_one_answer() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![user_update(1, "plan it")]);
    let platform = telegram(std::sync::Arc::clone(&updates), |_| ok_response()).await;
    let runtime = start(state.path(), &platform).await;
    let file = state.path().join("w/connections/bot/outbox.jsonl");
    with_timeout(async {
        while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"draft\"")) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    runtime.kill().await;
    let platform = telegram(std::sync::Arc::clone(&updates), |_| ok_response()).await;
    let runtime = start(state.path(), &platform).await;
    allow(&platform, &updates, 2).await;
    platform
        .wait_until("editMessageText", |calls| {
            calls.iter().any(|call| call["text"] == "it is done")
        })
        .await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    let sent = platform.calls("sendMessage");
    assert_eq!(
        plain(&sent),
        Vec::<&str>::new(),
        "the answer completes the existing message: {sent:?}"
    );
    assert!(runtime.snapshot("bot").failed.is_empty());
}

#[tokio::test]
async fn a_deleted_message_is_sent_again() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![user_update(1, "plan it")]);
    let reject_final_edit = |call: &Call| match call.body["text"].as_str() {
        Some("it is done") => json(
            400,
            json!({"ok": false, "description": "Bad Request: message to edit not found"}),
        ),
        _ => ok_response(),
    };
    let platform = telegram(std::sync::Arc::clone(&updates), reject_final_edit).await;
    let runtime = start(state.path(), &platform).await;
    platform
        .wait_until("sendMessage", |calls| plain(calls).len() == 1)
        .await;
    allow(&platform, &updates, 2).await;
    let sent = platform
        .wait_until("sendMessage", |calls| plain(calls).len() == 2)
        .await;
    assert_eq!(plain(&sent)[1], "it is done");
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
}

#[tokio::test]
async fn a_streamed_answer_is_finished_at_the_next_start() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![user_update(1, "plan it")]);
    let platform = telegram(std::sync::Arc::clone(&updates), |_| ok_response()).await;
    let runtime = start(state.path(), &platform).await;
    let directory = state.path().join("w/connections/bot");
    let has = |file: &str, text: &str| {
        std::fs::read_to_string(directory.join(file)).is_ok_and(|content| content.contains(text))
    };
    with_timeout(async {
        while !has("outbox.jsonl", "\"draft\"") || !has("questions.json", "mark") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    runtime.connections.stop_receiving();
    with_timeout(runtime.swarm.shutdown()).await;
    with_timeout(runtime.connections.end()).await;
    assert_eq!(runtime.snapshot("bot").owed, 1);
    assert_eq!(platform.calls("editMessageText"), Vec::<Value>::new());
    runtime.kill().await;
    let platform = telegram(std::sync::Arc::clone(&updates), |_| ok_response()).await;
    let runtime = start(state.path(), &platform).await;
    allow(&platform, &updates, 2).await;
    platform
        .wait_until("editMessageText", |calls| {
            calls.iter().any(|call| call["text"] == "it is done")
        })
        .await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(plain(&platform.calls("sendMessage")), Vec::<&str>::new());
}
