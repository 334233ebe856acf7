//! The A2A endpoint. `ci/a2a` tests it with the official clients.

use goondan_serve::ServerLimits;
use goondan_serve::client::{ClientError, LocalClient, ServerEvents};
use serde_json::{Value, json};

use crate::support::{TestServer, with_timeout};

/// Sends a JSON-RPC request of protocol version 1.0. Returns its result or its error.
async fn call(server: &TestServer, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": method, "params": params});
    let mut response: Value = with_timeout(server.client.post("/a2a/a", &request))
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

async fn send(server: &TestServer, message: Value) -> Result<Value, Value> {
    call(server, "SendMessage", json!({"message": message}))
        .await
        .map(|mut result| result["task"].take())
}

async fn begin(server: &TestServer, message: Value) -> Value {
    let params = json!({"message": message, "configuration": {"returnImmediately": true}});
    call(server, "SendMessage", params).await.unwrap()["task"].take()
}

async fn stream(server: &TestServer, method: &str, params: Value) -> ServerEvents {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    server.client.follow("/a2a/a", &request).await.unwrap()
}

/// Returns the next event of a stream; `None` at its end.
async fn piece(events: &mut ServerEvents) -> Option<Value> {
    let event = with_timeout(events.next()).await.unwrap()?;
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

/// Returns the task states in a stream.
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

/// Returns the code and the reason of an error.
fn refused(result: Result<Value, Value>) -> (i64, String) {
    let error = result.unwrap_err();
    (
        error["code"].as_i64().unwrap(),
        error["data"][0]["reason"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn a_repeated_message_finds_its_task_after_a_restart() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let task = send(&server, message("m", "hi")).await.unwrap();
    assert_eq!(
        (state(&task), answer(&task)),
        ("TASK_STATE_COMPLETED", &json!("hi one two"))
    );
    assert_eq!(task["history"][0]["messageId"], "m");
    assert_eq!(send(&server, message("m", "hi")).await.unwrap(), task);
    server.kill().await;
    let server = TestServer::start(state_root.path()).await;
    assert_eq!(
        call(&server, "GetTask", json!({"id": task["id"]}))
            .await
            .unwrap(),
        task
    );
    assert_eq!(send(&server, message("m", "hi")).await.unwrap(), task);
    assert_eq!(server.swarm.instances().await.len(), 1);
    // A different message with the same id starts another task.
    let other = send(&server, message("m", "ho")).await.unwrap();
    assert_ne!(other["id"], task["id"]);
}

#[tokio::test]
async fn a_task_states_why_its_answer_is_incomplete() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let cut = json!({"finishReason": "length"});
    let task = send(&server, message("m", "half")).await.unwrap();
    assert_eq!((answer(&task), &task["metadata"]), (&json!("a half"), &cut));
    let params = json!({"message": message("n", "half")});
    let pieces = pieces(stream(&server, "SendStreamingMessage", params).await).await;
    let last = &pieces.last().unwrap()["statusUpdate"];
    assert_eq!(
        (&last["status"]["state"], &last["metadata"]),
        (&json!("TASK_STATE_COMPLETED"), &cut)
    );
}

#[tokio::test]
async fn a_context_id_selects_a_conversation() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let with = |id: &str, context: &str| {
        let mut message = message(id, "hi");
        message["contextId"] = context.into();
        message
    };
    // Keys of 1,000 characters and the task ids derived from them are accepted.
    for context in ["main", "main", &*"x".repeat(1_000)] {
        let id = format!("{context}-{}", server.user_message_count().await);
        let task = send(&server, with(&id, context)).await.unwrap();
        assert_eq!(
            (&task["contextId"], state(&task)),
            (&json!(context), "TASK_STATE_COMPLETED")
        );
    }
    assert_eq!(server.user_message_count().await, 2);
    assert_eq!(
        refused(send(&server, with("m", &"x".repeat(2_000))).await),
        (-32602, "INVALID_PARAMS".to_owned())
    );
}

#[tokio::test]
async fn a_stream_contains_the_task_its_answer_and_its_end() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let seen = pieces(
        stream(
            &server,
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
    // A repeated message gets the finished task in one event.
    let again = pieces(
        stream(
            &server,
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
async fn a_cancelled_task_ends_for_all_subscribers() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let task = begin(&server, message("m", "slow")).await;
    let id = json!({"id": task["id"]});
    let mut following = stream(&server, "SubscribeToTask", id.clone()).await;
    assert_eq!(
        piece(&mut following).await.unwrap()["task"]["id"],
        task["id"]
    );
    let mut follow_up = message("n", "and?");
    follow_up["taskId"] = task["id"].clone();
    assert_eq!(
        refused(send(&server, follow_up.clone()).await),
        (-32004, "UNSUPPORTED_OPERATION".to_owned())
    );
    let ended = call(&server, "CancelTask", id.clone()).await.unwrap();
    assert_eq!(state(&ended), "TASK_STATE_CANCELED");
    assert_eq!(
        states(&pieces(following).await).last(),
        Some(&"TASK_STATE_CANCELED")
    );
    assert_eq!(
        refused(call(&server, "CancelTask", id.clone()).await),
        (-32002, "TASK_NOT_CANCELABLE".to_owned())
    );
    assert_eq!(
        refused(call(&server, "SubscribeToTask", id).await).0,
        -32004
    );
    assert_eq!(refused(send(&server, follow_up).await).0, -32004);
    // The conversation accepts further messages.
    let mut next = message("o", "hi");
    next["contextId"] = task["contextId"].clone();
    assert_eq!(
        state(&send(&server, next).await.unwrap()),
        "TASK_STATE_COMPLETED"
    );
}

#[tokio::test]
async fn a_failed_turn_reports_its_error() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let task = send(&server, message("m", "break")).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    let text = task["status"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert!(text.starts_with("[E_MODEL_STATUS]"), "{text}");
    assert!(task["artifacts"].is_null());
}

/// Returns a message with one part for the task of an approval request.
fn reply(task: &Value, id: &str, part: Value) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "taskId": task["id"], "parts": [part]})
}

#[tokio::test]
async fn an_approval_request_is_answered_by_the_next_message() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let task = send(&server, message("m", "write")).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let request = &task["status"]["message"]["parts"];
    assert!(
        request[0]["text"]
            .as_str()
            .unwrap()
            .contains("file-system__write"),
        "{request}"
    );
    assert_eq!(request[1]["data"]["arguments"]["path"], "note.txt");
    let following = stream(&server, "SubscribeToTask", json!({"id": task["id"]})).await;
    let still_open = send(&server, reply(&task, "1", json!({"text": "what?"})))
        .await
        .unwrap();
    assert_eq!(
        still_open["status"], task["status"],
        "an unclear text does not answer the request"
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
            refused(send(&server, reply(&task, id, wrong)).await).0,
            -32602
        );
    }
    let mut elsewhere = reply(&task, "5", json!({"text": "yes"}));
    elsewhere["contextId"] = "main".into();
    assert_eq!(refused(send(&server, elsewhere).await).0, -32602);
    let yes = reply(
        &task,
        "6",
        json!({"data": {"id": request[1]["data"]["id"], "answer": "once"}}),
    );
    let done = send(&server, yes.clone()).await.unwrap();
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(
        !answer(&done).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
    assert_eq!(
        send(&server, yes).await.unwrap(),
        done,
        "a repeated message has no further effect"
    );
    let seen = pieces(following).await;
    assert_eq!(states(&seen).first(), Some(&"TASK_STATE_INPUT_REQUIRED"));
    assert_eq!(states(&seen).last(), Some(&"TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn an_approval_request_is_found_by_polling() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let begun = begin(&server, message("m", "write")).await;
    let id = json!({"id": begun["id"]});
    let task = with_timeout(async {
        loop {
            let task = call(&server, "GetTask", id.clone()).await.unwrap();
            if !["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&task)) {
                break task;
            }
        }
    })
    .await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    let done = send(&server, reply(&task, "n", json!({"text": "yes"})))
        .await
        .unwrap();
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(
        !answer(&done).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
}

#[tokio::test]
async fn waiting_clients_receive_an_error_when_the_swarm_ends() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let task = begin(&server, message("m", "slow")).await;
    let mut following = stream(&server, "SubscribeToTask", json!({"id": task["id"]})).await;
    assert!(piece(&mut following).await.is_some());
    let (ended, ()) = tokio::join!(crate::support::all(following), server.kill());
    let last = &ended.last().unwrap().data;
    assert!(
        last.contains("-32603") && last.contains("SWARM_STOPPED"),
        "{last}"
    );
    let server = TestServer::start(state_root.path()).await;
    let client = LocalClient::for_endpoint(&server.endpoint);
    let request = json!({"jsonrpc": "2.0", "id": "r", "method": "SendMessage", "params": {"message": message("n", "slow")}});
    let waiting = tokio::spawn(async move { client.post::<Value>("/a2a/a", &request).await });
    with_timeout(async {
        while !server.broker.has_listeners() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.kill().await;
    let ended = with_timeout(waiting).await.unwrap().unwrap();
    assert_eq!(ended["error"]["code"], -32603, "{ended}");
}

#[tokio::test]
async fn an_approval_request_can_be_answered_after_a_restart() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let mut live = stream(
        &server,
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
        "the stream ends with the approval request"
    );
    // After a restart, the server opens the same approval request again.
    server.kill().await;
    let server = TestServer::start(state_root.path()).await;
    let listening = server.broker.listen();
    let following = stream(&server, "SubscribeToTask", json!({"id": task["id"]})).await;
    with_timeout(async {
        while server.broker.open().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let no = reply(
        &task,
        "n",
        json!({"data": {"id": question, "answer": "deny"}}),
    );
    task = send(&server, no).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    assert!(
        answer(&task).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{task}"
    );
    drop((listening, following));
}

#[tokio::test]
async fn a_word_does_not_answer_an_approval_request_that_no_client_has_seen() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let task = send(&server, message("m", "write")).await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    // After a restart, the server opens the approval request again and has shown it to no client.
    server.kill().await;
    let server = TestServer::start(state_root.path()).await;
    let listening = server.broker.listen();
    with_timeout(async {
        while server.broker.open().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let still_open = send(&server, reply(&task, "1", json!({"text": "yes"})))
        .await
        .unwrap();
    assert_eq!(state(&still_open), "TASK_STATE_INPUT_REQUIRED");
    // The returned task shows the request, so that a word answers it.
    let done = send(&server, reply(&task, "2", json!({"text": "no"})))
        .await
        .unwrap();
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(
        answer(&done).as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
    drop(listening);
}

#[tokio::test]
async fn protocol_version_0_3_returns_equivalent_tasks() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let sent = json!({
        "kind": "message", "messageId": "m", "role": "user",
        "parts": [
            {"kind": "text", "text": "hi"},
            {"kind": "file", "file": {"bytes": "R0lGODlh", "mimeType": "image/gif", "name": "a.gif"}},
        ],
    });
    let task = call(&server, "message/send", json!({"message": sent}))
        .await
        .unwrap();
    assert_eq!((&task["kind"], state(&task)), (&json!("task"), "completed"));
    assert_eq!(
        task["artifacts"][0]["parts"][0],
        json!({"kind": "text", "text": "hi one two"})
    );
    assert_eq!(task["history"][0]["role"], "user");
    assert_eq!(task["history"][0]["parts"][1], sent["parts"][1]);
    let again = pieces(stream(&server, "message/stream", json!({"message": sent})).await).await;
    assert_eq!(again, std::slice::from_ref(&task));
    let mut other = sent.clone();
    other["messageId"] = "n".into();
    let seen = pieces(stream(&server, "message/stream", json!({"message": other})).await).await;
    let last = seen.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["final"], state(last)),
        (&json!("status-update"), &json!(true), "completed")
    );
    assert_eq!(
        call(
            &server,
            "tasks/get",
            json!({"id": task["id"], "historyLength": 0})
        )
        .await
        .unwrap()["history"],
        json!(null)
    );
}

#[tokio::test]
async fn unsupported_requests_return_protocol_errors() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let url = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"url": "http://127.0.0.1/x", "mediaType": "a/b"}]});
    let push = json!({"message": message("m", "hi"), "configuration": {"taskPushNotificationConfig": {"url": "x"}}});
    for (method, params, expected) in [
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
            refused(call(&server, method, params.clone()).await).0,
            expected,
            "{method} {params}"
        );
    }
    for (body, expected) in [
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
        let response = raw(&server, "POST /a2a/a", "", body).await;
        assert!(response.contains(expected), "{body}: {response}");
    }
    let get = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}"#;
    for (kind, expected) in [
        ("application/json; charset=utf-8", "-32001"),
        ("application/a2a+json", "-32001"),
        ("text/plain", "-32005"),
        ("application/x-www-form-urlencoded", "-32005"),
    ] {
        let response = raw(
            &server,
            "POST /a2a/a/",
            &format!("Content-Type: {kind}\r\n"),
            get,
        )
        .await;
        assert!(response.contains(expected), "{kind}: {response}");
    }
    for (version, expected) in [
        ("1.0", "-32001"),
        ("1.0.1", "-32001"),
        ("0.3", "-32601"),
        ("2.0", "-32009"),
        ("x", "-32009"),
    ] {
        let response = raw(
            &server,
            "POST /a2a/a",
            &format!("A2A-Version: {version}\r\n"),
            get,
        )
        .await;
        assert!(response.contains(expected), "{version}: {response}");
    }
    assert!(
        raw(&server, "POST /a2a/a?A2A-Version=2.0", "", get)
            .await
            .contains("-32009")
    );
    assert_eq!(server.swarm.instances().await.len(), 0);
}

