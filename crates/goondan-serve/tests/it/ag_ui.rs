//! The AG-UI endpoint. `ci/a2a` tests it with the official client.

use goondan::ids::InstanceId;
use goondan::message::MessageRole;
use goondan_serve::client::ClientError;
use serde_json::{Value, json};

use crate::support::{TestServer, all};

fn input(run: &str, text: &str) -> Value {
    json!({
        "threadId": "t", "runId": run, "messages": [{"id": format!("m-{run}"), "role": "user", "content": text}],
        "tools": [], "context": [], "state": {}, "forwardedProps": {},
    })
}

async fn run(server: &TestServer, input: Value) -> Vec<Value> {
    let events = all(server.client.follow("/ag-ui/a", &input).await.unwrap()).await;
    events
        .iter()
        .map(|event| serde_json::from_str(&event.data).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

async fn texts(server: &TestServer, role: MessageRole) -> Vec<String> {
    let messages = server
        .swarm
        .conversation(&InstanceId::new("a", "t"))
        .await
        .unwrap();
    messages
        .iter()
        .filter(|message| message.data.role == role)
        .map(|message| message.text())
        .collect()
}

#[tokio::test]
async fn a_repeated_run_id_returns_the_same_turn() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let events = run(&server, input("1", "hi")).await;
    let text: String = events
        .iter()
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(text, "hi one two");
    let mut seen = kinds(&events);
    seen.dedup();
    let expected = [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(seen, expected);
    assert_eq!(events.last().unwrap()["usage"][0]["totalTokens"], 5);
    server.kill().await;
    let server = TestServer::start(state.path()).await;
    let again = run(&server, input("1", "hi")).await;
    assert_eq!(
        kinds(&again),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    let messages = &again[1]["messages"];
    assert_eq!(
        (&messages[0]["id"], &messages[1]["content"]),
        (&json!("m-1"), &json!("hi one two"))
    );
    // Message ids are the same as in the live stream.
    assert_eq!(
        messages[1]["id"],
        events
            .iter()
            .find_map(|event| event["messageId"].as_str())
            .unwrap()
    );
    assert_eq!(texts(&server, MessageRole::User).await, ["hi"]);
}

#[tokio::test]
async fn a_run_contains_reasoning_and_the_finish_reason() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let events = run(&server, input("1", "half")).await;
    let mut seen = kinds(&events);
    seen.dedup();
    let expected = [
        "RUN_STARTED",
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "CUSTOM",
        "RUN_FINISHED",
    ];
    assert_eq!(seen, expected);
    let custom = &events[events.len() - 2];
    assert_eq!(
        (&custom["name"], &custom["value"]["reason"]),
        (&json!("modelFinishReason"), &json!("length"))
    );
}

/// Web pages send a run twice if a component is rendered twice.
#[tokio::test]
async fn a_run_sent_twice_at_once_finishes_for_both_clients() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for number in 0..20 {
        let twice = input(&number.to_string(), "hi");
        let (one, other) = tokio::join!(run(&server, twice.clone()), run(&server, twice));
        for events in [one, other] {
            assert_eq!(kinds(&events).last(), Some(&"RUN_FINISHED"), "{events:?}");
        }
    }
    assert_eq!(texts(&server, MessageRole::User).await.len(), 20);
}

#[tokio::test]
async fn a_new_thread_imports_the_message_history() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let mut with_history = input("1", "and?");
    let history = [("user", "hi"), ("assistant", "ho")];
    let mut messages: Vec<Value> = history
        .iter()
        .map(|(role, text)| json!({"id": text, "role": role, "content": text}))
        .collect();
    messages.push(with_history["messages"][0].clone());
    with_history["messages"] = messages.into();
    run(&server, with_history.clone()).await;
    with_history["runId"] = "2".into();
    run(&server, with_history).await;
    assert_eq!(
        texts(&server, MessageRole::User).await,
        ["hi", "and?", "and?"]
    );
}

