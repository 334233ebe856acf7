//! A swarm on a slow or unreliable store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::invariants::{check_conversation, check_world, confirmed_requests};
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
async fn store_calls_of_different_instances_run_concurrently() {
    const CALL_DELAY: Duration = Duration::from_millis(200);
    let store = Arc::new(UnreliableStore::steady(Arc::new(memory()), CALL_DELAY));
    let process = start(store, &World::default()).await;
    let start_of_one = Instant::now();
    process
        .send_to(InstanceId::new("b", "alone"), "quiet")
        .await
        .unwrap();
    let one_turn = start_of_one.elapsed();
    assert!(
        one_turn >= 3 * CALL_DELAY,
        "a turn calls the store several times: {one_turn:?}"
    );
    let start_of_fifty = Instant::now();
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
    // Accepted records share one connection and take 200 ms each, one after the other. All other
    // calls of the fifty turns run concurrently.
    assert!(
        start_of_fifty.elapsed() <= 50 * CALL_DELAY + one_turn,
        "fifty turns took {:?}, one turn took {one_turn:?}",
        start_of_fifty.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreliable_store_loses_and_repeats_nothing() {
    let mut started = 0;
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
            // The connection failed during the start, so no event was accepted.
            continue;
        };
        started += 1;
        for event in ["one", "two"] {
            // Repeat the event until it is accepted and completed.
            while within(process.send(event))
                .await
                .is_none_or(|result| result.error.is_some())
            {}
        }
        let messages = process
            .wait_for(|messages| answers(messages) >= confirmed_requests(messages))
            .await;
        check_conversation(&messages);
        check_world(&world, &messages);
    }
    assert!(started > 0, "every start failed");
}

fn b(key: &str) -> InstanceId {
    InstanceId::new("b", key)
}

#[tokio::test(start_paused = true)]
async fn instances_evicted_from_memory_are_found_in_the_store() {
    for remembered in [None, Some(1), Some(2)] {
        let unlimited = UnreliableStore::steady(Arc::new(memory()), Duration::from_millis(20));
        let store: Arc<dyn Store> = match remembered {
            Some(most) => Arc::new(unlimited.remembered_outside(most)),
            None => Arc::new(unlimited),
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
        let exists = futures::future::join_all(
            ["one", "three", "four"].map(async |key| process.runtime.has_instance(&b(key)).await),
        );
        assert_eq!(exists.await, [true, true, false]);
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
            "evicted instances count toward the limit"
        );
        process.send_to(b("two"), "quiet again").await.unwrap();
        let messages = process.runtime.conversation(&b("two")).await.unwrap();
        let inputs = messages
            .iter()
            .filter(|message| message.text().starts_with("input quiet"))
            .count();
        assert_eq!(inputs, 2, "the conversation continues");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_interrupts_no_turn_succeeds() {
    const CALL_DELAY: Duration = Duration::from_secs(10);
    let store = Arc::new(UnreliableStore::steady(Arc::new(memory()), CALL_DELAY));
    let process = start(store, &World::default()).await;
    let input = ExternalInput::text(InstanceId::new("b", "late"), "quiet".to_owned());
    // The store is still writing the event when the shutdown times out.
    let (_, are_turns_over) = futures::join!(
        process.runtime.send(input),
        process.runtime.shutdown(CALL_DELAY / 10)
    );
    assert!(are_turns_over);
}
