//! Questions of policies in the channel: who may answer them, what is no answer, and restarts.

use axum::http::StatusCode;
use goondan::ports::approval::ApprovalAnswer;
use ring::hmac;
use serde_json::{Value, json};

use crate::platform::{Platform, json};
use crate::support::{Running, within};

const URL: &str = "https://bots.example/connect/bot";

fn bot(base: &str, more: &str) -> String {
    format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: bot}}\nspec:\n  connectorRef: Connector/telegram\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}, webhookUrl: {{value: \"{URL}\"}}}}\n  \
         secrets: {{botToken: {{value: \"123:abc\"}}}}\n  allow: {{senders: [\"7\"], approvers: [\"1\"]}}\n{more}"
    )
}

/// Gives every message the number of the call.
async fn telegram() -> Platform {
    Platform::start(|call| {
        let numbered = call.path.ends_with("sendMessage");
        Some(json(200, json!({"ok": true, "result": if numbered { json!({"message_id": 40}) } else { json!(true) }})))
    })
    .await
}

struct Chat {
    platform: Platform,
    running: Running,
    secret: String,
}

impl Chat {
    async fn start(state: &std::path::Path, platform: Platform, more: &str) -> Chat {
        let running = Running::start(state, &bot(&platform.base, more)).await;
        let told = platform.wait("setWebhook", 1).await;
        let secret = told.last().unwrap()["secret_token"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(told[0]["url"], URL);
        Chat {
            platform,
            running,
            secret,
        }
    }

    async fn deliver_with(&self, secret: &str, update: Value) -> StatusCode {
        let headers = [("x-telegram-bot-api-secret-token", secret.to_owned())];
        self.running
            .deliver("bot", &headers, update.to_string().as_bytes())
            .await
            .0
    }

    async fn say(&self, id: i64, sender: i64, text: &str) -> StatusCode {
        self.deliver_with(&self.secret, said(id, sender, text))
            .await
    }

    /// Presses a button, and gives back what the presser is told.
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
        let told = self.platform.wait("answerCallbackQuery", before + 1).await;
        assert_eq!(told[before]["callback_query_id"], format!("q{id}"));
        told[before]["text"].as_str().unwrap().to_owned()
    }

    /// The buttons of the question that was put last.
    async fn buttons(&self, count: usize) -> [String; 2] {
        let put = self
            .platform
            .until("", |calls| keyboards(calls).len() >= count)
            .await;
        keyboards(&put).pop().unwrap()
    }
}

fn keyboards(calls: &[Value]) -> Vec<[String; 2]> {
    let keys = calls
        .iter()
        .filter_map(|call| call.pointer("/reply_markup/inline_keyboard/0"));
    keys.map(|row| [0, 1].map(|at| row[at]["callback_data"].as_str().unwrap().to_owned()))
        .collect()
}

fn said(id: i64, sender: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id, "text": text, "chat": {"id": 7, "type": "private"},
        "from": {"id": sender, "is_bot": false, "first_name": "Ada"},
    }})
}

#[tokio::test]
async fn who_may_approves_by_a_button_and_nobody_else_does() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    assert_eq!(chat.say(1, 7, "plan it").await, StatusCode::OK);
    let [allow, deny] = chat.buttons(1).await;
    assert!(allow.len() <= 64 && allow != deny, "{allow}");
    assert!(
        chat.press(2, 7, 7, &allow)
            .await
            .starts_with("You can't answer this request."),
        "who has asked"
    );
    assert!(
        chat.press(3, 66, 7, &deny)
            .await
            .starts_with("You can't answer this request."),
        "a stranger"
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
        "nothing has happened so far"
    );
    assert_eq!(chat.press(6, 1, 7, &allow).await, "Allowed.");
    let sent = chat.platform.wait("sendMessage", 2).await;
    assert_eq!(sent[1]["text"], "it is done");
    let closed = chat.platform.wait("editMessageText", 1).await;
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
        "it was answered"
    );
    assert_eq!(
        chat.running.heard("telegram:7").await,
        ["plan it"],
        "no press is a message"
    );
}

