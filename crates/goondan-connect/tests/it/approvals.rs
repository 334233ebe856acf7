//! Approval requests in a channel: approvers, invalid answers, and restarts.

use axum::http::StatusCode;
use goondan::ports::approval::ApprovalAnswer;
use ring::hmac;
use serde_json::{Value, json};

use crate::mock_platform::{MockPlatform, json};
use crate::support::{TestRuntime, with_timeout};

const URL: &str = "https://bots.example/connect/bot";

fn bot(base: &str, more: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}, webhookUrl: {{value: \"{URL}\"}}}}\n  \
         secrets: {{botToken: {{value: \"123:abc\"}}}}\n  allow: {{senders: [\"7\"], approvers: [\"1\"]}}\n{more}"
    )
}

/// Starts a Telegram mock that gives every message the id 40.
async fn telegram() -> MockPlatform {
    MockPlatform::start(|call| {
        let numbered = call.path.ends_with("sendMessage");
        Some(json(200, json!({"ok": true, "result": if numbered { json!({"message_id": 40}) } else { json!(true) }})))
    })
    .await
}

/// Chat 7 with a bot that receives webhook updates.
struct Chat {
    platform: MockPlatform,
    runtime: TestRuntime,
    secret: String,
}

impl Chat {
    async fn start(state: &std::path::Path, platform: MockPlatform, more: &str) -> Chat {
        let runtime = TestRuntime::start(state, &bot(&platform.base, more)).await;
        let calls = platform.wait_for_calls("setWebhook", 1).await;
        let secret = calls.last().unwrap()["secret_token"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(calls[0]["url"], URL);
        Chat {
            platform,
            runtime,
            secret,
        }
    }

    async fn deliver_with(&self, secret: &str, update: Value) -> StatusCode {
        let headers = [("x-telegram-bot-api-secret-token", secret.to_owned())];
        self.runtime
            .deliver("bot", &headers, update.to_string().as_bytes())
            .await
            .0
    }

    async fn send_message(&self, id: i64, sender: i64, text: &str) -> StatusCode {
        self.deliver_with(&self.secret, user_update(id, sender, text))
            .await
    }

    /// Presses a button. Returns the notice for the user who pressed it.
    async fn press(&self, id: i64, sender: i64, chat: i64, data: &str) -> String {
        let before = self.platform.calls("answerCallbackQuery").len();
        let update = json!({"update_id": id, "callback_query": {
            "id": format!("q{id}"), "data": data, "from": {"id": sender, "first_name": "Eve"},
            "message": {"message_id": 40, "chat": {"id": chat}},
        }});
        assert_eq!(
            self.deliver_with(&self.secret, update).await,
            StatusCode::OK
        );
        let notices = self
            .platform
            .wait_for_calls("answerCallbackQuery", before + 1)
            .await;
        assert_eq!(notices[before]["callback_query_id"], format!("q{id}"));
        notices[before]["text"].as_str().unwrap().to_owned()
    }

    /// Waits for `count` approval requests. Returns the button data of the last one.
    async fn buttons(&self, count: usize) -> [String; 2] {
        let requests = self
            .platform
            .wait_until("", |calls| keyboards(calls).len() >= count)
            .await;
        keyboards(&requests).pop().unwrap()
    }
}

fn keyboards(calls: &[Value]) -> Vec<[String; 2]> {
    let keys = calls
        .iter()
        .filter_map(|call| call.pointer("/reply_markup/inline_keyboard/0"));
    keys.map(|row| [0, 1].map(|at| row[at]["callback_data"].as_str().unwrap().to_owned()))
        .collect()
}

fn user_update(id: i64, sender: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id, "text": text, "chat": {"id": 7, "type": "private"},
        "from": {"id": sender, "is_bot": false, "first_name": "Ada"},
    }})
}

