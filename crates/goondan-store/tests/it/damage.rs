//! Files that are torn, garbled, lost, or deleted while in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::invariants::check;
use crate::swarm::{Process, WORKSPACE, World, a};
use goondan_core::event::{RuntimeEvent, RuntimeEventKind};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::ports::store::{
    BaseChange, ConversationStore as _, InstanceStatus, InstanceStore as _, RuntimeEventStore as _,
    WorkspaceLog as _,
};
use goondan_store::fs::FileSystem;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::samples::{accepted, event, instance, messages, meta};

fn file(name: &str) -> PathBuf {
    layout::instance_dir(Path::new(WORKSPACE), &a()).join(name)
}

/// Returns a swarm that was killed in the middle of its first turn.
async fn killed() -> (SimFs, World) {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    fs.kill_after(40);
    process.send("one").await;
    drop(process);
    (fs.kill(), world)
}

#[tokio::test]
async fn garbage_after_the_last_line_of_any_file_is_ignored() {
    let inbox = Path::new(WORKSPACE).join(layout::INBOX);
    for path in [
        inbox,
        file(layout::BASE),
        file(layout::EVENTS),
        file(layout::JOURNAL),
        file(layout::RUNTIME_EVENTS),
    ] {
        for garbage in [
            &b"{\"record\":\"accepted\",\"event\":{\"id\":\"torn"[..],
            &[0; 600],
            b"\xff\xfe\n\n{}",
        ] {
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
            None => fs
                .rename(&file(layout::METADATA), Path::new("/lost"))
                .unwrap(),
            Some(bytes) => fs.put(&file(layout::METADATA), bytes),
        }
        let process = Process::start(&fs, &world).await.unwrap();
        let ids: Vec<_> = process
            .runtime
            .instances()
            .await
            .iter()
            .map(|meta| meta.id())
            .collect();
        assert!(ids.contains(&a()), "{ids:?}");
        check(process, &fs, &world).await;
    }
}

#[tokio::test]
async fn missing_metadata_is_rebuilt_from_the_directory_name() {
    let fs = SimFs::new();
    let long = instance(&"long".repeat(100));
    let store = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    for id in [instance("a:b/c"), long] {
        let lease = store.claim(&id).await.unwrap();
        let mut conversation = store.open(lease).await.unwrap();
        conversation
            .checkpoint(BaseChange::Append(&messages(&["m0"])))
            .await
            .unwrap();
    }
    let metas = store.instances().await.unwrap();
    // A shortened name does not contain its key.
    assert_eq!(metas, [meta(&instance("a:b/c"))]);
    assert_eq!(store.instances().await.unwrap(), metas);
}

#[tokio::test]
async fn an_instance_deleted_while_in_use_restarts_empty() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("quiet").await.unwrap();
    fs.remove_folder(&layout::instance_dir(Path::new(WORKSPACE), &a()))
        .unwrap();
    // The conversation was in memory; the next turn must not write to the deleted files.
    let result = process.send("one").await.unwrap();
    assert_eq!(result.error, None);
    drop(process);
    let process = Process::start(&fs.lose_power(None), &world).await.unwrap();
    process.send("two").await.unwrap();
    let messages = process.runtime.conversation(&a()).await.unwrap();
    assert_eq!(messages[0].text(), "input one");
}

#[tokio::test]
async fn a_torn_accepted_record_is_dropped_with_a_warning() {
    let fs = SimFs::new();
    let open = |fs: &SimFs| JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    let store = open(&fs);
    store.append(accepted(&event("one", &a()))).await.unwrap();
    fs.kill_after(0);
    assert!(store.append(accepted(&event("two", &a()))).await.is_err());
    drop(store);
    let recovered = open(&fs.kill()).recover().await.unwrap();
    assert_eq!(
        recovered
            .pending
            .iter()
            .map(|event| &*event.id)
            .collect::<Vec<_>>(),
        ["one"]
    );
    assert_eq!(recovered.warnings.len(), 1, "{:?}", recovered.warnings);
    assert!(recovered.warnings[0].contains("inbox.jsonl:3: dropped a line that was cut off"));
}

