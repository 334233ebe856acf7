//! A disk that is full or fails, and recovers later.

use crate::invariants::{check, check_answers};
use crate::swarm::{Process, World, a, b, q, within};
use goondan_core::event::{FinishReason, SwarmEvent};
use goondan_core::message::MessageRole;
use goondan_engine::runtime::ExternalInput;
use goondan_store::fs::sim::SimFs;

/// Number of bytes that exceeds the writes of one turn.
const MORE_THAN_ONE_TURN: usize = 12_000;

/// Starts a swarm, limits the free disk space, and sends the event `one`.
async fn run_on_limited_disk(free_bytes: usize) -> (SimFs, World, Process) {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    fs.limit_free_space(Some(free_bytes));
    if let Some(result) = process.send("one").await
        && let Some(error) = result.error
    {
        assert_eq!(
            (result.finish_reason, &*error.code),
            (FinishReason::Error, "E_STORE"),
            "{}",
            error.message
        );
    }
    (fs, world, process)
}

#[tokio::test]
async fn a_turn_stopped_by_a_full_disk_continues_when_its_event_is_resent() {
    for free_bytes in (0..MORE_THAN_ONE_TURN).step_by(151) {
        let (fs, world, process) = run_on_limited_disk(free_bytes).await;
        fs.limit_free_space(None);
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn a_turn_stopped_by_a_full_disk_continues_when_another_event_arrives() {
    for free_bytes in (0..MORE_THAN_ONE_TURN).step_by(613) {
        let (fs, world, process) = run_on_limited_disk(free_bytes).await;
        fs.limit_free_space(None);
        process.send("two").await.unwrap();
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn a_turn_stopped_by_a_full_disk_continues_after_a_restart() {
    for free_bytes in (0..MORE_THAN_ONE_TURN).step_by(613) {
        let (fs, world, process) = run_on_limited_disk(free_bytes).await;
        drop(process);
        let fs = fs.kill();
        fs.limit_free_space(None);
        let process = Process::start(&fs, &world).await.unwrap();
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn a_turn_stopped_by_a_full_disk_is_retried_automatically() {
    let (fs, world, mut process) = run_on_limited_disk(3_300).await;
    fs.limit_free_space(None);
    let is_over =
        |event| matches!(event, SwarmEvent::TurnEnded { result, .. } if result.error.is_none());
    while !is_over(within(process.events.recv()).await.unwrap()) {}
    check(process, &fs, &world).await;
}

#[tokio::test]
async fn events_fail_with_a_store_error_while_the_disk_is_full() {
    let (fs, world, process) = run_on_limited_disk(MORE_THAN_ONE_TURN).await;
    fs.limit_free_space(Some(700));
    let error_code = async |id: &str| {
        let input = ExternalInput {
            id: Some(id.to_owned()),
            ..ExternalInput::text(a(), format!("input {id}"))
        };
        match within(process.runtime.send(input)).await {
            Err(refusal) => refusal.code().as_str().to_owned(),
            Ok(accepted) => {
                let result = within(accepted.result).await.unwrap();
                result.error.unwrap().code
            }
        }
    };
    let codes = futures::join!(error_code("two"), error_code("three"));
    assert_eq!(codes, ("E_STORE".to_owned(), "E_STORE".to_owned()));
    fs.limit_free_space(None);
    // An attempt that had already started still fails.
    while process.send("three").await.unwrap().error.is_some() {}
    check(process, &fs, &world).await;
}

/// A request that does not fit on the disk is refused. An answer that does not fit arrives when
/// there is space again.
#[tokio::test]
async fn requests_between_agents_continue_after_a_full_disk() {
    let mut failed_turns = 0;
    for free_bytes in (0..MORE_THAN_ONE_TURN).step_by(367) {
        let (fs, world) = (SimFs::new(), World::default());
        let mut process = Process::start(&fs, &world).await.unwrap();
        fs.limit_free_space(Some(free_bytes));
        let first = within(process.send_to(q(), "one")).await;
        fs.limit_free_space(None);
        assert!(
            first
                .and_then(|result| result.error)
                .is_none_or(|error| error.code == "E_STORE")
        );
        while within(process.send_to(q(), "one"))
            .await
            .is_none_or(|result| result.error.is_some())
        {}
        let failed = |event: &SwarmEvent| matches!(event, SwarmEvent::TurnEnded { instance, result, .. } if *instance == b() && result.error.is_some());
        failed_turns += std::iter::from_fn(|| process.events.try_recv().ok())
            .filter(failed)
            .count();
        let messages = process.runtime.conversation(&q()).await.unwrap();
        let refusals = messages
            .iter()
            .flat_map(|message| message.tool_results())
            .filter_map(|result| result.error.as_ref());
        let refusals: Vec<_> = refusals.map(|error| error.code.as_str()).collect();
        assert!(
            refusals
                .iter()
                .all(|code| ["E_STORE", "E_TOOL_INTERRUPTED"].contains(code)),
            "{free_bytes}: {refusals:?}"
        );
    }
    assert!(
        failed_turns > 0,
        "no turn of agent `b` failed on the full disk"
    );
}

#[tokio::test]
async fn abandoning_a_started_event_cancels_its_turn() {
    // The disk has space for the first calls, but not for the end of the turn.
    let (fs, world, mut process) = run_on_limited_disk(3_300).await;
    process.runtime.abandon("one", "it took too long");
    fs.limit_free_space(None);
    process.send("two").await.unwrap();
    let one = loop {
        if let SwarmEvent::TurnEnded {
            event_id, result, ..
        } = within(process.events.recv()).await.unwrap()
            && event_id == "one"
            && result.finish_reason != FinishReason::Error
        {
            break result;
        }
    };
    assert_eq!(one.finish_reason, FinishReason::Cancelled);
    let messages = process
        .wait_for(|messages| messages.iter().any(|message| message.id == "turn-two-m2"))
        .await;
    let ids: Vec<_> = messages.iter().map(|message| &*message.id).collect();
    assert!(
        ids.starts_with(&["turn-one-m0", "turn-one-m1", "turn-one-m2"]),
        "{ids:?}"
    );
    // The cancelled turn gets no further model answer; the next message is the next input.
    assert_eq!(
        (messages[2].data.role, messages[3].data.role),
        (MessageRole::Tool, MessageRole::User)
    );
    assert_eq!(
        world.lock().unwrap()["once-one"],
        1,
        "the cancelled turn keeps the call's result and does not repeat the call"
    );
}

#[tokio::test]
async fn failed_syncs_lose_no_acknowledged_event() {
    for syncs in 0..14 {
        let (fs, world) = (SimFs::new(), World::default());
        let process = Process::start(&fs, &world).await.unwrap();
        fs.fail_syncs_after(syncs, 2);
        process.send("one").await;
        fs.fail_syncs_after(0, 0);
        process.send("one").await;
        drop(process);
        let fs = fs.lose_power(None);
        let process = Process::start(&fs, &world).await.unwrap();
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn after_failed_syncs_received_answers_match_the_given_answers() {
    for syncs in 0..14 {
        let (fs, world) = (SimFs::new(), World::default());
        fs.yield_in_syncs();
        let process = Process::start(&fs, &world).await.unwrap();
        fs.fail_syncs_after(syncs, 2);
        within(process.send_to(q(), "one")).await;
        fs.fail_syncs_after(0, 0);
        drop(process);
        let fs = fs.lose_power(Some(syncs.into()));
        let process = Process::start(&fs, &world).await.unwrap();
        check_answers(process, &world, &[]).await;
    }
}
