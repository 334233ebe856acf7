//! Checkpoints: a start reads the checkpoint instead of the log. A start without a checkpoint
//! recovers the same state.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use crate::damage_table::LoggedWarnings;
use crate::formats;
use crate::swarm::WORKSPACE;
use goondan_core::agent_event::AgentEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{
    BaseChange, InstanceMeta, InstanceStatus, InstanceStore as _, RecordStore as _,
    WorkspaceLog as _,
};
use goondan_store::fs::FileSystem as _;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::samples::{
    accepted, done, event, event_by, instance, messages, meta, withdrawn,
};

fn open(fs: &SimFs) -> JsonlStore {
    JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(WORKSPACE).join(name)
}

/// Opens the workspace without its checkpoint.
fn open_without_checkpoint(fs: &SimFs) -> JsonlStore {
    fs.put(&path(layout::CHECKPOINT), b"");
    open(fs)
}

/// Runs turns in many conversations and ends the process.
async fn workspace_after_turns(conversations: usize, turns: usize) -> SimFs {
    let fs = SimFs::new();
    let store = open(&fs);
    for turn in 0..turns {
        let id = instance(&format!("k{}", turn % conversations));
        let name = format!("t{turn}");
        let change = messages(&[&name]);
        formats::turn(&store, &id, &name, BaseChange::Append(&change)).await;
    }
    drop(store);
    fs.kill()
}

fn idle(id: &InstanceId) -> InstanceMeta {
    meta(id)
}

/// Returns the metadata of all instances, sorted.
async fn instances(store: &JsonlStore) -> Vec<InstanceMeta> {
    let mut metas = store.instances().await.unwrap();
    metas.sort_by_key(InstanceMeta::id);
    metas
}

#[tokio::test]
async fn a_start_with_a_checkpoint_does_not_read_old_records() {
    let mut costs = Vec::new();
    for (conversations, turns) in [(20, 40), (200, 2_000)] {
        let fs = workspace_after_turns(conversations, turns).await;
        let before = fs.traffic();
        let store = open(&fs);
        let recovered = store.recover().await.unwrap();
        assert_eq!((recovered.pending, recovered.handled), (vec![], vec![]));
        assert!(store.earlier_result("t3").is_some());
        assert_eq!(store.earlier_result("t3x"), None);
        costs.push(fs.traffic() - before);
    }
    // Each handled event takes up to 80 bytes in the checkpoint.
    assert!(costs[1] < costs[0] + 80 * 2_000, "{costs:?}");
}

#[tokio::test]
async fn a_start_without_a_current_checkpoint_reads_the_whole_log() {
    for (damage, is_reported) in [
        ("kill", false),
        ("power failure", false),
        ("changed byte", true),
        ("cut off", false),
        ("longer log", true),
        ("removed conversation", true),
        ("lost list", true),
    ] {
        let fs = workspace_after_turns(20, 40).await;
        let file = path(layout::CHECKPOINT);
        let bytes = fs.contents(&file).unwrap();
        let mut next = fs.clone();
        match damage {
            "kill" => {
                let store = open(&fs);
                next = fs.kill();
                drop(store);
            }
            "power failure" => next = fs.lose_power(None),
            "changed byte" => {
                let mut bytes = bytes;
                bytes[90] ^= 1;
                fs.put(&file, &bytes);
            }
            "cut off" => fs.put(&file, &bytes[..bytes.len() / 2]),
            "longer log" => {
                let log = fs.contents(&path(layout::INBOX)).unwrap();
                fs.put(&path(layout::INBOX), &[&*log, b"\n"].concat());
            }
            "removed conversation" => {
                let folder = layout::instance_dir(Path::new(WORKSPACE), &instance("k3"));
                fs.remove_folder(&folder).unwrap();
            }
            _ => fs.put(&path(layout::CONVERSATIONS), b""),
        }
        let warnings = LoggedWarnings::default();
        let collected = tracing::subscriber::set_default(warnings.clone());
        let store = open(&next);
        drop(collected);
        let found = warnings.0.lock().unwrap().concat();
        assert_eq!(
            found.contains("checkpoint"),
            is_reported,
            "{damage}: {found}"
        );
        let recovered = store.recover().await.unwrap();
        assert_eq!(recovered.handled.len(), 40, "{damage}");
        let expected = if damage == "removed conversation" {
            19
        } else {
            20
        };
        assert_eq!(instances(&store).await.len(), expected, "{damage}");
    }
}

#[tokio::test]
async fn damage_to_the_handled_events_is_found_when_a_result_is_read() {
    // Damages the line with the handled events, which a start does not read.
    let fs = workspace_after_turns(20, 40).await;
    let file = path(layout::CHECKPOINT);
    let mut bytes = fs.contents(&file).unwrap();
    let at = bytes.len() - 100;
    bytes[at] ^= 1;
    fs.put(&file, &bytes);
    let store = open(&fs);
    assert_eq!(store.recover().await.unwrap().handled, []);
    let warnings = LoggedWarnings::default();
    let collected = tracing::subscriber::set_default(warnings.clone());
    assert!((0..40).all(|turn| store.earlier_result(&format!("t{turn}")).is_some()));
    drop(collected);
    assert!(warnings.0.lock().unwrap().concat().contains("is damaged"));
    drop(store);
    let store = open(&fs.kill());
    assert!((0..40).all(|turn| store.earlier_result(&format!("t{turn}")).is_some()));
}

