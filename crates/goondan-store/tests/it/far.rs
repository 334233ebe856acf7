//! A swarm with a distant store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::checks::{asked, check_conversation, check_world};
use crate::swarm::{Process, World, answers, within};
use goondan_core::ids::InstanceId;
use goondan_core::ports::clock::SystemClock;
use goondan_core::ports::store::{InstanceMeta, Store};
use goondan_engine::runtime::ExternalInput;
use goondan_spec::Code;
use goondan_store::fs::sim::SimFs;
use goondan_store::memory::MemoryStore;
use goondan_store::suite::UnreliableStore;

fn memory() -> MemoryStore {
    MemoryStore::new(PathBuf::from("/nowhere"))
}

async fn start(store: Arc<dyn Store>, world: &World) -> Process {
    Process::start_with(store, &SimFs::new(), world, Arc::new(SystemClock), "{}")
        .await
        .unwrap()
}

/// Uses simulated time, so the test does not wait.
#[tokio::test(start_paused = true)]
async fn instances_do_not_wait_for_the_store_of_others() {
    const CALL: Duration = Duration::from_millis(200);
    let store = Arc::new(UnreliableStore::steady(Arc::new(memory()), CALL));
    let process = start(store, &World::default()).await;
    let one = Instant::now();
    process
        .send_to(InstanceId::new("b", "alone"), "quiet")
        .await
        .unwrap();
    let alone = one.elapsed();
    assert!(
        alone >= 3 * CALL,
        "a turn asks the store several times: {alone:?}"
    );
    let many = Instant::now();
    let keys: Vec<InstanceId> = (0..50)
        .map(|number| InstanceId::new("b", format!("k{number}")))
        .collect();
    let names: Vec<String> = (0..50).map(|number| format!("quiet{number}")).collect();
    let turns = keys
        .into_iter()
        .zip(&names)
        .map(|(key, name)| process.send_to(key, name));
    let results = futures::future::join_all(turns).await;
    assert!(
        results
            .iter()
            .all(|result| result.as_ref().is_some_and(|result| result.error.is_none()))
    );
    // Acceptances share one connection and take 200 ms each, one after the other. All other calls
    // of the fifty turns run concurrently.
    assert!(
        many.elapsed() <= 50 * CALL + alone,
        "fifty turns took {:?}, one alone {alone:?}",
        many.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_that_fails_now_and_then_loses_and_repeats_nothing() {
    for (fails, remembered) in [(7, 1), (11, 1), (23, 1), (7, 9), (11, 9), (23, 9)] {
        let store = UnreliableStore::new(Arc::new(memory()), Duration::from_millis(20), fails)
            .remembered_outside(remembered);
        let (store, world) = (Arc::new(store), World::default());
        let Ok(mut process) = tokio::spawn({
            let (store, world) = (Arc::clone(&store), Arc::clone(&world));
            async move { start(store, &world).await }
        })
        .await
        else {
            // The connection failed at once, so nothing began.
            continue;
        };
        for event in ["one", "two"] {
            // Repeat the event until it is accepted and completed.
            while within(process.send(event))
                .await
                .is_none_or(|result| result.error.is_some())
            {}
        }
        let messages = process
            .wait_for(|messages| answers(messages) >= asked(messages))
            .await;
        check_conversation(&messages);
        check_world(&world, &messages);
    }
}

fn b(key: &str) -> InstanceId {
    InstanceId::new("b", key)
}

#[tokio::test(start_paused = true)]
async fn who_is_forgotten_is_found_again() {
    for remembered in [None, Some(1), Some(2)] {
        let line = UnreliableStore::steady(Arc::new(memory()), Duration::from_millis(20));
        let store: Arc<dyn Store> = match remembered {
            Some(most) => Arc::new(line.remembered_outside(most)),
            None => Arc::new(line),
        };
        let (world, clock) = (World::default(), Arc::new(SystemClock));
        let policy = "{maxInstances: 3}";
        let process = Process::start_with(
            Arc::clone(&store),
            &SimFs::new(),
            &world,
            clock.clone(),
            policy,
        )
        .await
        .unwrap();
        for key in ["one", "two", "three", "one"] {
            assert_eq!(
                process
                    .send_to(b(key), &format!("quiet {key}"))
                    .await
                    .and_then(|result| result.error),
                None
            );
        }
        let full = process
            .runtime
            .send(ExternalInput::text(b("four"), "quiet"))
            .await;
        assert_eq!(
            full.err().map(|refusal| refusal.code()),
            Some(Code::AGENT_INSTANCE_LIMIT)
        );
        let there = futures::future::join_all(
            ["one", "three", "four"].map(async |key| process.runtime.has_instance(&b(key)).await),
        );
        assert_eq!(there.await, [true, true, false]);
        let ids = async |process: &Process| -> Vec<InstanceId> {
            process
                .runtime
                .instances()
                .await
                .iter()
                .map(InstanceMeta::id)
                .collect()
        };
        assert_eq!(ids(&process).await, [b("one"), b("two"), b("three")]);
        drop(process);
        let process = Process::start_with(store, &SimFs::new(), &world, clock, policy)
            .await
            .unwrap();
        assert_eq!(ids(&process).await.len(), 3);
        let full = process
            .runtime
            .send(ExternalInput::text(b("four"), "quiet"))
            .await;
        assert_eq!(
            full.err().map(|refusal| refusal.code()),
            Some(Code::AGENT_INSTANCE_LIMIT),
            "they count though forgotten"
        );
        process.send_to(b("two"), "quiet again").await.unwrap();
        let heard = process.runtime.conversation(&b("two")).await.unwrap();
        let heard = heard
            .iter()
            .filter(|message| message.text().starts_with("input quiet"))
            .count();
        assert_eq!(heard, 2, "the conversation goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_cuts_off_no_turn_succeeds() {
    const CALL: Duration = Duration::from_secs(10);
    let store = Arc::new(UnreliableStore::steady(Arc::new(memory()), CALL));
    let process = start(store, &World::default()).await;
    let input = ExternalInput::text(InstanceId::new("b", "late"), "quiet".to_owned());
    // The store is still writing the event when the time is over.
    let (_, are_turns_over) = futures::join!(
        process.runtime.send(input),
        process.runtime.shutdown(CALL / 10)
    );
    assert!(are_turns_over);
}
