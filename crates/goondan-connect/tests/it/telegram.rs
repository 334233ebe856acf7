//! `telegram`: long polling, answers, unknown senders, and crashes.

use std::path::Path;

use serde_json::{Value, json};

use crate::mock_platform::{Call, MockPlatform, json, ok_response};
use crate::support::{TestRuntime, shared};

fn bot(base: &str, more: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  secrets: {{botToken: {{value: \"123:abc\"}}}}\n{more}"
    )
}

const ALLOW_ADA: &str = "  allow: {senders: [\"7\"]}\n";

fn update(id: i64, chat: i64, sender: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id, "text": text, "chat": {"id": chat, "type": "private"},
        "from": {"id": sender, "is_bot": false, "first_name": "Ada"},
    }})
}

/// Starts a Telegram mock that returns unconfirmed updates. `send` answers `sendMessage`.
async fn telegram(
    updates: Vec<Value>,
    send: impl Fn(&Call) -> Option<axum::response::Response> + Send + Sync + 'static,
) -> MockPlatform {
    MockPlatform::start(move |call| match call.path.rsplit('/').next() {
        Some("getUpdates") => {
            let offset = call.body["offset"].as_i64().unwrap();
            let open: Vec<&Value> = updates
                .iter()
                .filter(|update| update["update_id"].as_i64() >= Some(offset))
                .collect();
            (!open.is_empty()).then(|| json(200, json!({"ok": true, "result": open})))
        }
        Some("sendMessage") => send(call),
        _ => Some(ok_response()),
    })
    .await
}

async fn start(state: &Path, platform: &MockPlatform, more: &str) -> TestRuntime {
    TestRuntime::start(state, &bot(&platform.base, more)).await
}

