//! Answers that grow in their channel: what is shown meanwhile, what stands there in the end, and crashes.

use std::path::Path;

use axum::response::Response;
use serde_json::{Value, json};

use crate::platform::{Call, Platform, fine, json};
use crate::support::{Running, within};

fn bot(base: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  secrets: {{botToken: {{value: \"123:abc\"}}}}\n  reply: stream\n  \
         allow: {{senders: [\"7\"], approvers: [\"7\"]}}\n"
    )
}

fn said(id: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id, "text": text, "chat": {"id": 7, "type": "private"},
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
    }})
}

/// Gives out what `updates` has from the offset on; changes messages as `edit` says.
async fn telegram(
    updates: std::sync::Arc<std::sync::Mutex<Vec<Value>>>,
    edit: impl Fn(&Call) -> Response + Send + Sync + 'static,
) -> Platform {
    let sent = std::sync::atomic::AtomicU64::new(100);
    Platform::start(move |call| match call.path.rsplit('/').next() {
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
        _ => Some(fine()),
    })
    .await
}

async fn start(state: &Path, platform: &Platform) -> Running {
    Running::start(state, &bot(&platform.base)).await
}

/// What was sent that is no question.
fn plain(calls: &[Value]) -> Vec<&str> {
    calls
        .iter()
        .filter(|call| call["reply_markup"].is_null())
        .map(|call| call["text"].as_str().unwrap())
        .collect()
}

/// Presses the first button of the question that stands there.
async fn allow(platform: &Platform, updates: &std::sync::Mutex<Vec<Value>>, id: i64) {
    let put = platform
        .until("", |calls| {
            calls.iter().any(|call| !call["reply_markup"].is_null())
        })
        .await;
    let question = put
        .iter()
        .find(|call| !call["reply_markup"].is_null())
        .unwrap();
    let data = &question["reply_markup"]["inline_keyboard"][0][0]["callback_data"];
    let press = json!({"update_id": id, "callback_query": {
        "id": "q", "data": data, "from": {"id": 7}, "message": {"chat": {"id": 7}},
    }});
    updates.lock().unwrap().push(press);
}

#[tokio::test]
async fn an_answer_grows_in_one_message_and_ends_as_it_is() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![said(1, "plan it")]);
    let platform = telegram(std::sync::Arc::clone(&updates), |_| fine()).await;
    let running = start(state.path(), &platform).await;
    platform
        .until("sendMessage", |calls| plain(calls) == ["Let me plan. …"])
        .await;
    allow(&platform, &updates, 2).await;
    running.until("bot", |look| look.owed == 0).await;
    let edits = platform.calls("editMessageText");
    let grown: Vec<&str> = edits
        .iter()
        .filter_map(|edit| edit["text"].as_str())
        .filter(|text| !text.contains("May a run"))
        .collect();
    assert_eq!(grown, ["it is done"]);
    assert_eq!(
        plain(&platform.calls("sendMessage")).len(),
        1,
        "one message is all of it"
    );
    assert!(running.look("bot").failed.is_empty());
}

#[tokio::test]
async fn a_long_answer_ends_in_whole_pieces_and_a_platform_that_is_busy_is_waited_for() {
    let state = tempfile::tempdir().unwrap();
    let long = "word ".repeat(1_500);
    let updates = crate::support::shared(vec![said(1, &long), said(2, "short")]);
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let platform = telegram(updates, move |_| {
        match is_first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => json(
                429,
                json!({"ok": false, "parameters": {"retry_after": 0.01}}),
            ),
            false => fine(),
        }
    })
    .await;
    let running = start(state.path(), &platform).await;
    running
        .until("bot", |look| look.owed == 0 && look.status.is_some())
        .await;
    within(async {
        while running.heard("telegram:7").await.len() < 2 || running.look("bot").owed > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // What stands in the chat in the end, message by message.
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
    let said: String = chat.concat().split_whitespace().collect();
    let wanted: String = format!("heard {long} heard short")
        .split_whitespace()
        .collect();
    assert_eq!(said, wanted);
}

#[tokio::test]
async fn a_crash_while_it_grows_ends_in_one_answer() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![said(1, "plan it")]);
    let platform = telegram(std::sync::Arc::clone(&updates), |_| fine()).await;
    let running = start(state.path(), &platform).await;
    let file = state.path().join("w/connections/bot/outbox.jsonl");
    within(async {
        while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"draft\"")) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.kill().await;
    let platform = telegram(std::sync::Arc::clone(&updates), |_| fine()).await;
    let running = start(state.path(), &platform).await;
    allow(&platform, &updates, 2).await;
    platform
        .until("editMessageText", |calls| {
            calls.iter().any(|call| call["text"] == "it is done")
        })
        .await;
    running.until("bot", |look| look.owed == 0).await;
    let sent = platform.calls("sendMessage");
    assert_eq!(
        plain(&sent),
        Vec::<&str>::new(),
        "it ends in the message that was there: {sent:?}"
    );
    assert!(running.look("bot").failed.is_empty());
}

#[tokio::test]
async fn a_message_that_was_taken_away_is_sent_anew() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![said(1, "plan it")]);
    let gone = |call: &Call| match call.body["text"].as_str() {
        Some("it is done") => json(
            400,
            json!({"ok": false, "description": "Bad Request: message to edit not found"}),
        ),
        _ => fine(),
    };
    let platform = telegram(std::sync::Arc::clone(&updates), gone).await;
    let running = start(state.path(), &platform).await;
    platform
        .until("sendMessage", |calls| plain(calls).len() == 1)
        .await;
    allow(&platform, &updates, 2).await;
    let sent = platform
        .until("sendMessage", |calls| plain(calls).len() == 2)
        .await;
    assert_eq!(plain(&sent)[1], "it is done");
    running.until("bot", |look| look.owed == 0).await;
}

#[tokio::test]
async fn an_answer_that_grows_when_the_swarm_ends_is_finished_at_the_next_start() {
    let state = tempfile::tempdir().unwrap();
    let updates = crate::support::shared(vec![said(1, "plan it")]);
    let platform = telegram(std::sync::Arc::clone(&updates), |_| fine()).await;
    let running = start(state.path(), &platform).await;
    let folder = state.path().join("w/connections/bot");
    let has = |file: &str, text: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|content| content.contains(text))
    };
    within(async {
        while !has("outbox.jsonl", "\"draft\"") || !has("questions.json", "mark") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.connections.stop_receiving();
    within(running.swarm.shutdown()).await;
    within(running.connections.end()).await;
    assert_eq!(running.look("bot").owed, 1);
    assert_eq!(platform.calls("editMessageText"), Vec::<Value>::new());
    running.kill().await;
    let platform = telegram(std::sync::Arc::clone(&updates), |_| fine()).await;
    let running = start(state.path(), &platform).await;
    allow(&platform, &updates, 2).await;
    platform
        .until("editMessageText", |calls| {
            calls.iter().any(|call| call["text"] == "it is done")
        })
        .await;
    running.until("bot", |look| look.owed == 0).await;
    assert_eq!(plain(&platform.calls("sendMessage")), Vec::<&str>::new());
}
