//! Damage to the state of an interrupted or finished turn: a non-idempotent call runs only once,
//! and each loss is reported.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span;

use crate::invariants::check;
use crate::swarm::{Process, WORKSPACE, World, a, within};
use goondan_core::ports::store::{InstanceStatus, InstanceStore as _};
use goondan_store::fs::FileSystem as _;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, LostLogPolicy, layout};

/// Collects the warnings of the thread.
#[derive(Clone, Default)]
pub(crate) struct LoggedWarnings(pub(crate) Arc<Mutex<Vec<String>>>);

struct WarningText<'a>(&'a mut String);

impl Visit for WarningText<'_> {
    fn record_debug(&mut self, _field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{value:?} "));
    }
}

impl tracing::Subscriber for LoggedWarnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}
    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut WarningText(&mut text));
        self.0.lock().unwrap().push(text);
    }
    fn enter(&self, _span: &span::Id) {}
    fn exit(&self, _span: &span::Id) {}
}

fn file(name: &str) -> PathBuf {
    match name {
        layout::INBOX => Path::new(WORKSPACE).join(name),
        name => layout::instance_dir(Path::new(WORKSPACE), &a()).join(name),
    }
}

/// Damage to a file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FileDamage {
    Deleted,
    Emptied,
    /// Cut after this many lines.
    CutAfter(usize),
    /// The first record contains garbage.
    FirstRecordUnreadable,
    LastRecordRemoved,
}

impl FileDamage {
    fn apply(self, fs: &SimFs, path: &Path) {
        let text = String::from_utf8(fs.contents(path).unwrap_or_default()).unwrap();
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        match self {
            FileDamage::Deleted => return fs.rename(path, Path::new("/lost")).unwrap(),
            FileDamage::Emptied => lines.clear(),
            FileDamage::CutAfter(count) => lines.truncate(count),
            FileDamage::FirstRecordUnreadable => {
                if let Some(line) = lines.get_mut(1) {
                    line.replace_range(3..6, "\u{1}\u{1}\u{1}");
                }
            }
            FileDamage::LastRecordRemoved => drop(lines.pop()),
        }
        fs.put(path, lines.concat().as_bytes());
    }
}

/// Starts a turn and kills the process at a disk change. Returns the state if the non-idempotent
/// call ran and the turn is not over.
async fn killed_in_turn(change: u64) -> Option<(SimFs, World)> {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    fs.kill_after(change);
    // Tools of a killed process never return.
    let dead = async {
        while !fs.is_dead() {
            tokio::task::yield_now().await
        }
    };
    tokio::select! {
        _ = process.send("one") => return None,
        () = dead => {}
    }
    process.runtime.kill();
    let fs = fs.kill();
    let has_run = world.lock().unwrap().contains_key("once-one");
    has_run.then_some((fs, world))
}

/// Returns a swarm that was killed after the result of the non-idempotent call was on disk.
pub(crate) async fn killed_after_result() -> (SimFs, World) {
    // Background threads also change the disk, so the right change number varies.
    for change in (20..120).cycle().take(2_000) {
        if let Some((fs, world)) = killed_in_turn(change).await {
            let events = events_of(&fs);
            if events.contains(ONCE_RESULT) && events.ends_with('\n') {
                return (fs, world);
            }
        }
    }
    panic!("the result was on disk at no change");
}

/// Part of the message with the result of the non-idempotent call.
const ONCE_RESULT: &str = r#""toolName":"world__once","status":"ok""#;

fn events_of(fs: &SimFs) -> String {
    String::from_utf8_lossy(&fs.contents(&file(layout::EVENTS)).unwrap_or_default()).into_owned()
}

#[tokio::test]
async fn no_call_runs_twice_after_damage_to_the_journal() {
    let (mut tested, mut reported) = (0, 0);
    for damage in [
        FileDamage::Deleted,
        FileDamage::Emptied,
        FileDamage::CutAfter(1),
        FileDamage::CutAfter(2),
        FileDamage::FirstRecordUnreadable,
        FileDamage::LastRecordRemoved,
    ] {
        for change in (10..90).step_by(2) {
            let Some((fs, world)) = killed_in_turn(change).await else {
                continue;
            };
            let events = events_of(&fs);
            let has_result = events.contains(ONCE_RESULT);
            // If the result is missing and the rest of the journal is intact, no record shows that
            // the call began.
            if damage == FileDamage::LastRecordRemoved && !(has_result && events.ends_with('\n')) {
                continue;
            }
            damage.apply(&fs, &file(layout::JOURNAL));
            let warnings = LoggedWarnings::default();
            let _collected = tracing::subscriber::set_default(warnings.clone());
            let process = Process::start(&fs, &world).await.unwrap();
            let result = process.send("one").await.unwrap();
            assert_eq!(result.error, None, "{damage:?} {change}");
            assert_eq!(world.lock().unwrap()["once-one"], 1, "{damage:?} {change}");
            let found = warnings.0.lock().unwrap().concat();
            let log = fs.contents(&file(layout::INBOX)).unwrap();
            let is_over = String::from_utf8_lossy(&log).contains(r#""done","turnId":"turn-one""#);
            let has_events = events.contains("\"append\"") && events.contains("world__once");
            let is_reported = found.contains("are missing from its journal");
            assert!(
                is_reported || is_over || !has_events || damage == FileDamage::LastRecordRemoved,
                "{damage:?} {change}: {found}"
            );
            reported += usize::from(is_reported);
            check(process, &fs, &world).await;
            tested += 1;
        }
    }
    assert!(tested > 10 && reported > 5, "{tested} {reported}");
}

/// Returns a swarm that finished its turn and was shut down.
pub(crate) async fn finished() -> (SimFs, World) {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("one").await.unwrap();
    within(process.runtime.shutdown(Duration::from_secs(60))).await;
    drop(process);
    (fs.kill(), world)
}

#[tokio::test]
async fn a_workspace_without_its_log_opens_only_with_user_consent() {
    for damage in [
        FileDamage::Deleted,
        FileDamage::Emptied,
        FileDamage::CutAfter(1),
    ] {
        let (fs, world) = finished().await;
        damage.apply(&fs, &file(layout::INBOX));
        let opened = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE));
        let error = opened.err().unwrap().to_string();
        assert!(
            error.contains("its log /state/workspaces/w/inbox.jsonl is missing"),
            "{error}"
        );
        let store = JsonlStore::on_with(
            Arc::new(fs.clone()),
            Path::new(WORKSPACE),
            LostLogPolicy::Accept,
        );
        drop(store.unwrap());
        assert_eq!(world.lock().unwrap()["once-one"], 1);
    }
    // A workspace without conversations opens without consent.
    let fs = SimFs::new();
    JsonlStore::on(Arc::new(fs), Path::new(WORKSPACE)).unwrap();
}

