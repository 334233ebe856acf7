//! The AG-UI door. What the official client makes of it is tested by `ci/a2a`.

use goondan::ids::InstanceId;
use goondan::message::MessageRole;
use goondan_serve::client::ClientError;
use serde_json::{Value, json};

use crate::support::{Running, all};

fn input(run: &str, text: &str) -> Value {
    json!({
        "threadId": "t", "runId": run, "messages": [{"id": format!("m-{run}"), "role": "user", "content": text}],
        "tools": [], "context": [], "state": {}, "forwardedProps": {},
    })
}

async fn run(running: &Running, input: Value) -> Vec<Value> {
    let events = all(running.client.follow("/ag-ui/a", &input).await.unwrap()).await;
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

async fn said(running: &Running, role: MessageRole) -> Vec<String> {
    let messages = running
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
async fn a_run_is_a_turn_and_the_same_run_is_the_same_turn() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let events = run(&running, input("1", "hi")).await;
    let text: String = events
        .iter()
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(text, "hi one two");
    let mut seen = kinds(&events);
    seen.dedup();
    let wanted = [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(seen, wanted);
    assert_eq!(events.last().unwrap()["usage"][0]["totalTokens"], 5);
    running.kill().await;
    let running = Running::start(state.path()).await;
    let again = run(&running, input("1", "hi")).await;
    assert_eq!(
        kinds(&again),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    let messages = &again[1]["messages"];
    assert_eq!(
        (&messages[0]["id"], &messages[1]["content"]),
        (&json!("m-1"), &json!("hi one two"))
    );
    // The messages have the ids that they had when they were said.
    assert_eq!(
        messages[1]["id"],
        events
            .iter()
            .find_map(|event| event["messageId"].as_str())
            .unwrap()
    );
    assert_eq!(said(&running, MessageRole::User).await, ["hi"]);
}

#[tokio::test]
async fn a_run_shows_reasoning_and_why_its_answer_is_incomplete() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let events = run(&running, input("1", "half")).await;
    let mut seen = kinds(&events);
    seen.dedup();
    let wanted = [
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
    assert_eq!(seen, wanted);
    let custom = &events[events.len() - 2];
    assert_eq!(
        (&custom["name"], &custom["value"]["reason"]),
        (&json!("modelFinishReason"), &json!("length"))
    );
}

/// Pages send a run twice where they are drawn twice.
#[tokio::test]
async fn a_run_that_is_sent_twice_at_once_ends_for_both() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for number in 0..20 {
        let twice = input(&number.to_string(), "hi");
        let (one, other) = tokio::join!(run(&running, twice.clone()), run(&running, twice));
        for events in [one, other] {
            assert_eq!(kinds(&events).last(), Some(&"RUN_FINISHED"), "{events:?}");
        }
    }
    assert_eq!(said(&running, MessageRole::User).await.len(), 20);
}

#[tokio::test]
async fn a_thread_that_is_new_opens_with_what_was_said_before() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let mut with_past = input("1", "and?");
    let past = [("user", "hi"), ("assistant", "ho")];
    let mut messages: Vec<Value> = past
        .iter()
        .map(|(role, text)| json!({"id": text, "role": role, "content": text}))
        .collect();
    messages.push(with_past["messages"][0].clone());
    with_past["messages"] = messages.into();
    run(&running, with_past.clone()).await;
    with_past["runId"] = "2".into();
    run(&running, with_past).await;
    assert_eq!(
        said(&running, MessageRole::User).await,
        ["hi", "and?", "and?"]
    );
}

#[tokio::test]
async fn a_question_ends_the_run_and_the_next_one_answers_it() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let asked = run(&running, input("1", "write")).await;
    let interrupt = asked.last().unwrap()["outcome"]["interrupts"][0].clone();
    assert_eq!(
        (
            &interrupt["reason"],
            &interrupt["metadata"]["question"]["toolName"]
        ),
        (&json!("tool_call"), &json!("file-system__write"))
    );
    let call = asked
        .iter()
        .find(|event| event["type"] == "TOOL_CALL_START")
        .unwrap();
    assert_eq!(interrupt["toolCallId"], call["toolCallId"]);
    // The same run tells of the same question, and another one has to wait.
    let again = run(&running, input("1", "write")).await;
    assert_eq!(
        again.last().unwrap()["outcome"]["interrupts"][0]["id"],
        interrupt["id"]
    );
    let other = run(&running, input("2", "hi")).await;
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
    let unknown = run(&running, resume("3", &json!("another"))).await;
    assert_eq!(kinds(&unknown), ["RUN_ERROR"]);
    let mut covers = resume("3", &interrupt["id"]);
    covers["resume"][0]["payload"] = json!({"answer": "always", "covers": "program"});
    assert_eq!(kinds(&run(&running, covers).await), ["RUN_ERROR"]);
    let done = run(&running, resume("3", &interrupt["id"])).await;
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
    // The answer that is sent again is no other answer.
    let again = run(&running, resume("3", &interrupt["id"])).await;
    assert_eq!(
        kinds(&again),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(said(&running, MessageRole::User).await.len(), 1);
}

#[tokio::test]
async fn a_turn_that_comes_to_nothing_ends_with_an_error() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let failed = run(&running, input("1", "break")).await;
    assert_eq!(failed.last().unwrap()["code"], "E_MODEL_STATUS");
    let mut slow = running
        .client
        .follow("/ag-ui/a", &input("2", "slow"))
        .await
        .unwrap();
    while !crate::support::within(slow.next())
        .await
        .unwrap()
        .unwrap()
        .data
        .contains("STEP_STARTED")
    {}
    running
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
async fn the_name_of_the_swarm_means_its_entry_agent() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let followed = running
        .client
        .follow("/ag-ui/default", &input("1", "hi"))
        .await;
    assert!(!all(followed.unwrap()).await.is_empty());
    assert_eq!(said(&running, MessageRole::User).await, ["hi"]);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for wrong in [
        json!({}),
        json!({"threadId": "", "runId": "1"}),
        json!({"threadId": "t", "runId": 1}),
    ] {
        let Err(ClientError::Refused(refused)) = running.client.follow("/ag-ui/a", &wrong).await
        else {
            panic!("{wrong} was taken");
        };
        assert_eq!(refused.code, "E_SERVE_REQUEST");
    }
    let Err(ClientError::Refused(refused)) =
        running.client.follow("/ag-ui/b", &input("1", "hi")).await
    else {
        panic!("there is no such agent");
    };
    assert_eq!(refused.code, "AGENT_NOT_FOUND");
    for empty in [
        json!([]),
        json!([{"id": "1", "role": "user", "content": " "}]),
        json!([{"id": "1", "role": "user", "content": 1}]),
    ] {
        let events = run(
            &running,
            json!({"threadId": "t", "runId": "1", "messages": empty}),
        )
        .await;
        assert_eq!(
            (kinds(&events), &events[0]["code"]),
            (vec!["RUN_ERROR"], &json!("E_SERVE_REQUEST")),
            "{empty}"
        );
    }
    assert_eq!(running.swarm.instances().await.len(), 0);
}