#[tokio::test]
async fn a_stale_processing_status_becomes_idle() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("one").await.unwrap();
    drop(process);
    let fs = fs.kill();
    let text = String::from_utf8(fs.contents(&file(layout::METADATA)).unwrap()).unwrap();
    fs.put(
        &file(layout::METADATA),
        text.replace("idle", "processing").as_bytes(),
    );
    let mut process = Process::start(&fs, &world).await.unwrap();
    process
        .wait_for(|messages| crate::swarm::answers(messages) >= 1)
        .await;
    process
        .runtime
        .shutdown(std::time::Duration::from_secs(60))
        .await;
    let text = String::from_utf8(fs.contents(&file(layout::METADATA)).unwrap()).unwrap();
    let meta: goondan_core::ports::store::InstanceMeta = serde_json::from_str(&text).unwrap();
    assert_eq!(meta.status, InstanceStatus::Idle);
}

#[test]
fn an_unwritable_event_file_does_not_block_other_instances() {
    let fs = SimFs::new();
    let (bad, good) = (instance("bad"), instance("good"));
    // A file occupies the path of the instance directory.
    fs.put(
        &layout::instance_dir(Path::new(WORKSPACE), &bad),
        b"in the way",
    );
    let store = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    let started = |id: &InstanceId| RuntimeEvent {
        kind: RuntimeEventKind::TurnStarted {
            turn_id: "turn-x".to_owned(),
            event_id: "x".to_owned(),
            event_type: goondan_core::reserved_names::INPUT_EVENT.to_owned(),
        },
        sequence: 1,
        timestamp: chrono::DateTime::UNIX_EPOCH,
        agent_name: id.agent.clone(),
        instance_key: id.instance_key.clone(),
        trace: TraceContext::root("0", None, "turn-x"),
    };
    for id in [&bad, &good, &bad, &good] {
        store.record(&Arc::new(started(id)));
    }
    drop(store);
    let path = layout::instance_dir(Path::new(WORKSPACE), &good).join(layout::RUNTIME_EVENTS);
    let lines = String::from_utf8(fs.contents(&path).unwrap()).unwrap();
    assert_eq!(lines.matches("turn.started").count(), 2);
}

#[tokio::test]
async fn a_finished_non_idempotent_call_is_not_repeated_without_a_journal() {
    let mut checked = 0;
    for crash in 10..100 {
        let (fs, world) = (SimFs::new(), World::default());
        let process = Process::start(&fs, &world).await.unwrap();
        fs.kill_after(crash);
        // Tools of a killed process never return.
        let dead = async {
            while !fs.is_dead() {
                tokio::task::yield_now().await
            }
        };
        tokio::select! {
            _ = process.send("one") => {}
            () = dead => {}
        }
        process.runtime.kill();
        let fs = fs.kill();
        let events = fs.contents(&file(layout::EVENTS)).unwrap_or_default();
        let has_result =
            String::from_utf8_lossy(&events).contains(r#""toolName":"world__once","status":"ok""#);
        // A torn line is not a result.
        if !has_result || !events.ends_with(b"\n") {
            continue;
        }
        fs.put(&file(layout::JOURNAL), b"");
        let process = Process::start(&fs, &world).await.unwrap();
        let result = process.send("one").await.unwrap();
        assert_eq!(result.error, None);
        checked += 1;
        assert_eq!(world.lock().unwrap()["once-one"], 1, "crash {crash}");
    }
    assert!(checked > 0);
}

#[tokio::test]
async fn a_finished_turn_without_its_done_record_does_not_run_again() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    let first = process.send("one").await.unwrap();
    drop(process);
    let fs = fs.kill();
    let inbox = Path::new(WORKSPACE).join(layout::INBOX);
    let text = String::from_utf8(fs.contents(&inbox).unwrap()).unwrap();
    let kept = text
        .split_inclusive('\n')
        .filter(|line| line.contains(r#""record":"accepted""#) && line.contains(r#""id":"one""#));
    fs.put(&inbox, kept.collect::<String>().as_bytes());
    let counts = world.lock().unwrap().clone();
    let process = Process::start(&fs, &world).await.unwrap();
    let again = process.send("one").await.unwrap();
    assert_eq!(again.error, None);
    assert_eq!(again.response_text(), first.response_text());
    assert_eq!(*world.lock().unwrap(), counts);
}

#[tokio::test]
async fn a_changed_message_fails_the_checksum() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("quiet").await.unwrap();
    drop(process);
    let fs = fs.kill();
    // The start rewrites carried messages, so the file is changed after it.
    let store = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    let text = String::from_utf8(fs.contents(&file(layout::BASE)).unwrap()).unwrap();
    fs.put(
        &file(layout::BASE),
        text.replace("input quiet", "input quick").as_bytes(),
    );
    let stored = store.read(&a()).await.unwrap();
    assert_eq!(stored.warnings.len(), 1);
    assert!(stored.warnings[0].contains("its checksum does not match"));
}