#[tokio::test]
async fn a_lost_or_unreadable_done_record_is_restored_from_the_conversation() {
    for is_unreadable in [true, false] {
        let (fs, world) = finished().await;
        let path = file(layout::INBOX);
        let text = String::from_utf8(fs.contents(&path).unwrap()).unwrap();
        let lines = text.split_inclusive('\n').filter_map(|line| {
            match line.contains(r#""record":"done""#) && line.contains(r#""turn-one""#) {
                true if is_unreadable => Some(line.replace("turn-one", "turn-0ne")),
                true => None,
                false => Some(line.to_owned()),
            }
        });
        fs.put(&path, lines.collect::<String>().as_bytes());
        let warnings = LoggedWarnings::default();
        let _collected = tracing::subscriber::set_default(warnings.clone());
        let process = Process::start(&fs, &world).await.unwrap();
        assert_eq!(process.send("one").await.unwrap().error, None);
        assert_eq!(world.lock().unwrap()["once-one"], 1);
        let found = warnings.0.lock().unwrap().concat();
        let expected = if is_unreadable {
            "checksum does not match"
        } else {
            "is missing"
        };
        assert!(found.contains(expected), "{found}");
        assert!(
            found.contains("the record of a turn's end was lost"),
            "{found}"
        );
    }
}

#[tokio::test]
async fn lost_messages_are_restored_from_the_log() {
    for (damage, is_killed) in [
        (FileDamage::Deleted, false),
        (FileDamage::Emptied, false),
        (FileDamage::Deleted, true),
        (FileDamage::Emptied, true),
        // After a clean end, only a missing or empty file is restored.
        (FileDamage::CutAfter(2), true),
    ] {
        let (fs, world) = if is_killed {
            killed_after_turn().await
        } else {
            finished().await
        };
        let path = file(layout::BASE);
        let before = fs.contents(&path).unwrap();
        damage.apply(&fs, &path);
        assert_ne!(fs.contents(&path).as_ref(), Some(&before), "{damage:?}");
        let process = Process::start(&fs, &world).await.unwrap();
        let messages = process.runtime.conversation(&a()).await.unwrap();
        assert_eq!(messages[0].text(), "input one", "{damage:?} {is_killed}");
        // The answer of agent `b` may add messages after the restored ones.
        let after = fs.contents(&path).unwrap();
        assert!(after.starts_with(&before), "{damage:?} {is_killed}");
        drop(process);
    }
}

/// Returns a swarm that was killed after a turn: the log still carries the messages of the turn.
async fn killed_after_turn() -> (SimFs, World) {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    process.send("one").await.unwrap();
    let next = fs.kill();
    drop(process);
    (next, world)
}

#[tokio::test]
async fn unreadable_metadata_is_not_overwritten() {
    let (fs, _) = finished().await;
    let path = file(layout::METADATA);
    let text = String::from_utf8(fs.contents(&path).unwrap()).unwrap();
    let mut meta: goondan_core::ports::store::InstanceMeta = serde_json::from_str(&text).unwrap();
    meta.status = InstanceStatus::Retired;
    let before = serde_json::to_vec(&meta).unwrap();
    fs.put(&path, &before);
    // A start with a checkpoint does not read the file.
    fs.put(&Path::new(WORKSPACE).join(layout::CHECKPOINT), b"");
    let store = JsonlStore::on(Arc::new(fs.clone()), Path::new(WORKSPACE)).unwrap();
    fs.fail_reads(Some(&path));
    assert!(store.instances().await.is_err());
    assert!(store.instance(&a()).await.is_err());
    assert_eq!(fs.contents(&path).unwrap(), before);
    fs.fail_reads(None);
    assert_eq!(store.instance(&a()).await.unwrap(), Some(meta));
}
