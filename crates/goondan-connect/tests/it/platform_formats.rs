//! Platform updates and errors in their real form: rate limits, moved chats, albums, forwarded
//! messages, and command targets.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use crate::mock_platform::{Call, MockPlatform, json, ok_response};
use crate::support::{TestRuntime, shared};
use crate::{discord, github, slack, webhook};

/// Returns a bot connection for all senders.
fn bot(base: &str, config: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}{config}}}\n  secrets: {{botToken: {{value: \"123:abc\"}}}}\n  \
         allow: {{senders: [\"*\"]}}\n"
    )
}

fn update(id: i64, chat: i64, fields: Value) -> Value {
    let mut message = json!({
        "message_id": id, "date": 1, "chat": {"id": chat, "type": if chat > 0 { "private" } else { "supergroup" }},
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
    });
    let fields = fields.as_object().unwrap().clone();
    message.as_object_mut().unwrap().extend(fields);
    json!({"update_id": id, "message": message})
}

/// Starts a Telegram mock with updates. `refuse` returns the error for a call, if it fails.
async fn telegram(
    updates: Vec<Value>,
    refuse: impl Fn(&Call) -> Option<Value> + Send + Sync + 'static,
) -> MockPlatform {
    MockPlatform::start(move |call| match call.path.rsplit('/').next() {
        Some("getUpdates") => {
            let offset = call.body["offset"].as_i64().unwrap();
            let is_open = |update: &&Value| update["update_id"].as_i64() >= Some(offset);
            let open: Vec<&Value> = updates.iter().filter(is_open).collect();
            (!open.is_empty()).then(|| json(200, json!({"ok": true, "result": open})))
        }
        _ => Some(refuse(call).map_or_else(ok_response, |refusal| json(400, refusal))),
    })
    .await
}

fn texts(sent: &[Value]) -> Vec<&str> {
    let texts = sent.iter().map(|body| body["text"].as_str().unwrap());
    texts.collect()
}

#[tokio::test]
async fn telegram_messages_of_several_kinds_reach_the_agent() {
    let state = tempfile::tempdir().unwrap();
    let photo = |id: &str| json!([{"file_id": id}]);
    let updates = vec![
        update(1, 7, json!({"voice": {"file_id": "v", "duration": 3}})),
        update(
            2,
            7,
            json!({"photo": photo("a"), "media_group_id": "g", "caption": "compare"}),
        ),
        update(3, 7, json!({"photo": photo("b"), "media_group_id": "g"})),
        update(
            4,
            7,
            json!({"text": "right?", "reply_to_message": {"text": "It is 42", "from": {"first_name": "Eve"}}}),
        ),
    ];
    let platform = telegram(updates, |_| None).await;
    let runtime = TestRuntime::start(state.path(), &bot(&platform.base, "")).await;
    let sent = platform.wait_for_calls("sendMessage", 3).await;
    assert_eq!(
        texts(&sent),
        [
            "heard [a voice message, 3 s]",
            "heard compare\n[a photo]\n[a photo]",
            "heard right?\n[in reply to a message of Eve]\nIt is 42",
        ]
    );
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(platform.calls("sendMessage").len(), 3);
}

#[tokio::test]
async fn unsupported_content_gets_a_notice() {
    let state = tempfile::tempdir().unwrap();
    let updates = vec![
        update(1, 7, json!({"hologram": {"file_id": "h"}})),
        update(2, 7, json!({"new_chat_title": "t"})),
        update(3, 8, json!({"text": "hi"})),
    ];
    let config = ", unsupported: {value: reply}";
    let platform = telegram(updates, |_| None).await;
    let _runtime = TestRuntime::start(state.path(), &bot(&platform.base, config)).await;
    let sent = platform.wait_for_calls("sendMessage", 2).await;
    let mut texts = texts(&sent);
    texts.sort_unstable();
    assert_eq!(
        texts,
        ["Sorry, this kind of message is not supported.", "heard hi"]
    );
}

#[tokio::test]
async fn an_answer_follows_a_migrated_chat_or_deleted_topic() {
    let state = tempfile::tempdir().unwrap();
    let topic = |thread: i64| json!({"text": "in a topic", "message_thread_id": thread, "is_topic_message": true});
    let updates = vec![
        update(1, -5, json!({"text": "in a group"})),
        update(2, -100, topic(1)),
        update(3, -100, topic(11)),
        update(4, -100, topic(22)),
    ];
    let platform = telegram(updates, |call| {
        let (chat, thread) = (call.body["chat_id"].as_i64()?, call.body["message_thread_id"].as_i64());
        match (chat, thread) {
            (-5, _) => Some(json!({
                "ok": false, "error_code": 400, "description": "Bad Request: group chat was upgraded to a supergroup chat",
                "parameters": {"migrate_to_chat_id": -1005},
            })),
            // The general topic has no id, and topic 11 was deleted.
            (-100, Some(1 | 11)) => Some(json!({"ok": false, "error_code": 400, "description": "Bad Request: message thread not found"})),
            _ => None,
        }
    })
    .await;
    let runtime = TestRuntime::start(state.path(), &bot(&platform.base, "")).await;
    let place = |body: &Value| (body["chat_id"].as_i64(), body["message_thread_id"].as_i64());
    let arrived = [
        (Some(-1005), None),
        (Some(-100), None),
        (Some(-100), Some(22)),
    ];
    let all_arrived = |sent: &[Value]| {
        let places: Vec<_> = sent.iter().map(place).collect();
        arrived.iter().all(|place| places.contains(place))
    };
    platform.wait_until("sendMessage", all_arrived).await;
    runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(runtime.snapshot("bot").failed, []);
    assert_eq!(runtime.user_messages("telegram:-100").await, ["in a topic"]);
    assert_eq!(
        runtime.user_messages("telegram:-100:11").await,
        ["in a topic"]
    );
    assert_eq!(
        runtime.user_messages("telegram:-100:22").await,
        ["in a topic"]
    );
}

#[tokio::test]
async fn a_typing_indicator_follows_a_migrated_chat() {
    let state = tempfile::tempdir().unwrap();
    let updates = vec![update(1, -5, json!({"text": "slow"}))];
    let moved =
        json!({"ok": false, "error_code": 400, "parameters": {"migrate_to_chat_id": -1005}});
    let platform = telegram(updates, move |call| {
        (call.body["chat_id"] == -5).then(|| moved.clone())
    })
    .await;
    let _runtime = TestRuntime::start(state.path(), &bot(&platform.base, "")).await;
    let is_new = |sent: &[Value]| sent.iter().any(|body| body["chat_id"] == -1005);
    platform.wait_until("sendChatAction", is_new).await;
}

#[tokio::test]
async fn an_answer_waits_for_every_form_of_rate_limit() {
    let state = tempfile::tempdir().unwrap();
    let secondary = json!({"message": "You have exceeded a secondary rate limit."});
    let refusals: Vec<(u16, &str, &str, Value)> = vec![
        (403, "retry-after", "0", secondary),
        (
            403,
            "x-ratelimit-remaining",
            "0",
            json!({"message": "API rate limit exceeded", "retry_after": 0}),
        ),
        (429, "retry-after", "0", Value::Null),
        (503, "retry-after", "0", Value::Null),
    ];
    let (count, refusals) = (refusals.len(), shared(refusals));
    let platform = MockPlatform::start(move |_| {
        let mut refusals = refusals.lock().unwrap();
        if refusals.is_empty() {
            return Some(json(201, json!({"id": 1})));
        }
        let (status, name, value, body) = refusals.remove(0);
        let headers = [(name, value)];
        Some((headers, json(status, body)).into_response())
    })
    .await;
    let runtime = TestRuntime::start(state.path(), &github::hub(&platform.base)).await;
    let body = issue("hello").to_string();
    runtime
        .deliver(
            "hub",
            &github::signed("issues", "d", &body),
            body.as_bytes(),
        )
        .await;
    platform.wait_for_calls("/comments", count + 1).await;
    runtime
        .wait_until("hub", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(runtime.snapshot("hub").failed, []);
}

fn issue(name: &str) -> Value {
    json!({
        "action": "opened", "issue": {"number": 7, "title": "It fails", "body": "Why?"},
        "repository": {"full_name": format!("octo/{name}")}, "sender": {"login": "ada", "type": "User"},
    })
}

#[tokio::test]
async fn a_comment_follows_a_renamed_repository_but_not_to_another_host() {
    let state = tempfile::tempdir().unwrap();
    let elsewhere = MockPlatform::start(|_| Some(json(201, json!({"id": 1})))).await;
    let other = elsewhere.base.clone();
    let platform = MockPlatform::start(move |call| {
        let moved = |to: String| {
            let answer = json(307, json!({"message": "Moved Permanently"}));
            Some(([("location", to)], answer).into_response())
        };
        match call.path.split('/').nth(3) {
            Some("hello") => moved("/repositories/1/issues/7/comments".to_owned()),
            Some("evil") => moved(format!("{other}/repositories/1/issues/7/comments")),
            _ => Some(json(201, json!({"id": 1}))),
        }
    })
    .await;
    let runtime = TestRuntime::start(state.path(), &github::hub(&platform.base)).await;
    for name in ["hello", "evil"] {
        let body = issue(name).to_string();
        let headers = github::signed("issues", "d", &body);
        runtime.deliver("hub", &headers, body.as_bytes()).await;
    }
    platform
        .wait_for_calls("/repositories/1/issues/7/comments", 1)
        .await;
    runtime
        .wait_until("hub", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(runtime.snapshot("hub").failed.len(), 1);
    assert_eq!(
        elsewhere.calls("").len(),
        0,
        "the token stays with its host"
    );
}

#[tokio::test]
async fn slack_messages_are_decoded_and_commands_are_answered() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(200, json!({"ok": true})))).await;
    let runtime = TestRuntime::start(state.path(), &slack::app(&platform.base)).await;
    let deliver = async |body: &str, kind: &str| {
        let mut headers = slack::signed(slack::SECRET, 0, body);
        headers.push(("content-type", kind.to_owned()));
        runtime.deliver("team", &headers, body.as_bytes()).await
    };
    let text = "is a &lt; b &amp;&amp; c, <@U1>? cut \\ud83d";
    let message = slack::message("1.2", "TEXT").replace("TEXT", text);
    deliver(&message, "application/json").await;
    let mut forward: Value = serde_json::from_str(&slack::message("1.3", "")).unwrap();
    forward["event"]["attachments"] = json!([{"is_share": true, "text": "the build is red"}]);
    deliver(&forward.to_string(), "application/json").await;
    let command = "token=x&command=%2Fask&text=hi&response_url=https%3A%2F%2Fhooks.slack.com%2Fx";
    let (status, answer) = deliver(command, "application/x-www-form-urlencoded").await;
    assert_eq!(status, StatusCode::OK);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["response_type"], "ephemeral");
    let shortcut = "payload=%7B%22type%22%3A%22shortcut%22%7D";
    let (status, answer) = deliver(shortcut, "application/x-www-form-urlencoded").await;
    assert_eq!((status, answer.as_str()), (StatusCode::OK, ""));
    let sent = platform.wait_for_calls("chat.postMessage", 2).await;
    let mut texts = texts(&sent);
    texts.sort_unstable();
    assert_eq!(
        texts,
        [
            "heard [a forwarded message]\nthe build is red",
            "heard is a &lt; b &amp;&amp; c, @U1? cut \u{fffd}",
        ]
    );
}

