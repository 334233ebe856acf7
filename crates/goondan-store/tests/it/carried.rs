//! Turns whose messages the inbox carries until their conversations are on disk.

use std::path::Path;
use std::sync::Arc;

use crate::swarm::WORKSPACE;
use goondan_core::ids::InstanceId;
use goondan_core::message::MessageEvent;
use goondan_core::ports::store::{Fold, InboxRecord, Store};
use goondan_store::fs::FileSystem;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::samples::{accepted, append, done, event, instance, message, messages, submit};

fn open(fs: &SimFs) -> JsonlStore {
    JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap()
}

/// A turn that adds one message, up to its fold, or up to the record that ends it.
fn turn(store: &JsonlStore, id: &InstanceId, name: &str, is_folded: bool) {
    let event = event(name, id);
    submit(store, accepted(&event)).unwrap();
    let mut conversation = store.open(id).unwrap();
    conversation.load().unwrap();
    conversation.append(&append(name)).unwrap();
    let new = messages(&[name]);
    let carried = conversation.carry(&event.turn_id(), Fold::Append(&new)).unwrap();
    let mut record = done(&event);
    if let InboxRecord::Done { fold, .. } = &mut record {
        *fold = Some(Box::new(carried.unwrap()));
    }
    submit(store, record).unwrap();
    if is_folded {
        conversation.fold(Fold::Append(&new)).unwrap();
    }
}

fn base(store: &JsonlStore, id: &InstanceId) -> Vec<String> {
    let stored = store.open(id).unwrap().load().unwrap();
    // Events of a turn that was over may be torn: nobody needs them.
    assert!(stored.warnings.iter().all(|warning| warning.contains("events.jsonl")), "{:?}", stored.warnings);
    stored.base.iter().map(|message| message.id.clone()).collect()
}

/// The next process after a power failure; the one before it has closed nothing.
fn after_power_failure(fs: &SimFs, store: JsonlStore, seed: Option<u64>) -> (SimFs, JsonlStore) {
    let next = fs.lose_power(seed);
    drop(store);
    let store = open(&next);
    (next, store)
}

#[test]
fn what_a_power_failure_takes_from_a_conversation_the_inbox_gives_back() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (fs, id) = (SimFs::new(), instance("k"));
        let store = open(&fs);
        turn(&store, &id, "m0", true);
        turn(&store, &id, "m1", true);
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id), ["m0", "m1"]);
        // Nor is it lost with the next failure, of a process that has built on it.
        turn(&store, &id, "m2", false);
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id), ["m0", "m1", "m2"]);
        drop(store);
        assert_eq!(base(&open(&fs.kill()), &id), ["m0", "m1", "m2"]);
    }
}

#[test]
fn a_workspace_that_was_closed_carries_nothing() {
    let (fs, id) = (SimFs::new(), instance("k"));
    let store = open(&fs);
    turn(&store, &id, "m0", true);
    drop(store);
    let fs = fs.lose_power(None);
    let file = layout::instance_dir(Path::new(WORKSPACE), &id).join(layout::BASE);
    assert!(!fs.contents(&file).unwrap().is_empty());
    // Somebody deletes the conversation while nothing runs: it does not come back.
    fs.remove_folder(&layout::instance_dir(Path::new(WORKSPACE), &id)).unwrap();
    assert_eq!(base(&open(&fs), &id), [""; 0]);
}

#[test]
fn a_conversation_that_was_deleted_does_not_come_back() {
    let (fs, id) = (SimFs::new(), instance("k"));
    let store = open(&fs);
    turn(&store, &id, "m0", true);
    assert!(store.delete(&id).unwrap());
    let (_, store) = after_power_failure(&fs, store, None);
    assert_eq!(base(&store, &id), [""; 0]);
}

/// A turn that puts the message `name` in the place of all others, which begin with `first`.
fn rewriting_turn(store: &JsonlStore, id: &InstanceId, first: &str, name: &str, is_folded: bool) {
    let event = event(name, id);
    submit(store, accepted(&event)).unwrap();
    let mut conversation = store.open(id).unwrap();
    conversation.load().unwrap();
    let message = message(name, goondan_core::message::Role::User);
    conversation.append(&MessageEvent::Replace { target_id: first.to_owned(), message }).unwrap();
    let whole = messages(&[name]);
    let carried = conversation.carry(&event.turn_id(), Fold::Rewrite(&whole)).unwrap();
    if carried.is_none() {
        conversation.sync().unwrap();
    }
    let mut record = done(&event);
    if let InboxRecord::Done { fold, .. } = &mut record {
        *fold = carried.map(Box::new);
    }
    submit(store, record).unwrap();
    if is_folded {
        conversation.fold(Fold::Rewrite(&whole)).unwrap();
    }
}

#[test]
fn a_conversation_that_was_rewritten_comes_back_as_it_was_last() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (fs, id) = (SimFs::new(), instance("k"));
        let store = open(&fs);
        turn(&store, &id, "m0", true);
        turn(&store, &id, "m1", true);
        rewriting_turn(&store, &id, "m0", "m2", true);
        turn(&store, &id, "m3", true);
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id), ["m2", "m3"]);
        rewriting_turn(&store, &id, "m2", "m4", false);
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id), ["m4"]);
        turn(&store, &id, "m5", true);
        rewriting_turn(&store, &id, "m4", "m6", true);
        drop(store);
        assert_eq!(base(&open(&fs.lose_power(seed)), &id), ["m6"]);
    }
}

#[test]
fn a_large_base_that_is_rewritten_is_not_undone_by_what_was_carried_before() {
    for seed in std::iter::once(None).chain((0..40).map(Some)) {
        let (fs, id) = (SimFs::new(), instance("k"));
        let store = open(&fs);
        let long = "x".repeat(4_000);
        for number in 0..10 {
            turn(&store, &id, &format!("m{number}-{long}"), true);
        }
        rewriting_turn(&store, &id, &format!("m0-{long}"), "summary", true);
        let (fs, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id), ["summary"]);
        turn(&store, &id, "m2", true);
        let (_, store) = after_power_failure(&fs, store, seed);
        assert_eq!(base(&store, &id), ["summary", "m2"]);
    }
}

#[test]
fn a_large_turn_is_synced_where_it_is() {
    let (fs, id) = (SimFs::new(), instance("k"));
    let store = open(&fs);
    turn(&store, &id, "m0", true);
    let mut conversation = store.open(&id).unwrap();
    for number in 0..1_000 {
        conversation.append(&append(&format!("large-{number}"))).unwrap();
    }
    let new = messages(&["large"]);
    assert_eq!(conversation.carry("turn-large", Fold::Append(&new)).unwrap(), None);
    conversation.sync().unwrap();
    conversation.fold(Fold::Append(&new)).unwrap();
    submit(&store, done(&event("large", &id))).unwrap();
    let (_, store) = after_power_failure(&fs, store, None);
    assert_eq!(base(&store, &id), ["m0", "large"]);
}

#[test]
fn many_conversations_are_settled_while_the_swarm_runs() {
    let fs = SimFs::new();
    let store = open(&fs);
    let ids: Vec<InstanceId> = (0..600).map(|number| instance(&number.to_string())).collect();
    for (number, id) in ids.iter().enumerate() {
        turn(&store, id, &format!("m{number}"), true);
    }
    let (_, store) = after_power_failure(&fs, store, None);
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(base(&store, id), [format!("m{number}")]);
    }
}
