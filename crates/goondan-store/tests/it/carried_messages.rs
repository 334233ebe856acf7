//! Turns whose messages the inbox carries until their conversations are durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::swarm::WORKSPACE;
use goondan_core::ids::InstanceId;
use goondan_core::message::{MessageEvent, MessageRole};
use goondan_core::ports::store::{
    BaseChange, ConversationStore as _, InstanceStore as _, WorkspaceLog as _,
};
use goondan_store::fs::FileSystem;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::samples::{
    accepted, append, event, finished, instance, message, messages, meta,
};

fn open(fs: &SimFs) -> JsonlStore {
    JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap()
}

/// The point up to which a turn runs.
#[derive(Clone, Copy)]
enum RunUntil {
    /// The messages of the turn are in the base file.
    Checkpointed,
    /// The final record of the turn is durable; then the process is killed.
    Recorded,
}

/// Number of disk changes that make a record durable: a write and a sync.
const CHANGES_PER_RECORD: u64 = 2;

/// Runs a turn that appends `name`, or replaces `replaces` and everything after it.
async fn run(
    fs: &SimFs,
    store: &JsonlStore,
    id: &InstanceId,
    name: &str,
    replaces: Option<&str>,
    until: RunUntil,
) {
    let event = event(name, id);
    store.append(accepted(&event)).await.unwrap();
    let lease = store.claim(id).await.unwrap();
    let mut conversation = store.open(lease).await.unwrap();
    conversation.load().await.unwrap();
    let change = match replaces {
        None => append(name),
        Some(target) => MessageEvent::Replace {
            target_id: target.to_owned(),
            message: message(name, MessageRole::User),
        },
    };
    conversation.append(&change).await.unwrap();
    let messages = messages(&[name]);
    let base_change = if replaces.is_some() {
        BaseChange::Rewrite(&messages)
    } else {
        BaseChange::Append(&messages)
    };
    if let RunUntil::Recorded = until {
        fs.kill_after(CHANGES_PER_RECORD);
    }
    let is_usable = conversation
        .end_turn(finished(&event), base_change, meta(id))
        .await
        .unwrap();
    assert_eq!(is_usable, matches!(until, RunUntil::Checkpointed));
}

async fn turn(fs: &SimFs, store: &JsonlStore, id: &InstanceId, name: &str, until: RunUntil) {
    run(fs, store, id, name, None, until).await;
}

async fn rewriting_turn(
    fs: &SimFs,
    store: &JsonlStore,
    id: &InstanceId,
    first: &str,
    name: &str,
    until: RunUntil,
) {
    run(fs, store, id, name, Some(first), until).await;
}

async fn base(store: &JsonlStore, id: &InstanceId) -> Vec<String> {
    let stored = store.read(id).await.unwrap();
    // The events file of a finished turn may be torn, because it is no longer needed.
    assert!(
        stored
            .warnings
            .iter()
            .all(|warning| warning.contains("events.jsonl")),
        "{:?}",
        stored.warnings
    );
    stored
        .base
        .iter()
        .map(|message| message.id.clone())
        .collect()
}

/// Opens the store after a power failure, without closing the previous one.
fn after_power_failure(fs: &SimFs, store: JsonlStore, seed: Option<u64>) -> (SimFs, JsonlStore) {
    let next = fs.lose_power(seed);
    drop(store);
    let store = open(&next);
    (next, store)
}

#[tokio::test]
async fn messages_lost_in_a_power_failure_are_restored_from_the_inbox() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (fs, id) = (SimFs::new(), instance("k"));
        let store = open(&fs);
        turn(&fs, &store, &id, "m0", RunUntil::Checkpointed).await;
        turn(&fs, &store, &id, "m1", RunUntil::Checkpointed).await;
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id).await, ["m0", "m1"]);
        // The restored messages also survive another power failure after the next turn.
        turn(&fs, &store, &id, "m2", RunUntil::Recorded).await;
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id).await, ["m0", "m1", "m2"]);
        drop(store);
        assert_eq!(base(&open(&fs.kill()), &id).await, ["m0", "m1", "m2"]);
    }
}

