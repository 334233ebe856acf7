//! Inspections, repaired copies and backups of a workspace on a real disk.

use std::fs;
use std::path::{Path, PathBuf};

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{
    BaseChange, ConversationStore as _, InstanceStore as _, WorkspaceLog as _,
};
use goondan_store::jsonl::{JsonlStore, back_up_watched, inspect, layout, repair};
use goondan_store::suite::samples::{append, instance, messages};

use crate::formats;

/// Runs a turn that appends one message.
async fn turn(store: &JsonlStore, id: &InstanceId, name: &str) {
    let change = messages(&[name]);
    formats::turn(store, id, name, BaseChange::Append(&change)).await;
}

async fn ids(store: &JsonlStore, id: &InstanceId) -> Vec<String> {
    let stored = store.read(id).await.unwrap();
    assert_eq!(stored.warnings, [""; 0]);
    stored
        .base
        .iter()
        .map(|message| message.id.clone())
        .collect()
}

async fn workspace(dir: &Path) {
    let store = JsonlStore::open(dir).unwrap();
    for name in ["m0", "m1", "m2"] {
        turn(&store, &instance("one"), name).await;
        turn(&store, &instance("two"), &format!("{name}-two")).await;
    }
}

fn base(dir: &Path, key: &str) -> PathBuf {
    layout::instance_dir(dir, &instance(key)).join(layout::BASE)
}

/// Returns the contents of all files, by path.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(contents(&path)),
            false => files.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn an_intact_workspace_has_no_problems() {
    let dir = tempfile::tempdir().unwrap();
    workspace(dir.path()).await;
    let before = contents(dir.path());
    let found = inspect(dir.path(), false).unwrap();
    assert_eq!(found.problems, [""; 0]);
    assert_eq!((found.conversations, found.notes.len()), (2, 0));
    assert!(found.records >= 18, "{}", found.records);
    assert_eq!(contents(dir.path()), before);
}

#[tokio::test]
async fn damage_is_reported_and_repaired_in_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (damaged, copy) = (dir.path().join("w"), dir.path().join("copy"));
    fs::create_dir(&damaged).unwrap();
    workspace(&damaged).await;
    let path = base(&damaged, "one");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("m1", "mX", 1)).unwrap();
    let metadata = layout::instance_dir(&damaged, &instance("two")).join(layout::METADATA);
    fs::write(&metadata, "{").unwrap();
    let before = contents(&damaged);
    let found = inspect(&damaged, false).unwrap().problems;
    assert!(
        found[0].contains("base.jsonl:3: skipped a line that was changed"),
        "{found:?}"
    );
    assert!(
        found[1].contains("metadata.json: is not valid"),
        "{found:?}"
    );
    assert_eq!(found.len(), 2);

    let report = repair(&damaged, &copy).unwrap();
    assert_eq!(contents(&damaged), before);
    assert_eq!(report.lost.len(), 2, "{:?}", report.lost);
    assert!(
        repair(&damaged, &copy).is_err(),
        "a copy is not overwritten"
    );
    let found = inspect(&copy, false).unwrap();
    assert_eq!(found.problems, [""; 0]);
    assert!(found.notes[0].contains("is missing; the next start rebuilds it"));
    let store = JsonlStore::open(&copy).unwrap();
    // The changed message is restored from the log.
    assert_eq!(ids(&store, &instance("one")).await.len(), 3);
    assert_eq!(
        ids(&store, &instance("two")).await,
        ["m0-two", "m1-two", "m2-two"]
    );
    assert_eq!(store.instances().await.unwrap().len(), 2);
}

