//! Files that are torn, garbled, lost, or deleted while they are in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checks::check;
use super::swarm::{Process, WORKSPACE, World, a};
use crate::event::{RuntimeEvent, RuntimeEventKind};
use crate::ids::{InstanceId, TraceContext};
use crate::instance::take_up;
use crate::message::{MessageEvent, Role};
use crate::ports::store::{Fold, InstanceStatus, Store};
use crate::store::fs::FileSystem;
use crate::store::fs::sim::SimFs;
use crate::store::jsonl::{JsonlStore, layout};
use crate::store::suite::samples::{accepted, append, event, instance, messages, meta, submit};

fn file(name: &str) -> PathBuf {
    layout::instance_dir(Path::new(WORKSPACE), &a()).join(name)
}

/// A swarm that was killed in the middle of its first turn.
async fn killed() -> (SimFs, World) {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    fs.die_after(40);
    process.send("one").await;
    drop(process);
    (fs.kill(), world)
}

#[tokio::test]
async fn garbage_behind_the_last_line_of_any_file_does_no_harm() {
    let inbox = Path::new(WORKSPACE).join(layout::INBOX);
    for path in [inbox, file(layout::BASE), file(layout::EVENTS), file(layout::JOURNAL), file(layout::RUNTIME_EVENTS)] {
        for garbage in [&b"{\"record\":\"accepted\",\"event\":{\"id\":\"torn"[..], &[0; 600], b"\xff\xfe\n\n{}"] {
            let (fs, world) = killed().await;
            let mut bytes = fs.contents(&path).unwrap_or_default();
            bytes.extend_from_slice(garbage);
            fs.put(&path, &bytes);
            let process = Process::start(&fs, &world).await.unwrap();
            check(process, &fs, &world).await;
        }
    }
}

#[tokio::test]
async fn an_instance_without_readable_metadata_is_listed() {
    for metadata in [None, Some(&b""[..]), Some(b"{\"status\":"), Some(b"\0\0\0")] {
        let (fs, world) = killed().await;
        match metadata {
            None => fs.rename(&file(layout::METADATA), Path::new("/lost")).unwrap(),
            Some(bytes) => fs.put(&file(layout::METADATA), bytes),
        }
        let process = Process::start(&fs, &world).await.unwrap();
        let ids: Vec<_> = process.runtime.instances().await.iter().map(|meta| meta.id()).collect();
        assert!(ids.contains(&a()), "{ids:?}");
        check(process, &fs, &world).await;
    }
}

#[test]
fn metadata_is_made_again_from_the_conversation() {
    let fs = SimFs::new();
    let long = instance(&"long".repeat(100));
    let store = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    for id in [instance("a:b/c"), long] {
        let mut conversation = store.open(&id).unwrap();
        conversation.load().unwrap();
        conversation.fold(Fold::Append(&messages(&["m0"]))).unwrap();
    }
    let metas = store.instances().unwrap();
    // A name that was shortened does not tell its key.
    assert_eq!(metas, [meta(&instance("a:b/c"))]);
    assert_eq!(store.instances().unwrap(), metas);
}

#[tokio::test]
async fn an_instance_that_is_deleted_while_it_is_in_use_begins_anew() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("quiet").await.unwrap();
    fs.remove_folder(&layout::instance_dir(Path::new(WORKSPACE), &a())).unwrap();
    // It had its conversation in memory; what it says must not go to files that have no names any more.
    let result = process.send("one").await.unwrap();
    assert_eq!(result.error, None);
    drop(process);
    let process = Process::start(&fs.lose_power(None), &world).await.unwrap();
    process.send("two").await.unwrap();
    let messages = process.runtime.conversation(&a()).await.unwrap();
    assert_eq!(messages[0].text(), "input one");
}

