//! The A2A door. What the official clients make of it is tested by `ci/a2a`.

use goondan_serve::ServerLimits;
use goondan_serve::client::{ClientError, LocalClient, ServerEvents};
use serde_json::{Value, json};

use crate::support::{Running, within};

/// A request in 1.0: its result, or its error.
async fn ask(running: &Running, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": method, "params": params});
    let mut response: Value = within(running.client.post("/a2a/a", &request))
        .await
        .unwrap();
    assert_eq!(
        (&response["jsonrpc"], &response["id"]),
        (&json!("2.0"), &json!("r")),
        "{response}"
    );
    match response.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(response["result"].take()),
    }
}

fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

async fn send(running: &Running, message: Value) -> Result<Value, Value> {
    ask(running, "SendMessage", json!({"message": message}))
        .await
        .map(|mut result| result["task"].take())
}

async fn begin(running: &Running, message: Value) -> Value {
    let params = json!({"message": message, "configuration": {"returnImmediately": true}});
    ask(running, "SendMessage", params).await.unwrap()["task"].take()
}

async fn stream(running: &Running, method: &str, params: Value) -> ServerEvents {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    running.client.follow("/a2a/a", &request).await.unwrap()
}

/// The next piece of a stream; `None` at its end.
async fn piece(events: &mut ServerEvents) -> Option<Value> {
    let event = within(events.next()).await.unwrap()?;
    let mut response: Value = serde_json::from_str(&event.data).unwrap();
    Some(response["result"].take())
}

async fn pieces(mut events: ServerEvents) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(piece) = piece(&mut events).await {
        all.push(piece);
    }
    all
}

/// The states that a stream tells of.
fn states(pieces: &[Value]) -> Vec<&str> {
    pieces
        .iter()
        .filter_map(|piece| piece["statusUpdate"]["status"]["state"].as_str())
        .collect()
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap()
}

fn answer(task: &Value) -> &Value {
    &task["artifacts"][0]["parts"][0]["text"]
}

/// The code of an error, and the reason that it states.
fn refused(result: Result<Value, Value>) -> (i64, String) {
    let error = result.unwrap_err();
    (
        error["code"].as_i64().unwrap(),
        error["data"][0]["reason"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn a_message_that_is_sent_again_finds_its_task_also_after_a_restart() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let task = send(&running, message("m", "hi")).await.unwrap();
    assert_eq!(
        (state(&task), answer(&task)),
        ("TASK_STATE_COMPLETED", &json!("hi one two"))
    );
    assert_eq!(task["history"][0]["messageId"], "m");
    assert_eq!(send(&running, message("m", "hi")).await.unwrap(), task);
    running.kill().await;
    let running = Running::start(state_root.path()).await;
    assert_eq!(
        ask(&running, "GetTask", json!({"id": task["id"]}))
            .await
            .unwrap(),
        task
    );
    assert_eq!(send(&running, message("m", "hi")).await.unwrap(), task);
    assert_eq!(running.swarm.instances().await.len(), 1);
    // Another message with the same id is another one.
    let other = send(&running, message("m", "ho")).await.unwrap();
    assert_ne!(other["id"], task["id"]);
}

#[tokio::test]
async fn a_task_states_why_its_answer_is_incomplete() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let cut = json!({"finishReason": "length"});
    let task = send(&running, message("m", "half")).await.unwrap();
    assert_eq!((answer(&task), &task["metadata"]), (&json!("a half"), &cut));
    let params = json!({"message": message("n", "half")});
    let pieces = pieces(stream(&running, "SendStreamingMessage", params).await).await;
    let last = &pieces.last().unwrap()["statusUpdate"];
    assert_eq!(
        (&last["status"]["state"], &last["metadata"]),
        (&json!("TASK_STATE_COMPLETED"), &cut)
    );
}

#[tokio::test]
async fn a_context_is_a_conversation() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let with = |id: &str, context: &str| {
        let mut message = message(id, "hi");
        message["contextId"] = context.into();
        message
    };
    // Long keys fit, and so do the ids of their tasks.
    for context in ["main", "main", &*"x".repeat(1_000)] {
        let id = format!("{context}-{}", running.turns().await);
        let task = send(&running, with(&id, context)).await.unwrap();
        assert_eq!(
            (&task["contextId"], state(&task)),
            (&json!(context), "TASK_STATE_COMPLETED")
        );
    }
    assert_eq!(running.turns().await, 2);
    assert_eq!(
        refused(send(&running, with("m", &"x".repeat(2_000))).await),
        (-32602, "INVALID_PARAMS".to_owned())
    );
}