#[tokio::test]
async fn a_question_stands_through_a_restart_with_the_same_buttons() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    chat.say(1, 7, "plan it").await;
    let [allow, _] = chat.buttons(1).await;
    let file = state.path().join("w/connections/bot/questions.json");
    within(async {
        while !file.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    chat.running.kill().await;
    let chat = Chat::start(state.path(), telegram().await, "").await;
    assert_eq!(chat.buttons(1).await[0], allow, "the same question");
    assert_eq!(
        chat.platform.calls("sendMessage").len(),
        0,
        "it stands where it stood"
    );
    assert_eq!(chat.press(2, 1, 7, &allow).await, "Allowed.");
    let sent = chat.platform.wait("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "it is done");
    // The message comes again: it has been answered.
    chat.say(1, 7, "plan it").await;
    chat.running.until("bot", |look| look.owed == 0).await;
    assert_eq!(chat.platform.calls("sendMessage").len(), 1);
    assert_eq!(chat.running.heard("telegram:7").await, ["plan it"]);
}

#[tokio::test]
async fn what_has_not_the_secret_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    assert_eq!(chat.secret.len(), 64);
    for secret in ["", "x", &chat.secret[1..], &chat.secret.to_uppercase()] {
        assert_eq!(
            chat.deliver_with(secret, said(1, 7, "x")).await,
            StatusCode::UNAUTHORIZED,
            "{secret}"
        );
    }
    assert_eq!(chat.say(1, 66, "let me in").await, StatusCode::OK);
    let told = chat.platform.wait("sendMessage", 1).await;
    assert!(
        told[0]["text"]
            .as_str()
            .unwrap()
            .starts_with("Sorry, you are not approved yet.")
    );
    assert_eq!(chat.running.swarm.instances().await, []);
}

/// Whoever allows something has seen all of it: what decides may stand at the end of a long argument.
#[tokio::test]
async fn a_question_is_shown_whole_or_cannot_be_allowed() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    let end = "and now\u{202e} the end";
    chat.say(1, 7, &format!("plan at length {}{end}", "x ".repeat(450)))
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
        "the last one has the buttons"
    );
    assert_eq!(chat.press(2, 1, 7, &allow).await, "Allowed.");
    chat.running.until("bot", |look| look.owed == 0).await;
    chat.say(3, 7, &format!("plan without end {}{end}", "x ".repeat(450)))
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

/// Where there are no buttons, who may answers in words; what others write is a message.
#[tokio::test]
async fn on_github_a_question_is_answered_in_words() {
    let state = tempfile::tempdir().unwrap();
    let platform = Platform::start(|_| Some(json(201, json!({"id": 1})))).await;
    let base = &platform.base;
    let hub = format!(
        "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {{name: hub}}\nspec:\n  connectorRef: Connector/github\n  \
         config: {{apiBaseUrl: {{value: \"{base}\"}}}}\n  \
         secrets: {{webhookSecret: {{value: {SECRET}}}, token: {{value: t}}}}\n  allow: {{approvers: [ada]}}\n"
    );
    let running = Running::start(state.path(), &hub).await;
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
            running.deliver("hub", &headers, body.as_bytes()).await.0,
            StatusCode::ACCEPTED
        );
    };
    comment("1", "bob", "plan it").await;
    let put = platform.wait("/comments", 1).await;
    let put = put[0]["body"].as_str().unwrap();
    let mark = put
        .split("/approve ")
        .nth(1)
        .unwrap()
        .split('`')
        .next()
        .unwrap();
    comment("2", "bob", &format!("/approve {mark}")).await;
    comment("3", "ada", "/approve 0123456789abcdef").await;
    let told = platform.wait("/comments", 2).await;
    assert!(
        told[1]["body"]
            .as_str()
            .unwrap()
            .starts_with("This request is no longer open.")
    );
    comment(
        "4",
        "ada",
        &format!("I think that is fine.\n\n/approve {mark}"),
    )
    .await;
    let told = platform
        .until("/comments", |calls| {
            calls.iter().any(|call| is(call, "it is done"))
        })
        .await;
    assert!(told.iter().any(|call| is(call, "Allowed.")), "{told:?}");
    running.until("hub", |look| look.owed == 0).await;
    let heard = running.heard("github:octo/hello#3").await;
    assert_eq!(heard.len(), 2, "what Bob wrote was a message: {heard:?}");
}

fn is(call: &Value, text: &str) -> bool {
    call["body"]
        .as_str()
        .is_some_and(|body| body.starts_with(text))
}

#[tokio::test]
async fn a_request_that_another_client_answers_is_closed_in_the_channel() {
    let state = tempfile::tempdir().unwrap();
    let chat = Chat::start(state.path(), telegram().await, "").await;
    chat.say(1, 7, "plan it").await;
    let [allow, _] = chat.buttons(1).await;
    let file = state.path().join("w/connections/bot/questions.json");
    within(async {
        while !file.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let open = chat.running.broker.open();
    assert_eq!(open.len(), 1);
    assert!(open[0].answer(ApprovalAnswer::ONCE));
    let closed = chat.platform.wait("editMessageText", 1).await;
    let text = closed[0]["text"].as_str().unwrap();
    assert!(
        text.ends_with("This request was answered elsewhere."),
        "{text}"
    );
    assert_eq!(
        chat.press(2, 1, 7, &allow).await,
        "This request is no longer open."
    );
    chat.running.until("bot", |look| look.owed == 0).await;
}

#[tokio::test]
async fn a_request_does_not_wait_for_earlier_answers_of_its_conversation() {
    let state = tempfile::tempdir().unwrap();
    let platform = Platform::start(|call| match call.body["text"].as_str() {
        // The platform never confirms the first answer.
        Some("heard hello") => None,
        _ => Some(json(200, json!({"ok": true, "result": {"message_id": 40}}))),
    })
    .await;
    let chat = Chat::start(state.path(), platform, "").await;
    chat.say(1, 7, "hello").await;
    chat.platform.wait("sendMessage", 1).await;
    chat.say(2, 7, "plan it").await;
    let [allow, _] = chat.buttons(1).await;
    assert_eq!(chat.press(3, 1, 7, &allow).await, "Allowed.");
    assert_eq!(chat.running.look("bot").owed, 2);
}