#[tokio::test]
async fn a_message_is_answered_once_in_its_chat() {
    let state = tempfile::tempdir().unwrap();
    let updates = vec![
        update(1, 7, 7, "one"),
        update(2, 9, 7, "two"),
        update(3, 7, 7, "three"),
    ];
    let platform = telegram(updates, |_| Some(ok_response())).await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    let sent = platform.wait_for_calls("/bot123:abc/sendMessage", 3).await;
    let mut answers: Vec<(i64, &str)> = sent
        .iter()
        .map(|body| {
            (
                body["chat_id"].as_i64().unwrap(),
                body["text"].as_str().unwrap(),
            )
        })
        .collect();
    answers.sort_by_key(|(chat, _)| *chat);
    assert_eq!(
        answers,
        [(7, "heard one"), (7, "heard three"), (9, "heard two")]
    );
    assert_eq!(runtime.user_messages("telegram:7").await, ["one", "three"]);
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    runtime.kill().await;
    // Telegram sends the last update again, as after a crash before its confirmation.
    let platform = telegram(
        vec![update(3, 7, 7, "three"), update(4, 7, 7, "four")],
        |_| Some(ok_response()),
    )
    .await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    let sent = platform.wait_for_calls("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "heard four");
    assert_eq!(
        runtime.user_messages("telegram:7").await,
        ["one", "three", "four"]
    );
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(platform.calls("sendMessage").len(), 1);
}

#[tokio::test]
async fn an_unsent_answer_is_sent_at_the_next_start() {
    let state = tempfile::tempdir().unwrap();
    let busy = |_: &Call| {
        Some(json(
            429,
            json!({"ok": false, "parameters": {"retry_after": 600}}),
        ))
    };
    let platform = telegram(vec![update(1, 7, 7, "one")], busy).await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    platform.wait_for_calls("sendMessage", 1).await;
    runtime
        .wait_until("bot", |snapshot| {
            snapshot.owed == 1 && snapshot.failed.is_empty()
        })
        .await;
    // Waits until the retriable rejection is stored.
    let file = state.path().join("w/connections/bot/outbox.jsonl");
    crate::support::with_timeout(async {
        while std::fs::read_to_string(&file)
            .unwrap()
            .matches("\"accepted\"")
            .count()
            < 2
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    runtime.kill().await;
    let platform = telegram(vec![update(1, 7, 7, "one")], |_| Some(ok_response())).await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    platform.wait_for_calls("sendMessage", 1).await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(platform.calls("sendMessage").len(), 1);
    assert_eq!(runtime.user_messages("telegram:7").await, ["one"]);
}

#[tokio::test]
async fn an_answer_that_may_have_arrived_is_not_sent_again() {
    let state = tempfile::tempdir().unwrap();
    let platform = telegram(vec![update(1, 7, 7, "one")], |_| None).await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    platform.wait_for_calls("sendMessage", 1).await;
    runtime.kill().await;
    let platform = telegram(vec![update(1, 7, 7, "one"), update(2, 7, 7, "two")], |_| {
        Some(ok_response())
    })
    .await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    let sent = platform.wait_for_calls("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "heard two");
    let snapshot = runtime.snapshot("bot");
    assert_eq!(snapshot.failed.len(), 1);
    assert!(
        snapshot.failed[0]
            .why
            .as_deref()
            .unwrap()
            .contains("the process ended"),
        "{:?}",
        snapshot.failed
    );
}

#[tokio::test]
async fn an_unknown_sender_waits_for_approval() {
    let state = tempfile::tempdir().unwrap();
    let updates = shared(vec![
        update(1, 66, 66, "let me in"),
        update(2, 66, 66, "please"),
    ]);
    let platform = {
        let updates = std::sync::Arc::clone(&updates);
        MockPlatform::start(move |call| match call.path.rsplit('/').next() {
            Some("getUpdates") => {
                let offset = call.body["offset"].as_i64().unwrap();
                let all = updates.lock().unwrap();
                let open: Vec<&Value> = all
                    .iter()
                    .filter(|update| update["update_id"].as_i64() >= Some(offset))
                    .collect();
                Some(json(200, json!({"ok": true, "result": open})))
            }
            _ => Some(ok_response()),
        })
        .await
    };
    let runtime = start(state.path(), &platform, "").await;
    let notices = platform.wait_for_calls("sendMessage", 1).await;
    assert_eq!(notices[0]["chat_id"], 66);
    platform
        .wait_until("getUpdates", |calls| {
            calls.iter().any(|call| call["offset"] == 3)
        })
        .await;
    assert_eq!(runtime.snapshot("bot").pending[0].name, "Ada");
    assert!(runtime.state_dir("bot").approve("66").unwrap());
    updates.lock().unwrap().push(update(3, 66, 66, "thanks"));
    let notices = platform.wait_for_calls("sendMessage", 2).await;
    assert_eq!(notices[1]["text"], "heard thanks");
    assert_eq!(runtime.user_messages("telegram:66").await, ["thanks"]);
    assert_eq!(runtime.snapshot("bot").pending, []);
}

#[tokio::test]
async fn a_long_answer_is_split_and_a_rejected_one_is_recorded() {
    let state = tempfile::tempdir().unwrap();
    let long = "word ".repeat(1_500);
    let refuse = |call: &Call| match call.body["chat_id"].as_i64() {
        Some(9) => Some(json(
            403,
            json!({"ok": false, "description": "Forbidden: bot was blocked by the user"}),
        )),
        _ => Some(ok_response()),
    };
    let platform = telegram(
        vec![
            update(1, 7, 7, &long),
            update(2, 9, 7, "x"),
            update(3, 5, 7, "break"),
        ],
        refuse,
    )
    .await;
    let runtime = start(state.path(), &platform, ALLOW_ADA).await;
    let sent = platform.wait_for_calls("sendMessage", 4).await;
    let pieces: Vec<&str> = sent
        .iter()
        .filter(|body| body["chat_id"] == 7)
        .map(|body| body["text"].as_str().unwrap())
        .collect();
    assert_eq!(pieces.len(), 2);
    assert!(
        pieces.iter().all(|piece| piece.len() <= 4_096),
        "{pieces:?}"
    );
    let failure = sent.iter().find(|body| body["chat_id"] == 5).unwrap();
    assert!(
        failure["text"]
            .as_str()
            .unwrap()
            .starts_with("Sorry, the request failed (E_MODEL"),
        "{failure}"
    );
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    let failed = runtime.snapshot("bot").failed;
    assert!(
        failed[0]
            .why
            .as_deref()
            .unwrap()
            .contains("blocked by the user"),
        "{failed:?}"
    );
    assert_eq!(failed[0].origin, Value::Null);
}