#[tokio::test]
async fn repair_and_backup_copy_all_files_except_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("w"), dir.path().join("copy"));
    fs::create_dir(&source).unwrap();
    workspace(&source).await;
    let connection = Path::new("connections/lock/state.json");
    fs::create_dir_all(source.join(connection).parent().unwrap()).unwrap();
    fs::write(source.join(connection), "{}").unwrap();
    let one = layout::instance_dir(Path::new(""), &instance("one"));
    let workdir = one.join(layout::WORKDIR);
    fs::create_dir_all(source.join(&workdir)).unwrap();
    fs::write(source.join(&workdir).join("not.json"), "{").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("not.json", source.join(&workdir).join("link")).unwrap();
    let extensions = source.join(&one).join(layout::EXTENSIONS);
    fs::create_dir_all(extensions.join("a.json")).unwrap();
    fs::write(extensions.join("b.json"), "1").unwrap();

    let report = repair(&source, &copy).unwrap();
    assert_eq!(report.lost.len(), 1, "{:?}", report.lost);
    assert!(report.lost[0].contains("a.json: can't be read: "));
    assert!(copy.join(connection).exists());
    assert!(!copy.join(layout::LOCK).exists());
    let copied = copy.join(&workdir);
    assert_eq!(fs::read_to_string(copied.join("not.json")).unwrap(), "{");
    #[cfg(unix)]
    assert!(copied.join("link").is_symlink());
    let extensions = copy.join(one).join(layout::EXTENSIONS);
    assert_eq!(fs::read_dir(extensions).unwrap().count(), 1);
    let backup = dir.path().join("backup");
    back_up_watched(&source, &backup, &mut |_| {}).unwrap();
    assert!(backup.join(connection).exists() && !backup.join(layout::LOCK).exists());
}

#[tokio::test]
async fn inspection_reports_a_turn_whose_event_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    workspace(dir.path()).await;
    let store = JsonlStore::open(dir.path()).unwrap();
    let lease = store.claim(&instance("one")).await.unwrap();
    let mut conversation = store.open(lease).await.unwrap();
    conversation.append(&append("turn-lost-m0")).await.unwrap();
    drop((conversation, store));
    let found = inspect(dir.path(), false).unwrap().problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("turn turn-lost began, but the log does not contain its event"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_workspace_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("w"), dir.path().join("copy"));
    fs::create_dir(&source).unwrap();
    workspace(&source).await;
    let store = JsonlStore::open(&source).unwrap();
    let mut extra_rounds = 0;
    // During the copy, turns end in conversations that are already copied, and a conversation is
    // created and deleted.
    let report = back_up_watched(&source, &copy, &mut |_| {
        if extra_rounds >= 6 {
            return;
        }
        extra_rounds += 1;
        let work = async {
            turn(&store, &instance("one"), &format!("later-{extra_rounds}")).await;
            turn(
                &store,
                &instance(&format!("new-{}", extra_rounds % 2)),
                &format!("new-{extra_rounds}"),
            )
            .await;
            if extra_rounds == 5 {
                store.delete_instance(&instance("new-0")).await.unwrap();
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
    });
    let report = report.unwrap();
    assert!(report.rounds > 1);
    assert_eq!(extra_rounds, 6);
    let mut expected = Vec::new();
    for key in ["one", "two", "new-0", "new-1"] {
        expected.push(ids(&store, &instance(key)).await);
    }
    drop(store);
    assert_eq!(inspect(&copy, false).unwrap().problems, [""; 0]);
    let store = JsonlStore::open(&copy).unwrap();
    for (key, expected) in ["one", "two", "new-0", "new-1"].into_iter().zip(expected) {
        assert_eq!(ids(&store, &instance(key)).await, expected, "{key}");
    }
    let recovered = store.recover().await.unwrap();
    assert_eq!((recovered.pending.len(), recovered.warnings.len()), (0, 0));
}

#[tokio::test]
async fn a_truncated_header_is_a_note_and_not_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    workspace(dir.path()).await;
    let path = layout::instance_dir(dir.path(), &instance("one")).join(layout::RUNTIME_EVENTS);
    fs::write(&path, "{\"format\":\"gdn-runtime-ev").unwrap();
    let found = inspect(dir.path(), false).unwrap();
    assert_eq!(found.problems, [""; 0]);
    assert!(
        found.notes[0].contains(".jsonl:1: dropped a line that was cut off"),
        "{:?}",
        found.notes
    );
    assert_eq!(inspect(dir.path(), true).unwrap().notes, [""; 0]);
}