#[tokio::test]
async fn only_approvers_can_answer_with_buttons() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    assert_eq!(chat.send_message(1, 7, "plan it").await, StatusCode::OK);
    let [allow, deny] = chat.buttons(1).await;
    assert!(allow.len() <= 64 && allow != deny, "{allow}");
    assert!(
        chat.press(2, 7, 7, &allow)
            .await
            .starts_with("You can't answer this request."),
        "the sender of the message is not an approver"
    );
    assert!(
        chat.press(3, 66, 7, &deny)
            .await
            .starts_with("You can't answer this request."),
        "an unknown user is not an approver"
    );
    assert_eq!(
        chat.press(4, 1, 99, &allow).await,
        "This request is no longer open.",
        "another chat"
    );
    assert_eq!(
        chat.press(5, 1, 7, "gdn:allow:0123456789abcdef").await,
        "This request is no longer open.",
        "forged"
    );
    assert_eq!(
        chat.platform.calls("sendMessage").len(),
        1,
        "no press has had an effect yet"
    );
    assert_eq!(chat.press(6, 1, 7, &allow).await, "Allowed.");
    let sent = chat.platform.wait_for_calls("sendMessage", 2).await;
    assert_eq!(sent[1]["text"], "it is done");
    let closed = chat.platform.wait_for_calls("editMessageText", 1).await;
    assert!(
        closed[0]["text"]
            .as_str()
            .unwrap()
            .ends_with("Allowed by Eve."),
        "{closed:?}"
    );
    assert_eq!(closed[0]["reply_markup"], Value::Null);
    assert_eq!(
        chat.press(7, 1, 7, &deny).await,
        "This request is no longer open.",
        "the request is already answered"
    );
    assert_eq!(
        chat.runtime.user_messages("telegram:7").await,
        ["plan it"],
        "a press is not a message"
    );
}

#[tokio::test]
async fn an_approval_request_keeps_its_buttons_after_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    chat.send_message(1, 7, "plan it").await;
    let [allow, _] = chat.buttons(1).await;
    let file = state.path().join("w/connections/bot/questions.json");
    with_timeout(async {
        while !file.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    chat.runtime.kill().await;
    let chat = Chat::start(state.path(), telegram().await, "").await;
    assert_eq!(chat.buttons(1).await[0], allow, "the same request");
    assert_eq!(
        chat.platform.calls("sendMessage").len(),
        0,
        "the message from before the restart is reused"
    );
    assert_eq!(chat.press(2, 1, 7, &allow).await, "Allowed.");
    let sent = chat.platform.wait_for_calls("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "it is done");
    // A repeated message, which is already answered, has no effect.
    chat.send_message(1, 7, "plan it").await;
    chat.runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    assert_eq!(chat.platform.calls("sendMessage").len(), 1);
    assert_eq!(chat.runtime.user_messages("telegram:7").await, ["plan it"]);
}

#[tokio::test]
async fn updates_without_the_webhook_secret_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    assert_eq!(chat.secret.len(), 64);
    for secret in ["", "x", &chat.secret[1..], &chat.secret.to_uppercase()] {
        assert_eq!(
            chat.deliver_with(secret, user_update(1, 7, "x")).await,
            StatusCode::UNAUTHORIZED,
            "{secret}"
        );
    }
    assert_eq!(chat.send_message(1, 66, "let me in").await, StatusCode::OK);
    let notices = chat.platform.wait_for_calls("sendMessage", 1).await;
    assert!(
        notices[0]["text"]
            .as_str()
            .unwrap()
            .starts_with("Sorry, you are not approved yet.")
    );
    assert_eq!(chat.runtime.swarm.instances().await, []);
}

/// Approvers must see the complete arguments, because the end of a long argument may be decisive.
#[tokio::test]
async fn an_approval_request_is_shown_completely_or_cannot_be_allowed() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    let end = "and now\u{202e} the end";
    chat.send_message(1, 7, &format!("plan at length {}{end}", "x ".repeat(450)))
        .await;
    let [allow, _] = chat.buttons(1).await;
    let sent = chat.platform.calls("sendMessage");
    let texts: Vec<&str> = sent
        .iter()
        .map(|call| call["text"].as_str().unwrap())
        .collect();
    assert!(
        texts.len() > 2 && texts[0].starts_with("Reason for the request:"),
        "{texts:?}"
    );
    assert!(
        texts.last().unwrap().contains("and now\\u{202e} the end"),
        "{texts:?}"
    );
    assert!(
        sent[..sent.len() - 1]
            .iter()
            .all(|call| call["reply_markup"].is_null()),
        "only the last message has buttons"
    );
    assert_eq!(chat.press(2, 1, 7, &allow).await, "Allowed.");
    chat.runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
    chat.send_message(3, 7, &format!("plan without end {}{end}", "x ".repeat(450)))
        .await;
    let [allow, deny] = chat.buttons(2).await;
    assert!(
        chat.press(4, 1, 7, &allow)
            .await
            .starts_with("This request is too long")
    );
    assert_eq!(chat.press(5, 1, 7, &deny).await, "Denied.");
}

const SECRET: &str = "0123456789abcdef0123";