#[test]
fn a_torn_acceptance_was_never_acknowledged() {
    let fs = SimFs::new();
    let open = |fs: &SimFs| JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    let store = open(&fs);
    submit(&store, accepted(&event("one", &a()))).unwrap();
    fs.die_after(0);
    assert!(submit(&store, accepted(&event("two", &a()))).is_err());
    drop(store);
    let recovered = open(&fs.kill()).recover().unwrap();
    assert_eq!(recovered.pending.iter().map(|event| &*event.id).collect::<Vec<_>>(), ["one"]);
    assert_eq!(recovered.warnings.len(), 1, "{:?}", recovered.warnings);
    assert!(recovered.warnings[0].contains("inbox.jsonl:2: dropped a line that was cut off"));
}

#[test]
fn calls_that_a_lost_turn_left_open_get_a_result() {
    let store = crate::store::memory::MemoryStore::new(PathBuf::from("/nowhere"));
    let mut conversation = store.open(&a()).unwrap();
    let mut message = crate::store::suite::samples::message("turn-x-m1", Role::Assistant);
    let call = |id: &str| {
        let (tool_call_id, tool_name) = (id.to_owned(), "world__once".to_owned());
        crate::message::Part::ToolCall(crate::message::ToolCall {
            tool_call_id,
            tool_name,
            input: serde_json::json!({}),
        })
    };
    message.data.content.extend([call("c1"), call("c2")]);
    conversation.append(&append("turn-x-m0")).unwrap();
    conversation.append(&MessageEvent::Append { message }).unwrap();
    let (whole, _) = take_up(&mut *conversation, "turn-y", |_| Ok(true), chrono::DateTime::UNIX_EPOCH).unwrap();
    let last = whole.last().unwrap();
    let results: Vec<_> = last.tool_results().map(|result| &*result.tool_call_id).collect();
    assert_eq!((last.data.role, results), (Role::Tool, vec!["c1", "c2"]));
    assert!(last.tool_results().all(|result| result.error.as_ref().unwrap().code == "E_TOOL_INTERRUPTED"));
    assert_eq!(whole.unanswered_calls(), Vec::<&crate::message::ToolCall>::new());
    let stored = conversation.load().unwrap();
    assert_eq!((stored.base.len(), stored.events.len()), (3, 0));
}

#[tokio::test]
async fn an_instance_is_not_processing_for_ever() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("one").await.unwrap();
    drop(process);
    let fs = fs.kill();
    let text = String::from_utf8(fs.contents(&file(layout::METADATA)).unwrap()).unwrap();
    fs.put(&file(layout::METADATA), text.replace("idle", "processing").as_bytes());
    let mut process = Process::start(&fs, &world).await.unwrap();
    process.wait_for(|messages| super::swarm::answers(messages) >= 1).await;
    process.runtime.shutdown(std::time::Duration::from_secs(60)).await;
    let text = String::from_utf8(fs.contents(&file(layout::METADATA)).unwrap()).unwrap();
    let meta: crate::ports::store::InstanceMeta = serde_json::from_str(&text).unwrap();
    assert_eq!(meta.status, InstanceStatus::Idle);
}

#[test]
fn one_instance_whose_events_cannot_be_written_does_not_stop_the_others() {
    let fs = SimFs::new();
    let (bad, good) = (instance("bad"), instance("good"));
    // Where its folder should be lies a file.
    fs.put(&layout::instance_dir(Path::new(WORKSPACE), &bad), b"in the way");
    let store = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    let started = |id: &InstanceId| RuntimeEvent {
        kind: RuntimeEventKind::TurnStarted {
            turn_id: "turn-x".to_owned(),
            event_id: "x".to_owned(),
            event_type: crate::reserved::INPUT.to_owned(),
        },
        timestamp: chrono::DateTime::UNIX_EPOCH,
        agent_name: id.agent.clone(),
        instance_key: id.instance_key.clone(),
        trace: TraceContext::root("0", None, "turn-x"),
    };
    for id in [&bad, &good, &bad, &good] {
        store.log(&std::sync::Arc::new(started(id)));
    }
    drop(store);
    let path = layout::instance_dir(Path::new(WORKSPACE), &good).join(layout::RUNTIME_EVENTS);
    let lines = String::from_utf8(fs.contents(&path).unwrap()).unwrap();
    assert_eq!(lines.lines().count(), 2);
}