#[tokio::test]
async fn a_stream_brings_the_task_its_answer_and_its_end() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let seen = pieces(
        stream(
            &running,
            "SendStreamingMessage",
            json!({"message": message("m", "hi")}),
        )
        .await,
    )
    .await;
    assert_eq!(seen[0]["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(states(&seen).last(), Some(&"TASK_STATE_COMPLETED"));
    let updates: Vec<&Value> = seen
        .iter()
        .map(|piece| &piece["artifactUpdate"])
        .filter(|it| !it.is_null())
        .collect();
    let text: String = updates
        .iter()
        .filter_map(|it| it["artifact"]["parts"][0]["text"].as_str())
        .collect();
    assert_eq!(text, "hi one two");
    let appended: Vec<_> = updates
        .iter()
        .map(|it| (it["append"].clone(), it["lastChunk"].clone()))
        .collect();
    assert_eq!(appended.first(), Some(&(json!(false), json!(false))));
    assert_eq!(appended.last(), Some(&(json!(true), json!(true))));
    // Sent again, everything is said at once.
    let again = pieces(
        stream(
            &running,
            "SendStreamingMessage",
            json!({"message": message("m", "hi")}),
        )
        .await,
    )
    .await;
    assert_eq!(again.len(), 1);
    assert_eq!(
        (state(&again[0]["task"]), answer(&again[0]["task"])),
        ("TASK_STATE_COMPLETED", &json!("hi one two"))
    );
}

#[tokio::test]
async fn a_task_that_is_cancelled_ends_for_all_who_follow_it() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let task = begin(&running, message("m", "slow")).await;
    let id = json!({"id": task["id"]});
    let mut following = stream(&running, "SubscribeToTask", id.clone()).await;
    assert_eq!(
        piece(&mut following).await.unwrap()["task"]["id"],
        task["id"]
    );
    let mut said_more = message("n", "and?");
    said_more["taskId"] = task["id"].clone();
    assert_eq!(
        refused(send(&running, said_more.clone()).await),
        (-32004, "UNSUPPORTED_OPERATION".to_owned())
    );
    let ended = ask(&running, "CancelTask", id.clone()).await.unwrap();
    assert_eq!(state(&ended), "TASK_STATE_CANCELED");
    assert_eq!(
        states(&pieces(following).await).last(),
        Some(&"TASK_STATE_CANCELED")
    );
    assert_eq!(
        refused(ask(&running, "CancelTask", id.clone()).await),
        (-32002, "TASK_NOT_CANCELABLE".to_owned())
    );
    assert_eq!(
        refused(ask(&running, "SubscribeToTask", id).await).0,
        -32004
    );
    assert_eq!(refused(send(&running, said_more).await).0, -32004);
    // Its conversation goes on.
    let mut next = message("o", "hi");
    next["contextId"] = task["contextId"].clone();
    assert_eq!(
        state(&send(&running, next).await.unwrap()),
        "TASK_STATE_COMPLETED"
    );
}

#[tokio::test]
async fn a_turn_that_fails_says_why() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let task = send(&running, message("m", "break")).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    let words = task["status"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert!(words.starts_with("[E_MODEL_STATUS]"), "{words}");
    assert!(task["artifacts"].is_null());
}

/// An answer in the task of a question.
fn reply(task: &Value, id: &str, part: Value) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "taskId": task["id"], "parts": [part]})
}