#[tokio::test]
async fn a_base_file_with_only_a_header_gets_no_second_header() {
    let header = {
        let (fs, id) = (SimFs::new(), instance("k"));
        turn(&fs, &open(&fs), &id, "m0", RunUntil::Checkpointed).await;
        let text = String::from_utf8(fs.contents(&base_path(&id)).unwrap()).unwrap();
        format!("{}\n", text.lines().next().unwrap())
    };
    for until in [RunUntil::Checkpointed, RunUntil::Recorded] {
        let (fs, id) = (SimFs::new(), instance("k"));
        fs.put(&base_path(&id), header.as_bytes());
        let store = open(&fs);
        turn(&fs, &store, &id, "m0", until).await;
        let fs = fs.kill();
        drop(store);
        let store = open(&fs);
        assert_eq!(base(&store, &id).await, ["m0"]);
        turn(&fs, &store, &id, "m1", RunUntil::Checkpointed).await;
        assert_eq!(base(&store, &id).await, ["m0", "m1"]);
    }
}

fn base_path(id: &InstanceId) -> PathBuf {
    layout::instance_dir(Path::new(WORKSPACE), id).join(layout::BASE)
}

#[tokio::test]
async fn a_conversation_deleted_while_the_store_is_closed_stays_deleted() {
    let (fs, id, other) = (SimFs::new(), instance("k"), instance("other"));
    let store = open(&fs);
    turn(&fs, &store, &id, "m0", RunUntil::Checkpointed).await;
    turn(&fs, &store, &other, "m1", RunUntil::Checkpointed).await;
    drop(store);
    fs.remove_folder(&layout::instance_dir(Path::new(WORKSPACE), &id))
        .unwrap();
    let store = open(&fs.kill());
    assert_eq!(base(&store, &id).await, [""; 0]);
    turn(&fs, &store, &other, "m2", RunUntil::Checkpointed).await;
    drop(store);
    // The conversation stays deleted after a later power failure.
    let store = open(&fs.lose_power(None));
    assert_eq!(base(&store, &id).await, [""; 0]);
    assert_eq!(base(&store, &other).await, ["m1", "m2"]);
}

#[tokio::test]
async fn a_closed_workspace_survives_a_power_failure() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (mut fs, id) = (SimFs::new(), instance("k"));
        let mut names = Vec::new();
        for number in 0..4 {
            let store = open(&fs);
            assert_eq!(base(&store, &id).await, names);
            names.push(format!("m{number}"));
            turn(&fs, &store, &id, &names[number], RunUntil::Checkpointed).await;
            drop(store);
            // Alternate between plain restarts and power failures.
            fs = if number % 2 == 0 {
                fs.kill()
            } else {
                fs.lose_power(seed)
            };
        }
        assert_eq!(base(&open(&fs), &id).await, names);
    }
}

#[tokio::test]
async fn closing_a_workspace_writes_carried_messages_to_the_base_file() {
    let (fs, id) = (SimFs::new(), instance("k"));
    for round in 0..30 {
        let store = open(&fs.kill());
        turn(
            &fs,
            &store,
            &id,
            &format!("m{round}-{}", "x".repeat(20_000)),
            RunUntil::Checkpointed,
        )
        .await;
    }
    let fs = fs.lose_power(None);
    let file = layout::instance_dir(Path::new(WORKSPACE), &id).join(layout::BASE);
    assert!(
        fs.contents(&file)
            .is_some_and(|bytes| bytes.len() > 300_000),
        "the base file contains most messages"
    );
    assert_eq!(base(&open(&fs), &id).await.len(), 30);
}

