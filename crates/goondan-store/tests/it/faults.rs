//! The disk is full or fails, and recovers later.

use crate::checks::{check, check_answers};
use crate::swarm::{Process, World, b, q, within};
use goondan_core::event::{FinishReason, SwarmEvent};
use goondan_core::message::MessageRole;
use goondan_store::fs::sim::SimFs;

/// More bytes than one turn writes.
const PLENTY: usize = 12_000;

/// Runs a swarm with a limited disk, and sends it `one`.
async fn run_full(room: usize) -> (SimFs, World, Process) {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    fs.leave_room(Some(room));
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
async fn a_turn_that_met_a_full_disk_goes_on_when_it_is_sent_again() {
    for room in (0..PLENTY).step_by(151) {
        let (fs, world, process) = run_full(room).await;
        fs.leave_room(None);
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn or_when_something_else_is_sent() {
    for room in (0..PLENTY).step_by(613) {
        let (fs, world, process) = run_full(room).await;
        fs.leave_room(None);
        process.send("two").await.unwrap();
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn or_at_the_next_start() {
    for room in (0..PLENTY).step_by(613) {
        let (fs, world, process) = run_full(room).await;
        drop(process);
        let fs = fs.kill();
        fs.leave_room(None);
        let process = Process::start(&fs, &world).await.unwrap();
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn or_by_itself_after_a_while() {
    let (fs, world, mut process) = run_full(3_300).await;
    fs.leave_room(None);
    let is_over =
        |event| matches!(event, SwarmEvent::TurnEnded { result, .. } if result.error.is_none());
    while !is_over(within(process.events.recv()).await.unwrap()) {}
    check(process, &fs, &world).await;
}

#[tokio::test]
async fn while_it_stands_still_everybody_is_told() {
    let (fs, world, process) = run_full(PLENTY).await;
    fs.leave_room(Some(700));
    let (two, three) = futures::join!(process.send("two"), process.send("three"));
    for result in [two, three].into_iter().flatten() {
        assert_eq!(result.error.unwrap().code, "E_STORE");
    }
    fs.leave_room(None);
    // An attempt that had already started still fails.
    while process.send("three").await.unwrap().error.is_some() {}
    check(process, &fs, &world).await;
}

/// A request that finds no space is refused. An answer that finds no space arrives later, when
/// there is space.
#[tokio::test]
async fn only_agents_are_not_told_but_go_on_waiting() {
    let mut stood_still = 0;
    for room in (0..PLENTY).step_by(367) {
        let (fs, world) = (SimFs::new(), World::default());
        let mut process = Process::start(&fs, &world).await.unwrap();
        fs.leave_room(Some(room));
        let first = within(process.send_to(q(), "one")).await;
        fs.leave_room(None);
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
        stood_still += std::iter::from_fn(|| process.events.try_recv().ok())
            .filter(failed)
            .count();
        let messages = process.runtime.conversation(&q()).await.unwrap();
        let refusals = messages
            .iter()
            .flat_map(|message| message.tool_results())
            .filter_map(|one| one.error.as_ref());
        let refusals: Vec<_> = refusals.map(|error| error.code.as_str()).collect();
        assert!(
            refusals
                .iter()
                .all(|code| ["E_STORE", "E_TOOL_INTERRUPTED"].contains(code)),
            "{room}: {refusals:?}"
        );
    }
    assert!(
        stood_still > 0,
        "no turn of the agent that was asked met the full disk"
    );
}

#[tokio::test]
async fn an_event_that_has_begun_is_not_taken_back_but_cancelled() {
    // The disk has space for the first calls, but not for the end of the turn.
    let (fs, world, mut process) = run_full(3_300).await;
    process.runtime.abandon("one", "it took too long");
    fs.leave_room(None);
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
    // The cancelled turn gets no further answer from the model; the next message is the next event.
    assert_eq!(
        (messages[2].data.role, messages[3].data.role),
        (MessageRole::Tool, MessageRole::User)
    );
    assert_eq!(
        world.lock().unwrap()["once-one"],
        1,
        "what had happened was taken up, not repeated"
    );
}

#[tokio::test]
async fn a_disk_that_fails_to_sync_loses_nothing_that_was_acknowledged() {
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
async fn nor_does_it_part_what_was_heard_from_what_was_said() {
    for syncs in 0..14 {
        let (fs, world) = (SimFs::new(), World::default());
        fs.take_time();
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