#[tokio::test]
async fn an_approval_request_ends_the_run_and_resume_answers_it() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let interrupted = run(&server, input("1", "write")).await;
    let interrupt = interrupted.last().unwrap()["outcome"]["interrupts"][0].clone();
    assert_eq!(
        (
            &interrupt["reason"],
            &interrupt["metadata"]["question"]["toolName"]
        ),
        (&json!("tool_call"), &json!("file-system__write"))
    );
    let call = interrupted
        .iter()
        .find(|event| event["type"] == "TOOL_CALL_START")
        .unwrap();
    assert_eq!(interrupt["toolCallId"], call["toolCallId"]);
    // The same run returns the same approval request, and a different run is rejected until then.
    let again = run(&server, input("1", "write")).await;
    assert_eq!(
        again.last().unwrap()["outcome"]["interrupts"][0]["id"],
        interrupt["id"]
    );
    let other = run(&server, input("2", "hi")).await;
    assert_eq!(
        (kinds(&other), &other[0]["code"]),
        (vec!["RUN_ERROR"], &json!("E_SERVE_CLOSED"))
    );
    let resume = |run: &str, id: &Value| {
        let mut input = input(run, "write");
        input["resume"] =
            json!([{"interruptId": id, "status": "resolved", "payload": {"approved": true}}]);
        input
    };
    let unknown = run(&server, resume("3", &json!("another"))).await;
    assert_eq!(kinds(&unknown), ["RUN_ERROR"]);
    let mut covers = resume("3", &interrupt["id"]);
    covers["resume"][0]["payload"] = json!({"answer": "always", "covers": "program"});
    assert_eq!(kinds(&run(&server, covers).await), ["RUN_ERROR"]);
    let done = run(&server, resume("3", &interrupt["id"])).await;
    assert_eq!(done.last().unwrap()["outcome"], json!({"type": "success"}));
    let result = done
        .iter()
        .find(|event| event["type"] == "TOOL_CALL_RESULT")
        .unwrap();
    assert_eq!(result["toolCallId"], call["toolCallId"]);
    assert!(
        !result["content"]
            .as_str()
            .unwrap()
            .contains("E_TOOL_DENIED"),
        "{result}"
    );
    // A repeated answer has no further effect.
    let again = run(&server, resume("3", &interrupt["id"])).await;
    assert_eq!(
        kinds(&again),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(texts(&server, MessageRole::User).await.len(), 1);
}

#[tokio::test]
async fn a_failed_or_cancelled_turn_ends_with_an_error() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let failed = run(&server, input("1", "break")).await;
    assert_eq!(failed.last().unwrap()["code"], "E_MODEL_STATUS");
    let mut slow = server
        .client
        .follow("/ag-ui/a", &input("2", "slow"))
        .await
        .unwrap();
    while !crate::support::with_timeout(slow.next())
        .await
        .unwrap()
        .unwrap()
        .data
        .contains("STEP_STARTED")
    {}
    server
        .client
        .delete("/api/instances/a/t/turn")
        .await
        .unwrap();
    let rest = all(slow).await;
    assert!(
        rest.last().unwrap().data.contains("\"cancelled\""),
        "{rest:?}"
    );
}

#[tokio::test]
async fn the_swarm_name_selects_its_entry_agent() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let followed = server
        .client
        .follow("/ag-ui/default", &input("1", "hi"))
        .await;
    assert!(!all(followed.unwrap()).await.is_empty());
    assert_eq!(texts(&server, MessageRole::User).await, ["hi"]);
}

#[tokio::test]
async fn invalid_runs_are_rejected() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for wrong in [
        json!({}),
        json!({"threadId": "", "runId": "1"}),
        json!({"threadId": "t", "runId": 1}),
    ] {
        let Err(ClientError::Refused(refused)) = server.client.follow("/ag-ui/a", &wrong).await
        else {
            panic!("{wrong} was accepted");
        };
        assert_eq!(refused.code, "E_SERVE_REQUEST");
    }
    let Err(ClientError::Refused(refused)) =
        server.client.follow("/ag-ui/b", &input("1", "hi")).await
    else {
        panic!("the unknown agent was found");
    };
    assert_eq!(refused.code, "AGENT_NOT_FOUND");
    for empty in [
        json!([]),
        json!([{"id": "1", "role": "user", "content": " "}]),
        json!([{"id": "1", "role": "user", "content": 1}]),
    ] {
        let events = run(
            &server,
            json!({"threadId": "t", "runId": "1", "messages": empty}),
        )
        .await;
        assert_eq!(
            (kinds(&events), &events[0]["code"]),
            (vec!["RUN_ERROR"], &json!("E_SERVE_REQUEST")),
            "{empty}"
        );
    }
    assert_eq!(server.swarm.instances().await.len(), 0);
}