#[tokio::test]
async fn a_deleted_conversation_stays_deleted_after_a_power_failure() {
    let (fs, id) = (SimFs::new(), instance("k"));
    let store = open(&fs);
    turn(&fs, &store, &id, "m0", RunUntil::Checkpointed).await;
    assert!(store.delete_instance(&id).await.unwrap());
    let (_, store) = after_power_failure(&fs, store, None);
    assert_eq!(base(&store, &id).await, [""; 0]);
}

#[tokio::test]
async fn a_rewritten_conversation_survives_power_failures() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (fs, id) = (SimFs::new(), instance("k"));
        let store = open(&fs);
        turn(&fs, &store, &id, "m0", RunUntil::Checkpointed).await;
        turn(&fs, &store, &id, "m1", RunUntil::Checkpointed).await;
        rewriting_turn(&fs, &store, &id, "m0", "m2", RunUntil::Checkpointed).await;
        turn(&fs, &store, &id, "m3", RunUntil::Checkpointed).await;
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id).await, ["m2", "m3"]);
        rewriting_turn(&fs, &store, &id, "m2", "m4", RunUntil::Recorded).await;
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id).await, ["m4"]);
        turn(&fs, &store, &id, "m5", RunUntil::Checkpointed).await;
        rewriting_turn(&fs, &store, &id, "m4", "m6", RunUntil::Checkpointed).await;
        drop(store);
        assert_eq!(base(&open(&fs.lose_power(seed)), &id).await, ["m6"]);
    }
}

#[tokio::test]
async fn older_carried_messages_do_not_undo_a_rewrite_of_a_large_base() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (fs, id) = (SimFs::new(), instance("k"));
        let store = open(&fs);
        let long = "x".repeat(4_000);
        for number in 0..10 {
            turn(
                &fs,
                &store,
                &id,
                &format!("m{number}-{long}"),
                RunUntil::Checkpointed,
            )
            .await;
        }
        rewriting_turn(
            &fs,
            &store,
            &id,
            &format!("m0-{long}"),
            "summary",
            RunUntil::Checkpointed,
        )
        .await;
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id).await, ["summary"]);
        turn(&fs, &store, &id, "m2", RunUntil::Checkpointed).await;
        let (_, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id).await, ["summary", "m2"]);
    }
}

#[tokio::test]
async fn the_inbox_carries_no_messages_of_a_large_turn() {
    let (fs, id) = (SimFs::new(), instance("k"));
    let store = open(&fs);
    turn(&fs, &store, &id, "m0", RunUntil::Checkpointed).await;
    let event = event("large", &id);
    store.append(accepted(&event)).await.unwrap();
    let lease = store.claim(&id).await.unwrap();
    let mut conversation = store.open(lease).await.unwrap();
    for number in 0..1_000 {
        conversation
            .append(&append(&format!("large-{number}")))
            .await
            .unwrap();
    }
    assert!(
        conversation
            .end_turn(
                finished(&event),
                BaseChange::Append(&messages(&["large"])),
                meta(&id)
            )
            .await
            .unwrap()
    );
    let inbox = fs
        .contents(&Path::new(WORKSPACE).join(layout::INBOX))
        .unwrap();
    let last = inbox
        .trim_ascii()
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap()
        .to_owned();
    assert!(
        !String::from_utf8(last).unwrap().contains("\"fold\""),
        "the done record carries no messages"
    );
    let (_, store) = after_power_failure(&fs, store, None);
    assert_eq!(base(&store, &id).await, ["m0", "large"]);
}

#[tokio::test]
async fn messages_of_many_conversations_survive_a_power_failure() {
    let fs = SimFs::new();
    let store = open(&fs);
    let ids: Vec<InstanceId> = (0..600)
        .map(|number| instance(&number.to_string()))
        .collect();
    for (number, id) in ids.iter().enumerate() {
        turn(
            &fs,
            &store,
            id,
            &format!("m{number}"),
            RunUntil::Checkpointed,
        )
        .await;
    }
    let (_, store) = after_power_failure(&fs, store, None);
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(base(&store, id).await, [format!("m{number}")]);
    }
}