#[tokio::test]
async fn a_question_is_answered_by_the_next_message() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let task = send(&running, message("m", "write")).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let asked = &task["status"]["message"]["parts"];
    assert!(
        asked[0]["text"]
            .as_str()
            .unwrap()
            .contains("file-system__write"),
        "{asked}"
    );
    assert_eq!(asked[1]["data"]["arguments"]["path"], "note.txt");
    let following = stream(&running, "SubscribeToTask", json!({"id": task["id"]})).await;
    let asked_again = send(&running, reply(&task, "1", json!({"text": "what?"})))
        .await
        .unwrap();
    assert_eq!(
        asked_again["status"], task["status"],
        "words that are no answer change nothing"
    );
    for (id, wrong) in [
        ("2", json!({"data": {"answer": "perhaps"}})),
        ("3", json!({"data": {"id": "another", "answer": "once"}})),
        (
            "4",
            json!({"data": {"answer": "always", "covers": "program"}}),
        ),
    ] {
        assert_eq!(
            refused(send(&running, reply(&task, id, wrong)).await).0,
            -32602
        );
    }
    let mut elsewhere = reply(&task, "5", json!({"text": "yes"}));
    elsewhere["contextId"] = "main".into();
    assert_eq!(refused(send(&running, elsewhere).await).0, -32602);
    let yes = reply(
        &task,
        "6",
        json!({"data": {"id": asked[1]["data"]["id"], "answer": "once"}}),
    );
    let done = send(&running, yes.clone()).await.unwrap();
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(
        !answer(&done).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
    assert_eq!(
        send(&running, yes).await.unwrap(),
        done,
        "sent again, it is no other message"
    );
    let seen = pieces(following).await;
    assert_eq!(states(&seen).first(), Some(&"TASK_STATE_INPUT_REQUIRED"));
    assert_eq!(states(&seen).last(), Some(&"TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn who_does_not_wait_finds_the_question_later() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let begun = begin(&running, message("m", "write")).await;
    let id = json!({"id": begun["id"]});
    let task = within(async {
        loop {
            let task = ask(&running, "GetTask", id.clone()).await.unwrap();
            if !["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&task)) {
                break task;
            }
        }
    })
    .await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let done = send(&running, reply(&task, "n", json!({"text": "yes"})))
        .await
        .unwrap();
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(
        !answer(&done).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
}

#[tokio::test]
async fn those_who_wait_hear_that_the_swarm_has_ended() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let task = begin(&running, message("m", "slow")).await;
    let mut following = stream(&running, "SubscribeToTask", json!({"id": task["id"]})).await;
    assert!(piece(&mut following).await.is_some());
    let (ended, ()) = tokio::join!(crate::support::all(following), running.kill());
    let last = &ended.last().unwrap().data;
    assert!(
        last.contains("-32603") && last.contains("SWARM_STOPPED"),
        "{last}"
    );
    let running = Running::start(state_root.path()).await;
    let client = LocalClient::for_endpoint(&running.door);
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": "SendMessage", "params": {"message": message("n", "slow")}});
    let waiting = tokio::spawn(async move { client.post::<Value>("/a2a/a", &request).await });
    within(async {
        while !running.broker.has_listeners() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.kill().await;
    let ended = within(waiting).await.unwrap().unwrap();
    assert_eq!(ended["error"]["code"], -32603, "{ended}");
}

#[tokio::test]
async fn a_word_does_not_answer_a_question_that_its_sender_has_not_seen() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let mut live = stream(
        &running,
        "SendStreamingMessage",
        json!({"message": message("m", "write")}),
    )
    .await;
    let mut task = piece(&mut live).await.unwrap()["task"].take();
    let question = loop {
        let seen = piece(&mut live).await.unwrap();
        if let Some(question) =
            seen["statusUpdate"]["status"]["message"]["parts"][1]["data"]["id"].as_str()
        {
            break question.to_owned();
        }
    };
    assert!(
        piece(&mut live).await.is_none(),
        "the one who has sent the message comes back with an answer"
    );
    // Somebody else answers first, and the server begins anew: what was told is forgotten, and the question is asked again.
    running.kill().await;
    let running = Running::start(state_root.path()).await;
    let listening = running.broker.listen();
    let following = stream(&running, "SubscribeToTask", json!({"id": task["id"]})).await;
    within(async {
        while running.broker.open().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let no = reply(
        &task,
        "n",
        json!({"data": {"id": question, "answer": "deny"}}),
    );
    task = send(&running, no).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    assert!(
        answer(&task).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{task}"
    );
    drop((listening, following));
}

#[tokio::test]
async fn the_old_version_says_the_same() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let said = json!({
        "kind": "message", "messageId": "m", "role": "user",
        "parts": [
            {"kind": "text", "text": "hi"},
            {"kind": "file", "file": {"bytes": "R0lGODlh", "mimeType": "image/gif", "name": "a.gif"}},
        ],
    });
    let task = ask(&running, "message/send", json!({"message": said}))
        .await
        .unwrap();
    assert_eq!((&task["kind"], state(&task)), (&json!("task"), "completed"));
    assert_eq!(
        task["artifacts"][0]["parts"][0],
        json!({"kind": "text", "text": "hi one two"})
    );
    assert_eq!(task["history"][0]["role"], "user");
    assert_eq!(task["history"][0]["parts"][1], said["parts"][1]);
    let again = pieces(stream(&running, "message/stream", json!({"message": said})).await).await;
    assert_eq!(again, std::slice::from_ref(&task));
    let mut other = said.clone();
    other["messageId"] = "n".into();
    let seen = pieces(stream(&running, "message/stream", json!({"message": other})).await).await;
    let last = seen.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["final"], state(last)),
        (&json!("status-update"), &json!(true), "completed")
    );
    assert_eq!(
        ask(
            &running,
            "tasks/get",
            json!({"id": task["id"], "historyLength": 0})
        )
        .await
        .unwrap()["history"],
        json!(null)
    );
}

#[tokio::test]
async fn what_can_not_be_done_is_refused_as_the_protocol_has_it() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let url = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"url": "http://127.0.0.1/x", "mediaType": "a/b"}]});
    let push = json!({"message": message("m", "hi"), "configuration": {"taskPushNotificationConfig": {"url": "x"}}});
    for (method, params, wanted) in [
        ("GetTask", json!({"id": "nothing"}), -32001),
        ("GetTask", json!({}), -32602),
        (
            "CancelTask",
            json!({"id": "evt-a2a-000000000000000000000000-WyJhIiwibWFpbiJd"}),
            -32001,
        ),
        ("SendMessage", json!({}), -32602),
        ("SendMessage", json!({"message": message("", "hi")}), -32602),
        ("SendMessage", json!({"message": message("m", " ")}), -32602),
        ("SendMessage", json!({"message": url}), -32005),
        ("SendMessage", push, -32003),
        ("CreateTaskPushNotificationConfig", json!({}), -32003),
        ("tasks/pushNotificationConfig/set", json!({}), -32003),
        ("GetExtendedAgentCard", json!({}), -32004),
        ("ListTasks", json!({"pageSize": 0}), -32602),
        ("ListTasks", json!({"status": "nonsense"}), -32602),
        ("tasks/nothing", json!({}), -32601),
    ] {
        assert_eq!(
            refused(ask(&running, method, params.clone()).await).0,
            wanted,
            "{method} {params}"
        );
    }
    for (body, wanted) in [
        ("{", "-32700"),
        (r#"{"jsonrpc":"2.0","id":"own-7","method":1,}"#, "own-7"),
        ("[]", "-32600"),
        (r#"{"jsonrpc":"2.0","method":"GetTask"}"#, "-32600"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, "-32600"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#,
            "-32602",
        ),
    ] {
        let response = raw(&running, "POST /a2a/a", "", body).await;
        assert!(response.contains(wanted), "{body}: {response}");
    }
    let get = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}"#;
    for (kind, wanted) in [
        ("application/json; charset=utf-8", "-32001"),
        ("application/a2a+json", "-32001"),
        ("text/plain", "-32005"),
        ("application/x-www-form-urlencoded", "-32005"),
    ] {
        let response = raw(
            &running,
            "POST /a2a/a/",
            &format!("Content-Type: {kind}\r\n"),
            get,
        )
        .await;
        assert!(response.contains(wanted), "{kind}: {response}");
    }
    for (version, wanted) in [
        ("1.0", "-32001"),
        ("1.0.1", "-32001"),
        ("0.3", "-32601"),
        ("2.0", "-32009"),
        ("x", "-32009"),
    ] {
        let response = raw(
            &running,
            "POST /a2a/a",
            &format!("A2A-Version: {version}\r\n"),
            get,
        )
        .await;
        assert!(response.contains(wanted), "{version}: {response}");
    }
    assert!(
        raw(&running, "POST /a2a/a?A2A-Version=2.0", "", get)
            .await
            .contains("-32009")
    );
    assert_eq!(running.swarm.instances().await.len(), 0);
}

