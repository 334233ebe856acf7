//! File formats: the current format with sequence numbers, earlier formats, and newer formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::swarm::WORKSPACE;
use goondan_core::ids::InstanceId;
use goondan_core::ports::journal::TurnJournalStore as _;
use goondan_core::ports::store::{
    BaseChange, ConversationStore as _, FinishedTurn, RecoveredState, WorkspaceLog as _,
};
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::samples::{accepted, append, event, finished, instance, messages, meta};

/// Files that gdn wrote before files had headers. The turn of the conversation `done` is over; the
/// turn of `cut` was killed during a non-idempotent call.
const VERSION_1: [(&str, &str); 8] = [
    ("inbox.jsonl", include_str!("formats/version1/inbox.jsonl")),
    (
        "done/messages/base.jsonl",
        include_str!("formats/version1/done-base.jsonl"),
    ),
    (
        "done/messages/runtime-events.jsonl",
        include_str!("formats/version1/done-runtime-events.jsonl"),
    ),
    (
        "done/metadata.json",
        include_str!("formats/version1/done-metadata.json"),
    ),
    (
        "cut/messages/events.jsonl",
        include_str!("formats/version1/cut-events.jsonl"),
    ),
    (
        "cut/messages/journal.jsonl",
        include_str!("formats/version1/cut-journal.jsonl"),
    ),
    (
        "cut/messages/runtime-events.jsonl",
        include_str!("formats/version1/cut-runtime-events.jsonl"),
    ),
    (
        "cut/metadata.json",
        include_str!("formats/version1/cut-metadata.json"),
    ),
];

/// ID of the turn of `cut`.
const CUT_TURN: &str = "turn-2f9eba570f568702";

fn id(key: &str) -> InstanceId {
    InstanceId::new("assistant", key)
}

fn path(name: &str) -> PathBuf {
    match name.split_once('/') {
        None => Path::new(WORKSPACE).join(name),
        Some((key, file)) => layout::instance_dir(Path::new(WORKSPACE), &id(key)).join(file),
    }
}

fn open(fs: &SimFs) -> JsonlStore {
    JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap()
}

fn text(fs: &SimFs, path: &Path) -> String {
    String::from_utf8(fs.contents(path).unwrap_or_default()).unwrap()
}