/// Without buttons, approvers answer with comments. Comments of other users are messages.
#[tokio::test]
async fn a_github_approval_request_is_answered_with_a_comment() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|_| Some(json(201, json!({"id": 1})))).await;
    let base = &platform.base;
    let hub = format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: hub}}\nspec:\n  connectorRef: Connector/github\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  \
         secrets: {{webhookSecret: {{value: {SECRET}}}, token: {{value: t}}}}\n  allow: {{approvers: [ada]}}\n"
    );
    let runtime = TestRuntime::start(state.path(), &hub).await;
    let comment = async |id: &str, login: &str, text: &str| {
        let body = json!({
            "action": "created", "issue": {"number": 3, "title": "t"}, "comment": {"body": text, "user": {"login": login}},
            "repository": {"full_name": "octo/hello"}, "sender": {"login": login, "type": "User"},
        })
        .to_string();
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()),
            body.as_bytes(),
        );
        let hex: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let headers = [
            ("x-hub-signature-256", format!("sha256={hex}")),
            ("x-github-delivery", id.to_owned()),
            ("x-github-event", "issue_comment".to_owned()),
        ];
        assert_eq!(
            runtime.deliver("hub", &headers, body.as_bytes()).await.0,
            StatusCode::ACCEPTED
        );
    };
    comment("1", "bob", "plan it").await;
    let request = platform.wait_for_calls("/comments", 1).await;
    let request = request[0]["body"].as_str().unwrap();
    let code = request
        .split("/approve ")
        .nth(1)
        .unwrap()
        .split('`')
        .next()
        .unwrap();
    comment("2", "bob", &format!("/approve {code}")).await;
    comment("3", "ada", "/approve 0123456789abcdef").await;
    let comments = platform.wait_for_calls("/comments", 2).await;
    assert!(
        comments[1]["body"]
            .as_str()
            .unwrap()
            .starts_with("This request is no longer open.")
    );
    comment(
        "4",
        "ada",
        &format!("I think that is fine.\n\n/approve {code}"),
    )
    .await;
    let comments = platform
        .wait_until("/comments", |calls| {
            calls.iter().any(|call| starts_with(call, "it is done"))
        })
        .await;
    assert!(
        comments.iter().any(|call| starts_with(call, "Allowed.")),
        "{comments:?}"
    );
    runtime
        .wait_until("hub", |snapshot| snapshot.owed == 0)
        .await;
    let messages = runtime.user_messages("github:octo/hello#3").await;
    assert_eq!(
        messages.len(),
        2,
        "comments of Bob are messages: {messages:?}"
    );
}

fn starts_with(call: &Value, text: &str) -> bool {
    call["body"]
        .as_str()
        .is_some_and(|body| body.starts_with(text))
}

#[tokio::test]
async fn a_request_answered_by_another_client_is_closed_in_the_channel() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    chat.send_message(1, 7, "plan it").await;
    let [allow, _] = chat.buttons(1).await;
    let file = state.path().join("w/connections/bot/questions.json");
    with_timeout(async {
        while !file.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let open = chat.runtime.broker.open();
    assert_eq!(open.len(), 1);
    assert!(open[0].answer(ApprovalAnswer::ONCE));
    let closed = chat.platform.wait_for_calls("editMessageText", 1).await;
    let text = closed[0]["text"].as_str().unwrap();
    assert!(
        text.ends_with("This request was answered elsewhere."),
        "{text}"
    );
    assert_eq!(
        chat.press(2, 1, 7, &allow).await,
        "This request is no longer open."
    );
    chat.runtime
        .wait_until("bot", |snapshot| snapshot.owed == 0)
        .await;
}

#[tokio::test]
async fn an_approval_request_does_not_wait_for_earlier_answers() {
    let state = tempfile::tempdir().unwrap();
    let platform = MockPlatform::start(|call| match call.body["text"].as_str() {
        // The platform never confirms the first answer.
        Some("heard hello") => None,
        _ => Some(json(200, json!({"ok": true, "result": {"message_id": 40}}))),
    })
    .await;
    let chat = Chat::start(state.path(), platform, "").await;
    chat.send_message(1, 7, "hello").await;
    chat.platform.wait_for_calls("sendMessage", 1).await;
    chat.send_message(2, 7, "plan it").await;
    let [allow, _] = chat.buttons(1).await;
    assert_eq!(chat.press(3, 1, 7, &allow).await, "Allowed.");
    assert_eq!(chat.runtime.snapshot("bot").owed, 2);
}