/// Sends a raw request with the token. Returns the whole response.
async fn raw(server: &TestServer, line: &str, headers: &str, body: &str) -> String {
    let token = server.endpoint.token.expose();
    let head =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}");
    let tail = format!(
        "Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    server.raw(format!("{head}{tail}").as_bytes()).await
}

#[tokio::test]
async fn agent_cards_state_urls_and_require_the_token() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start_with(
        state_root.path(),
        ServerLimits {
            body: 1_000,
            ..ServerLimits::default()
        },
    )
    .await;
    let entry: Value = server
        .client
        .get("/.well-known/agent-card.json")
        .await
        .unwrap();
    assert_eq!(
        entry,
        server
            .client
            .get::<Value>("/a2a/a/.well-known/agent-card.json")
            .await
            .unwrap()
    );
    let url = format!("http://{}/a2a/a", server.address);
    assert_eq!((&entry["name"], &entry["url"]), (&json!("a"), &json!(url)));
    assert_eq!(
        entry["supportedInterfaces"][0],
        json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"})
    );
    assert_eq!(entry["security"], json!([{"bearer": []}]));
    let new = raw(
        &server,
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
    let card = raw(&server, "GET /.well-known/agent-card.json", "", "")
        .await
        .to_lowercase();
    let tag = card
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    for (tags, expected) in [
        (tag, "304"),
        (&*format!("\"x\", W/{tag}"), "304"),
        ("\"x\"", "200"),
    ] {
        let again = raw(
            &server,
            "GET /.well-known/agent-card.json",
            &format!("If-None-Match: {tags}\r\n"),
            "",
        )
        .await;
        assert!(
            again.starts_with(&format!("HTTP/1.1 {expected}")),
            "{tags}: {again}"
        );
    }
    let proxied = raw(
        &server,
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
        let refused = server.raw(request.as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
    let card = server
        .client
        .get::<Value>("/a2a/default/.well-known/agent-card.json")
        .await;
    assert_eq!(card.unwrap()["skills"][0]["id"], "a");
    let Err(ClientError::Refused(unknown)) = server
        .client
        .get::<Value>("/a2a/b/.well-known/agent-card.json")
        .await
    else {
        panic!("the unknown agent was found");
    };
    assert_eq!(unknown.code, "AGENT_NOT_FOUND");
    let large = raw(&server, "POST /a2a/a", "", &"x".repeat(2_000)).await;
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
}

#[tokio::test]
async fn tasks_are_listed_page_by_page() {
    let state_root = tempfile::tempdir().unwrap();
    let server = TestServer::start(state_root.path()).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.insert(
            0,
            send(&server, message(&number.to_string(), "hi"))
                .await
                .unwrap()["id"]
                .take(),
        );
    }
    // Inputs of other interfaces are not A2A tasks.
    server.run_turn("hi").await;
    let (mut listed, mut token) = (Vec::new(), String::new());
    loop {
        let page = call(
            &server,
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
    let first = call(&server, "GetTask", json!({"id": ids[0]}))
        .await
        .unwrap();
    let since = json!({"statusTimestampAfter": first["status"]["timestamp"]});
    let latest = call(&server, "ListTasks", since).await.unwrap();
    assert_eq!(
        latest["tasks"][0]["id"], ids[0],
        "`statusTimestampAfter` includes tasks with the same timestamp"
    );
    let named = json!({"page_size": 1, "context_id": first["contextId"]});
    assert_eq!(
        call(&server, "ListTasks", named).await.unwrap()["totalSize"],
        1,
        "snake case field names are accepted"
    );
    let working = call(
        &server,
        "ListTasks",
        json!({"status": "TASK_STATE_WORKING"}),
    )
    .await
    .unwrap();
    assert_eq!(working["tasks"], json!([]));
}