/// Removes the checksums, which the first version of gdn did not write.
fn without_checksums(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(",\"crc\":") {
        Some((start, _)) => format!("{start}}}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Returns the state of a workspace in an earlier format.
fn earlier(convert: impl Fn(&str) -> String) -> SimFs {
    let fs = SimFs::new();
    for (name, text) in VERSION_1 {
        fs.put(&path(name), convert(text).as_bytes());
    }
    fs
}

async fn recover(store: &JsonlStore) -> RecoveredState {
    store.recover().await.unwrap()
}

#[tokio::test]
async fn files_of_earlier_formats_are_read_and_continued() {
    let formats: [fn(&str) -> String; 2] = [str::to_owned, without_checksums];
    for (convert, is_power_lost) in formats.into_iter().zip([true, false]) {
        let fs = earlier(convert);
        let store = open(&fs);
        let recovered = recover(&store).await;
        assert_eq!(recovered.warnings, [""; 0]);
        assert_eq!((recovered.pending.len(), recovered.handled.len()), (1, 1));
        assert_eq!(recovered.pending[0].target, id("cut"));
        let done = store.read(&id("done")).await.unwrap();
        assert_eq!((done.base.len(), done.warnings), (4, vec![]));
        let journal = store.open_journal(&id("cut"), CUT_TURN).await.unwrap();
        assert!(journal.has_outcome("step-0/model") && journal.has_intent("step-0/tool-0"));
        drop(journal);
        // The next turn of a conversation appends to the old file in the old format.
        turn(
            &store,
            &id("done"),
            "next",
            BaseChange::Append(&messages(&["next"])),
        )
        .await;
        let base = text(&fs, &path("done/messages/base.jsonl"));
        assert!(
            !base.contains("\"format\"") && !base.contains("\"seq\""),
            "{base}"
        );
        drop(store);
        let fs = match is_power_lost {
            true => fs.lose_power(None),
            false => fs.kill(),
        };
        let store = open(&fs);
        let done = store.read(&id("done")).await.unwrap();
        assert_eq!((done.base.len(), done.warnings), (5, vec![]));
        // A rewrite uses the current format.
        let rewritten = BaseChange::Rewrite(&messages(&["summary"]));
        turn(&store, &id("done"), "rewrite", rewritten).await;
        let base = text(&fs, &path("done/messages/base.jsonl"));
        assert!(
            base.starts_with("{\"format\":\"gdn-base\",\"version\":2"),
            "{base}"
        );
    }
}

/// Runs a turn that ends with the given change of its conversation.
pub(crate) async fn turn(store: &JsonlStore, id: &InstanceId, name: &str, change: BaseChange<'_>) {
    let event = event(name, id);
    store.append(accepted(&event)).await.unwrap();
    let lease = store.claim(id).await.unwrap();
    let mut conversation = store.open(lease).await.unwrap();
    conversation.load().await.unwrap();
    conversation.append(&append(name)).await.unwrap();
    let turn: FinishedTurn = finished(&event);
    assert!(conversation.end_turn(turn, change, meta(id)).await.unwrap());
}

/// Returns a workspace with a conversation of five turns, and the path of a file in it.
async fn workspace(file: &str) -> (SimFs, PathBuf) {
    let fs = SimFs::new();
    let store = open(&fs);
    for name in ["m0", "m1", "m2", "m3", "m4"] {
        turn(
            &store,
            &instance("k"),
            name,
            BaseChange::Append(&messages(&[name])),
        )
        .await;
    }
    drop(store);
    let path = match file {
        layout::INBOX => Path::new(WORKSPACE).join(file),
        file => layout::instance_dir(Path::new(WORKSPACE), &instance("k")).join(file),
    };
    (fs.kill(), path)
}

fn rewrite(fs: &SimFs, path: &Path, change: impl Fn(&mut Vec<String>)) {
    let mut lines: Vec<String> = text(fs, path).lines().map(str::to_owned).collect();
    change(&mut lines);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs.put(path, text.as_bytes());
}

async fn base(store: &JsonlStore) -> (Vec<String>, Vec<String>) {
    let stored = store.read(&instance("k")).await.unwrap();
    let ids = stored.base.iter().map(|message| message.id.clone());
    (ids.collect(), stored.warnings)
}

#[tokio::test]
async fn missing_reordered_and_duplicate_records_are_reported() {
    type Change = fn(&mut Vec<String>);
    let cases: [(Change, &[&str], &str); 6] = [
        (
            |lines| drop(lines.remove(2)),
            &["m0", "m2", "m3", "m4"],
            "record 2 is missing",
        ),
        (
            |lines| drop(lines.drain(2..4)),
            &["m0", "m3", "m4"],
            "records 2 to 3 are missing",
        ),
        (
            |lines| lines.swap(2, 3),
            &["m0", "m1", "m2", "m3", "m4"],
            "record 2 is not in its place",
        ),
        (
            |lines| lines.insert(4, lines[2].clone()),
            &["m0", "m1", "m2", "m3", "m4"],
            "left out a second copy of record 2",
        ),
        (
            |lines| drop(lines.remove(0)),
            &["m0", "m1", "m2", "m3", "m4"],
            "the header is missing",
        ),
        (
            |lines| lines.insert(3, "\u{1}noise".to_owned()),
            &["m0", "m1", "m2", "m3", "m4"],
            "skipped a line that can't be read",
        ),
    ];
    for (change, expected, warning) in cases {
        let (fs, path) = workspace(layout::BASE).await;
        // The start restores messages from the log, so the file is damaged after it.
        let store = open(&fs);
        rewrite(&fs, &path, change);
        let (ids, warnings) = base(&store).await;
        assert_eq!(ids, expected, "{warning}");
        assert!(
            warnings.iter().any(|found| found.contains(warning)),
            "{warning}: {warnings:?}"
        );
    }
}

#[tokio::test]
async fn duplicate_and_reordered_log_records_are_applied_once_in_order() {
    type Change = fn(&mut Vec<String>);
    // The lines: a header, then an accepted and a done record for each event.
    let cases: [(Change, &str, usize); 4] = [
        (
            |lines| lines.insert(3, lines[1].clone()),
            "a second copy of record 1",
            0,
        ),
        (
            |lines| lines.push(lines[1].clone()),
            "a second copy of record 1",
            0,
        ),
        (|lines| lines.swap(1, 2), "is not in its place", 0),
        (|lines| drop(lines.remove(4)), "record 4 is missing", 1),
    ];
    for (change, warning, pending) in cases {
        let (fs, path) = workspace(layout::INBOX).await;
        rewrite(&fs, &path, change);
        let recovered = recover(&open(&fs)).await;
        assert_eq!(recovered.pending.len(), pending, "{warning}");
        let found = &recovered.warnings;
        assert!(
            found.iter().any(|found| found.contains(warning)),
            "{warning}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_file_in_a_newer_format_is_refused_and_not_changed() {
    let (fs, inbox) = workspace(layout::INBOX).await;
    let newer = |lines: &mut Vec<String>| {
        lines[0] = "{\"format\":\"gdn-inbox\",\"version\":3}".to_owned();
    };
    rewrite(&fs, &inbox, newer);
    let before = text(&fs, &inbox);
    let opened = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE));
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("Run `gdn self update`"), "{error}");
    assert_eq!(text(&fs, &inbox), before);

    let (fs, path) = workspace(layout::BASE).await;
    rewrite(&fs, &path, |lines| {
        lines[0] = "{\"format\":\"gdn-base\",\"version\":3}".to_owned();
    });
    let before = text(&fs, &path);
    let store = open(&fs);
    let error = store.read(&instance("k")).await.unwrap_err().to_string();
    assert!(error.contains("format version 3"), "{error}");
    let lease = store.claim(&instance("k")).await.unwrap();
    let mut conversation = store.open(lease).await.unwrap();
    let change = BaseChange::Append(&messages(&["m5"]));
    assert!(conversation.checkpoint(change).await.is_err());
    assert_eq!(text(&fs, &path), before);
}

#[tokio::test]
async fn a_truncated_base_file_is_restored_from_the_inbox() {
    for kept in [0, 1, 3] {
        let (fs, path) = workspace(layout::BASE).await;
        rewrite(&fs, &path, |lines| lines.truncate(kept));
        // After a kill, the log carries the messages of all turns.
        let store = open(&fs.lose_power(Some(kept as u64)));
        let (ids, warnings) = base(&store).await;
        assert_eq!(
            (ids, warnings),
            (
                ["m0", "m1", "m2", "m3", "m4"].map(str::to_owned).to_vec(),
                vec![]
            )
        );
    }
}
