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

/// Completes the events `one` and `two`, and checks that nothing is lost or done twice.
pub(crate) async fn check(mut process: Process, fs: &SimFs, world: &World) {
    let (one, two) =
        within(async { futures::join!(process.send("one"), process.send("two")) }).await;
    for (result, name) in [(one, "one"), (two, "two")] {
        let result = result.unwrap_or_else(|| panic!("{name} was lost"));
        assert_eq!(result.error, None, "{name}");
    }
    process
        .wait_for(|messages| answers(messages) >= asked(messages))
        .await;
    within(process.runtime.shutdown(Duration::from_secs(60))).await;
    let messages = process.runtime.conversation(&a()).await.unwrap();
    check_conversation(&messages);
    check_world(world, &messages);
    let questions = process.runtime.conversation(&b()).await.unwrap();
    assert_eq!(
        inputs(&questions, "question of"),
        asked(&messages),
        "{}",
        tell(&questions)
    );
    drop(process);
    let left = JsonlStore::on(Arc::new(fs.kill()), Path::new(WORKSPACE))
        .unwrap()
        .recover()
        .await
        .unwrap();
    assert_eq!((left.pending.len(), left.begun.len()), (0, 0), "{left:#?}");
}

/// Returns how often `a` received the confirmation that its request was accepted.
pub(crate) fn asked(messages: &[Arc<Message>]) -> usize {
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

fn tell(messages: &[Arc<Message>]) -> String {
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

/// Completes the events `one` and `two` of the agent that waits for answers, and the given events
/// of the agent it asks. Checks that the received answers are the given ones, and that the other
/// agent remembers everything exactly once.
pub(crate) async fn check_answers(process: Process, world: &World, beside: &[&str]) {
    for event in beside {
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
    let waited = results.filter(|result| result.tool_call_id.starts_with("wait"));
    let heard: Vec<_> = waited
        .map(|result| result.output.as_ref().unwrap().as_str().unwrap().to_owned())
        .collect();
    let asked = process.runtime.conversation(&b()).await.unwrap();
    let questions = asked
        .iter()
        .enumerate()
        .filter(|(_, message)| message.text().starts_with("question of"));
    let said: Vec<_> = questions
        .map(|(place, _)| asked[place + 1].text())
        .collect();
    assert_eq!((said.len(), &heard), (2, &said), "{}", tell(&asked));
    assert_eq!(
        asked.len(),
        2 * (2 + beside.len()),
        "each has an input and an answer:{}",
        tell(&asked)
    );
    for event in beside {
        assert_eq!(
            inputs(&asked, &format!("input {event}")),
            1,
            "{}",
            tell(&asked)
        );
    }
}

pub(crate) fn check_conversation(messages: &[Arc<Message>]) {
    let ids: HashSet<&str> = messages.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(
        ids.len(),
        messages.len(),
        "a message is there twice: {}",
        tell(messages)
    );
    let once = (inputs(messages, "input one"), inputs(messages, "input two"));
    assert_eq!(
        (once, answers(messages)),
        ((1, 1), asked(messages)),
        "{}",
        tell(messages)
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
    assert_eq!(results, 3 * inputs(messages, "input"), "{}", tell(messages));
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
            // A request fails on a full disk; the tool received the error and reported it to the
            // model.
            (false, _) => assert!(
                matches!(code, None | Some("E_STORE")) && times >= 1,
                "{result:?}"
            ),
        }
    }
}
