//! Random damage to each kind of file: the damage is reported or repaired, no non-idempotent call
//! runs twice, and the swarm does not hang or crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::damage_table::{LoggedWarnings, finished, killed_after_result};
use crate::swarm::{Process, WORKSPACE, World, a, within};
use goondan_core::ports::clock::SystemClock;
use goondan_store::fs::FileSystem as _;
use goondan_store::fs::sim::SimFs;
use goondan_store::jsonl::{JsonlStore, LostLogPolicy, inspect_on, layout};

/// Number of damaged files per kind, in the normal run.
const QUICK_SEEDS: u64 = 8;
/// Number of damaged files per kind, in the complete run.
const FULL_SEEDS: u64 = 200;

/// Random numbers (xorshift) that depend only on the seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn new(seed: u64) -> Self {
        RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }
}

/// A kind of file: its path, and whether the turn is over.
#[derive(Debug, Clone, Copy)]
struct FileKind {
    name: &'static str,
    is_over: bool,
}

/// Files of an interrupted turn and of a finished one.
const KINDS: [FileKind; 14] = [
    kind(layout::INBOX, false),
    kind(layout::EVENTS, false),
    kind(layout::JOURNAL, false),
    kind(layout::BASE, false),
    kind(layout::RUNTIME_EVENTS, false),
    kind(layout::METADATA, false),
    kind(layout::INBOX, true),
    kind(layout::EVENTS, true),
    kind(layout::JOURNAL, true),
    kind(layout::BASE, true),
    kind(layout::RUNTIME_EVENTS, true),
    kind(layout::METADATA, true),
    kind(layout::CHECKPOINT, true),
    kind(layout::CONVERSATIONS, true),
];

const fn kind(name: &'static str, is_over: bool) -> FileKind {
    FileKind { name, is_over }
}

fn path(name: &str) -> PathBuf {
    match name {
        layout::INBOX | layout::CHECKPOINT | layout::CONVERSATIONS => {
            Path::new(WORKSPACE).join(name)
        }
        name => layout::instance_dir(Path::new(WORKSPACE), &a()).join(name),
    }
}

/// Damages a file. Returns a description of the damage.
fn damage(fs: &SimFs, path: &Path, numbers: &mut RandomNumbers) -> String {
    let mut bytes = fs.contents(path).unwrap_or_default();
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let (at, line) = (numbers.below(bytes.len()), numbers.below(lines.len()));
    let choice = numbers.below(9);
    match choice {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
        1 => bytes.truncate(at),
        2 => {
            let end = bytes.len().min(at + 1 + numbers.below(64));
            bytes[at.min(end)..end].fill(0);
        }
        3 => {
            let noise: Vec<u8> = (0..1 + numbers.below(80))
                .map(|_| u8::try_from(numbers.below(256)).unwrap())
                .collect();
            bytes.splice(at..at, noise);
        }
        4 if !lines.is_empty() => {
            lines.insert(line, lines[numbers.below(lines.len())].clone());
            bytes = lines.concat();
        }
        5 if lines.len() > 1 => {
            lines.remove(line);
            bytes = lines.concat();
        }
        6 if lines.len() > 1 => {
            let other = numbers.below(lines.len());
            lines.swap(line, other);
            bytes = lines.concat();
        }
        7 => bytes.clear(),
        _ if fs.exists(path) => {
            fs.rename(path, Path::new("/lost")).unwrap();
            return "deleted".to_owned();
        }
        _ => {}
    }
    fs.put(path, &bytes);
    format!("damage {choice} at {at}, line {line}")
}

/// Starts the swarm on damaged files. Returns `None` if the start needs the consent of the user.
async fn start(fs: &SimFs, world: &World, lost_log: LostLogPolicy) -> Option<Process> {
    let opened = JsonlStore::on_with(Arc::new(fs.clone()), Path::new(WORKSPACE), lost_log);
    let store = Arc::new(opened.ok()?);
    Process::start_with(store, fs, world, Arc::new(SystemClock), "{}").await
}

/// Effect of damage to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DamageEffect {
    /// The bytes of the file did not change.
    Unchanged,
    /// No data is lost, and no damage is reported. For example, a file without its last records
    /// equals the file before they were written.
    Unreported,
    /// No data is lost. Only the inspection of `gdn doctor --deep` reports the damage.
    Inspected,
    Reported,
    /// The start needed the consent of the user.
    Refused,
}

/// Damages a file of this kind, restarts the swarm, and completes the turn.
async fn damage_and_restart(kind: FileKind, seed: u64, swarm: &(SimFs, World)) -> DamageEffect {
    let fs = swarm.0.copy();
    let world = World::new(Mutex::new(swarm.1.lock().unwrap().clone()));
    let before = fs.contents(&path(kind.name));
    let change = damage(&fs, &path(kind.name), &mut RandomNumbers::new(seed));
    let about = format!("{kind:?} seed {seed}: {change}");
    let is_changed = fs.contents(&path(kind.name)) != before;
    let found = inspect_on(&fs, Path::new(WORKSPACE), false).expect(&about);
    let is_inspected = !(found.problems.is_empty() && found.notes.is_empty());
    let warnings = LoggedWarnings::default();
    let _collected = tracing::subscriber::set_default(warnings.clone());
    let mut is_refused = false;
    let process = match start(&fs, &world, LostLogPolicy::Refuse).await {
        Some(process) => process,
        None => {
            is_refused = true;
            start(&fs, &world, LostLogPolicy::Accept)
                .await
                .expect(&about)
        }
    };
    let result = within(process.send("one")).await.expect(&about);
    assert_eq!(world.lock().unwrap()["once-one"], 1, "{about}");
    let messages = process.runtime.conversation(&a()).await.unwrap();
    let occurs_once = |text: &str| {
        messages
            .iter()
            .filter(|message| message.text() == text)
            .count()
            == 1
    };
    let is_complete = result.error.is_none() && occurs_once("input one");
    let effect = match is_changed {
        false => DamageEffect::Unchanged,
        true if is_refused => DamageEffect::Refused,
        true if !warnings.0.lock().unwrap().is_empty() => DamageEffect::Reported,
        true if is_inspected => DamageEffect::Inspected,
        true => DamageEffect::Unreported,
    };
    assert!(
        effect >= DamageEffect::Reported || is_complete,
        "{about}: data is lost, and the start does not report it"
    );
    within(process.runtime.shutdown(std::time::Duration::from_secs(60))).await;
    effect
}

/// Damages each kind of file. Prints the number of damaged files per effect.
#[allow(clippy::print_stdout, reason = "the table is the result")]
async fn damage_each_kind(seeds: u64) {
    for kind in KINDS {
        let swarm = match kind.is_over {
            true => finished().await,
            false => killed_after_result().await,
        };
        let mut effects: BTreeMap<DamageEffect, u64> = BTreeMap::new();
        for seed in 0..seeds {
            let effect = within(damage_and_restart(kind, seed, &swarm)).await;
            *effects.entry(effect).or_default() += 1;
        }
        println!(
            "{} (turn is over: {}): {effects:?}",
            kind.name, kind.is_over
        );
    }
}

#[tokio::test]
async fn random_damage_is_reported_and_runs_no_call_twice() {
    damage_each_kind(QUICK_SEEDS).await;
}

#[tokio::test]
#[ignore = "takes minutes; run it with `cargo test -p goondan-store --test it -- --ignored`"]
async fn much_random_damage_is_reported_and_runs_no_call_twice() {
    damage_each_kind(FULL_SEEDS).await;
}