#[tokio::test]
async fn discord_commands_quote_targets_and_autocomplete_returns_choices() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(200, json!({"id": "1"})))).await;
    let runtime = TestRuntime::start(state.path(), &discord::guild(&platform.base)).await;
    let deliver = async |data: Value, kind: u64| {
        let mut body: Value = serde_json::from_str(&discord::ask("1", "7", "")).unwrap();
        (body["type"], body["data"]) = (json!(kind), data);
        let body = body.to_string();
        let (_, answer) = runtime
            .deliver("guild", &discord::signed(0, &body), body.as_bytes())
            .await;
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let option = json!({"name": "q", "type": 3, "value": "why", "focused": true});
    let answer = deliver(json!({"name": "bot", "options": [option]}), 4).await;
    assert_eq!(answer["type"], 8);
    assert!(answer["data"]["choices"].is_array());
    let message = json!({"id": "77", "content": "the build is red", "author": {"id": "8"}});
    let target = json!({"name": "Summarize", "type": 3, "target_id": "77", "resolved": {"messages": {"77": message}}});
    assert_eq!(deliver(target, 2).await["type"], 5);
    let sent = platform.wait_for_calls("/messages/@original", 1).await;
    assert_eq!(
        sent[0]["content"],
        "heard /Summarize\n\\[a message of 8\\]\nthe build is red"
    );
}

