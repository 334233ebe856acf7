//! Invariants that must hold after any sequence of failures.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::swarm::{Process, WORKSPACE, World, a, answers, b, q, within};
use goondan_core::message::{Message, MessageRole};
use goondan_core::ports::store::WorkspaceLog as _;
use goondan_core::ports::tool::ToolCallStatus;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::JsonlStore;

/// Completes the events `one` and `two`, and checks that no event or call is lost or done twice.
pub(crate) async fn check(mut process: Process, fs: &SimFs, world: &World) {
    let (one, two) =
        within(async { futures::join!(process.send("one"), process.send("two")) }).await;
    for (result, name) in [(one, "one"), (two, "two")] {
        let result = result.unwrap_or_else(|| panic!("{name} was lost"));
        assert_eq!(result.error, None, "{name}");
    }
    process
        .wait_for(|messages| answers(messages) >= confirmed_requests(messages))
        .await;
    within(process.runtime.shutdown(Duration::from_secs(60))).await;
    let messages = process.runtime.conversation(&a()).await.unwrap();
    check_conversation(&messages);
    check_world(world, &messages);
    let requests = process.runtime.conversation(&b()).await.unwrap();
    assert_eq!(
        inputs(&requests, "question of"),
        confirmed_requests(&messages),
        "{}",
        describe(&requests)
    );
    drop(process);
    let remaining = JsonlStore::on(Arc::new(fs.kill()), Path::new(WORKSPACE))
        .unwrap()
        .recover()
        .await
        .unwrap();
    assert_eq!(
        (remaining.pending.len(), remaining.begun.len()),
        (0, 0),
        "{remaining:#?}"
    );
}

/// Returns the number of requests of `a` whose acceptance was confirmed.
pub(crate) fn confirmed_requests(messages: &[Arc<Message>]) -> usize {
    let results = messages.iter().flat_map(|message| message.tool_results());
    results
        .filter(|result| {
            result.tool_call_id.starts_with("ask") && result.status == ToolCallStatus::Ok
        })
        .count()
}

fn inputs(messages: &[Arc<Message>], start: &str) -> usize {
    messages
        .iter()
        .filter(|message| {
            message.data.role == MessageRole::User && message.text().starts_with(start)
        })
        .count()
}

fn describe(messages: &[Arc<Message>]) -> String {
    messages
        .iter()
        .map(|message| {
            format!(
                "\n{} {:?} {}",
                message.id,
                message.data.role,
                message.text()
            )
        })
        .collect()
}

/// Completes the events `one` and `two` of agent `q`, which waits for answers of agent `b`, and
/// `other_events` of agent `b`. Checks that `q` received exactly the answers that `b` gave, and
/// that the conversation of `b` contains each input once.
pub(crate) async fn check_answers(process: Process, world: &World, other_events: &[&str]) {
    for event in other_events {
        let result = within(process.send_to(b(), event))
            .await
            .unwrap_or_else(|| panic!("{event} was lost"));
        assert_eq!(result.error, None, "{event}");
    }
    for event in ["one", "two"] {
        let result = within(process.send_to(q(), event))
            .await
            .unwrap_or_else(|| panic!("{event} was lost"));
        assert_eq!(result.error, None, "{event}");
    }
    let messages = process.runtime.conversation(&q()).await.unwrap();
    check_world(world, &messages);
    let results = messages.iter().flat_map(|message| message.tool_results());
    let wait_results = results.filter(|result| result.tool_call_id.starts_with("wait"));
    let received: Vec<_> = wait_results
        .map(|result| result.output.as_ref().unwrap().as_str().unwrap().to_owned())
        .collect();
    let answering = process.runtime.conversation(&b()).await.unwrap();
    let requests = answering
        .iter()
        .enumerate()
        .filter(|(_, message)| message.text().starts_with("question of"));
    let given: Vec<_> = requests
        .map(|(position, _)| answering[position + 1].text())
        .collect();
    assert_eq!(
        (given.len(), &received),
        (2, &given),
        "{}",
        describe(&answering)
    );
    assert_eq!(
        answering.len(),
        2 * (2 + other_events.len()),
        "each event and request has an input and an answer:{}",
        describe(&answering)
    );
    for event in other_events {
        assert_eq!(
            inputs(&answering, &format!("input {event}")),
            1,
            "{}",
            describe(&answering)
        );
    }
}

pub(crate) fn check_conversation(messages: &[Arc<Message>]) {
    let ids: HashSet<&str> = messages.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(
        ids.len(),
        messages.len(),
        "a message occurs twice: {}",
        describe(messages)
    );
    let input_counts = (inputs(messages, "input one"), inputs(messages, "input two"));
    assert_eq!(
        (input_counts, answers(messages)),
        ((1, 1), confirmed_requests(messages)),
        "{}",
        describe(messages)
    );
    let calls = messages
        .iter()
        .filter(|message| message.tool_calls().next().is_some());
    let results = messages
        .iter()
        .filter(|message| message.data.role == MessageRole::Tool);
    for (calls, results) in calls.zip(results) {
        let called: Vec<_> = calls.tool_calls().map(|call| &call.tool_call_id).collect();
        let answered: Vec<_> = results
            .tool_results()
            .map(|result| &result.tool_call_id)
            .collect();
        assert_eq!(called, answered, "every call has one result");
    }
    let results = messages
        .iter()
        .flat_map(|message| message.tool_results())
        .count();
    assert_eq!(
        results,
        3 * inputs(messages, "input"),
        "{}",
        describe(messages)
    );
}

/// Checks that non-idempotent calls ran at most once, and exactly once if their result is `Ok`.
pub(crate) fn check_world(world: &World, messages: &[Arc<Message>]) {
    let world = world.lock().unwrap();
    for result in messages.iter().flat_map(|message| message.tool_results()) {
        let times = world.get(&result.tool_call_id).copied().unwrap_or_default();
        let code = result.error.as_ref().map(|error| &*error.code);
        match (result.tool_call_id.starts_with("once"), result.status) {
            (true, ToolCallStatus::Ok) => assert_eq!(times, 1, "{}", result.tool_call_id),
            (true, ToolCallStatus::Error) => {
                assert_eq!(code, Some("E_TOOL_INTERRUPTED"));
                assert!(times <= 1, "{} ran {times} times", result.tool_call_id);
            }
            // A request fails on a full disk; the tool receives the error and reports it to the
            // model.
            (false, _) => assert!(
                matches!(code, None | Some("E_STORE")) && times >= 1,
                "{result:?}"
            ),
        }
    }
}