#[tokio::test]
async fn lists_of_instances_and_records_are_current_after_changes() {
    let fs = workspace_after_turns(20, 40).await;
    let (new, deleted, retired) = (instance("new"), instance("k1"), instance("k2"));
    let change = async |store: &JsonlStore| {
        store.put_instance(&idle(&new)).await.unwrap();
        store.delete_instance(&deleted).await.unwrap();
        let meta = InstanceMeta {
            status: InstanceStatus::Retired,
            ..idle(&retired)
        };
        store.put_instance(&meta).await.unwrap();
        let value = serde_json::json!([1]);
        assert!(store.put(&new, "tool.jobs", &value, None).await.unwrap());
    };
    let store = open(&fs);
    assert_eq!(store.idle_instances(), Some(20));
    assert_eq!(instances(&store).await.len(), 20);
    change(&store).await;
    let before_restart = instances(&store).await;
    drop(store);
    let fs = fs.kill();
    let store = open(&fs);
    assert_eq!(store.idle_instances(), Some(19));
    let with_checkpoint = instances(&store).await;
    let ids_with_jobs = async |store: &JsonlStore| {
        let all = store.all_records("tool.jobs").await.unwrap();
        all.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(ids_with_jobs(&store).await, std::slice::from_ref(&new));
    drop(store);
    let store = open_without_checkpoint(&fs.kill());
    assert_eq!(store.idle_instances(), None);
    let without_checkpoint = instances(&store).await;
    assert_eq!(ids_with_jobs(&store).await, [new]);
    assert_eq!(with_checkpoint, without_checkpoint);
    assert_eq!(before_restart, without_checkpoint);
}

#[tokio::test]
async fn results_survive_a_compaction_of_the_log() {
    let fs = workspace_after_turns(5, 20).await;
    let store = open(&fs);
    let large = "x".repeat(60_000);
    for number in 0..160 {
        // Large records trigger a compaction.
        let event = AgentEvent {
            input: large.clone(),
            ..event(&format!("large{}", number % 2), &instance("k"))
        };
        store.append(accepted(&event)).await.unwrap();
        store.append(done(&event)).await.unwrap();
    }
    let length = fs.contents(&path(layout::INBOX)).unwrap().len();
    assert!(length < 8_000_000, "{length}");
    assert!(store.earlier_result("t3").is_some());
    drop(store);
    let store = open(&fs.kill());
    assert!(store.earlier_result("t3").is_some() && store.earlier_result("large1").is_some());
    drop(store);
    let recovered = open_without_checkpoint(&fs.kill()).recover().await.unwrap();
    assert_eq!(recovered.handled.len(), 22);
}

/// A change to the log, or a restart.
#[derive(Debug, Clone, Copy)]
enum LogAction {
    Accept(usize),
    Finish(usize),
    Withdraw(usize),
    Restart,
}

fn log_actions() -> impl Strategy<Value = Vec<LogAction>> {
    let action = (0..10u8, 0..20usize).prop_map(|(kind, which)| match kind {
        0..4 => LogAction::Accept(which),
        4..7 => LogAction::Finish(which),
        7 => LogAction::Withdraw(which),
        _ => LogAction::Restart,
    });
    proptest::collection::vec(action, 0..40)
}

/// Performs the actions with clean restarts, and checks the state that each start recovers.
async fn perform(actions: Vec<LogAction>) {
    let mut fs = SimFs::new();
    let mut store = open(&fs);
    let (mut pending, mut finished) = (Vec::<AgentEvent>::new(), BTreeSet::new());
    let mut known = BTreeSet::new();
    for (number, action) in actions.into_iter().enumerate() {
        match action {
            LogAction::Accept(which) => {
                let target = instance(&format!("k{}", which % 3));
                let id = format!("e{number}");
                let event = match which % 2 {
                    0 => event(&id, &target),
                    _ => event_by(&id, &instance(&format!("k{}", which % 5)), &target),
                };
                store.append(accepted(&event)).await.unwrap();
                pending.push(event);
            }
            LogAction::Finish(which) if !pending.is_empty() => {
                let event = pending.remove(which % pending.len());
                store.append(done(&event)).await.unwrap();
                finished.insert(event.id);
            }
            LogAction::Withdraw(which) if !pending.is_empty() => {
                let event = pending.remove(which % pending.len());
                store.append(withdrawn(&event)).await.unwrap();
            }
            LogAction::Finish(_) | LogAction::Withdraw(_) => {}
            LogAction::Restart => {
                drop(store);
                fs = fs.kill();
                store = open(&fs);
                let recovered = store.recover().await.unwrap();
                assert_eq!(recovered.pending, pending);
                let handled = recovered.handled.into_iter();
                known = handled.map(|handled| handled.event_id).collect();
                let is_known =
                    |id: &String| known.contains(id) || store.earlier_result(id).is_some();
                assert!(finished.iter().all(is_known), "{finished:?}");
                assert!(pending.iter().all(|event| !is_known(&event.id)));
            }
        }
    }
    drop((store, known));
    let recovered = open_without_checkpoint(&fs.kill()).recover().await.unwrap();
    assert_eq!(recovered.pending, pending);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn starts_with_and_without_a_checkpoint_recover_the_same_events(actions in log_actions()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(perform(actions));
    }
}