#[tokio::test]
async fn a_webhook_body_is_decoded_or_rejected() {
    let state = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(state.path(), webhook::HOOK).await;
    let body = r#"{"text": "cut \ud83d", "instanceKey": "k"}"#;
    let marked = format!("\u{feff}{body}").into_bytes();
    let latin = b"{\"text\": \"gr\xFC\xDFe\", \"instanceKey\": \"k\"}".to_vec();
    let post = async |id: &str, body: &[u8], headers: &[(&'static str, &str)]| -> StatusCode {
        let mut all: Vec<(&str, String)> = webhook::signed(webhook::SECRET, id, 0, body);
        all.extend(
            headers
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        runtime.deliver("hook", &all, body).await.0
    };
    let json = ("content-type", "application/json");
    assert_eq!(post("1", &marked, &[json]).await, StatusCode::ACCEPTED);
    let charset = ("content-type", "application/json; charset=iso-8859-1");
    assert_eq!(post("2", &latin, &[charset]).await, StatusCode::ACCEPTED);
    assert_eq!(
        runtime.wait_for_answers("k", 2).await,
        ["cut \u{fffd}", "grüße"]
    );
    for (body, headers, status) in [
        (&latin[..], vec![json], StatusCode::BAD_REQUEST),
        (b"{\"text\": ", vec![json], StatusCode::BAD_REQUEST),
        (
            &marked,
            vec![("content-encoding", "gzip")],
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (
            &marked[3..],
            vec![("content-type", "text/plain; charset=koi8-r")],
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
    ] {
        assert_eq!(post("3", body, &headers).await, status, "{headers:?}");
    }
    assert_eq!(runtime.swarm.instances().await.len(), 1);
}