/// A request as it is, with the token.
async fn raw(running: &Running, what: &str, headers: &str, body: &str) -> String {
    let token = running.door.token.expose();
    let head =
        format!("{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}");
    let tail = format!(
        "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    running.raw(format!("{head}{tail}").as_bytes()).await
}

#[tokio::test]
async fn cards_say_where_agents_are_and_need_the_token() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start_with(
        state_root.path(),
        ServerLimits {
            body: 1_000,
            ..ServerLimits::default()
        },
    )
    .await;
    let entry: Value = running
        .client
        .get("/.well-known/agent-card.json")
        .await
        .unwrap();
    assert_eq!(
        entry,
        running
            .client
            .get::<Value>("/a2a/a/.well-known/agent-card.json")
            .await
            .unwrap()
    );
    let url = format!("http://{}/a2a/a", running.address);
    assert_eq!((&entry["name"], &entry["url"]), (&json!("a"), &json!(url)));
    assert_eq!(
        entry["supportedInterfaces"][0],
        json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"})
    );
    assert_eq!(entry["security"], json!([{"bearer": []}]));
    let new = raw(
        &running,
        "GET /.well-known/agent-card.json",
        "A2A-Version: 1.0\r\n",
        "",
    )
    .await;
    let new: Value = serde_json::from_str(new.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(
        new["url"].is_null() && new["protocolVersion"].is_null(),
        "{new}"
    );
    assert_eq!(
        new["securitySchemes"],
        json!({"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}})
    );
    assert_eq!(new["supportedInterfaces"][1]["protocolVersion"], "0.3");
    let card = raw(&running, "GET /.well-known/agent-card.json", "", "")
        .await
        .to_lowercase();
    let tag = card
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    for (tags, wanted) in [
        (tag, "304"),
        (&*format!("\"x\", W/{tag}"), "304"),
        ("\"x\"", "200"),
    ] {
        let again = raw(
            &running,
            "GET /.well-known/agent-card.json",
            &format!("If-None-Match: {tags}\r\n"),
            "",
        )
        .await;
        assert!(
            again.starts_with(&format!("HTTP/1.1 {wanted}")),
            "{tags}: {again}"
        );
    }
    let proxied = raw(
        &running,
        "GET /.well-known/agent-card.json",
        "X-Forwarded-Proto: https\r\n",
        "",
    )
    .await;
    assert!(proxied.contains("\"https://localhost/a2a/a\""), "{proxied}");
    for path in [
        "/.well-known/agent-card.json",
        "/a2a/a/.well-known/agent-card.json",
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let refused = running.raw(request.as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
    let card = running
        .client
        .get::<Value>("/a2a/default/.well-known/agent-card.json")
        .await;
    assert_eq!(card.unwrap()["skills"][0]["id"], "a");
    let Err(ClientError::Refused(unknown)) = running
        .client
        .get::<Value>("/a2a/b/.well-known/agent-card.json")
        .await
    else {
        panic!("there is no such agent");
    };
    assert_eq!(unknown.code, "AGENT_NOT_FOUND");
    let large = raw(&running, "POST /a2a/a", "", &"x".repeat(2_000)).await;
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
}

#[tokio::test]
async fn tasks_are_listed_page_by_page() {
    let state_root = tempfile::tempdir().unwrap();
    let running = Running::start(state_root.path()).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.insert(
            0,
            send(&running, message(&number.to_string(), "hi"))
                .await
                .unwrap()["id"]
                .take(),
        );
    }
    // Inputs that came elsewhere are no tasks.
    running.ask("hi").await;
    let (mut listed, mut token) = (Vec::new(), String::new());
    loop {
        let page = ask(
            &running,
            "ListTasks",
            json!({"pageSize": 2, "pageToken": token}),
        )
        .await
        .unwrap();
        assert_eq!(page["totalSize"], 3);
        listed.extend(
            page["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["id"].clone()),
        );
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, ids);
    let first = ask(&running, "GetTask", json!({"id": ids[0]}))
        .await
        .unwrap();
    let since = json!({"statusTimestampAfter": first["status"]["timestamp"]});
    let latest = ask(&running, "ListTasks", since).await.unwrap();
    assert_eq!(
        latest["tasks"][0]["id"], ids[0],
        "it is among those since its own time"
    );
    let named = json!({"page_size": 1, "context_id": first["contextId"]});
    assert_eq!(
        ask(&running, "ListTasks", named).await.unwrap()["totalSize"],
        1,
        "names of the definition are understood"
    );
    let working = ask(
        &running,
        "ListTasks",
        json!({"status": "TASK_STATE_WORKING"}),
    )
    .await
    .unwrap();
    assert_eq!(working["tasks"], json!([]));
}
