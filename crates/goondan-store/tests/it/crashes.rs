//! Kills the process, or cuts the power, at each change to the disk, and restarts the process. In
//! each case no accepted event is lost, no call runs twice, and the conversation is complete.

use proptest::prelude::*;

use crate::invariants::{check, check_answers};
use crate::swarm::{Process, World, b, q, w};
use goondan_store::fs::sim::SimFs;

#[derive(Debug, Clone, Copy)]
enum CrashKind {
    Kill,
    PowerFailure(Option<u64>),
}

impl CrashKind {
    fn next(self, fs: &SimFs) -> SimFs {
        match self {
            CrashKind::Kill => fs.kill(),
            CrashKind::PowerFailure(seed) => fs.lose_power(seed),
        }
    }
}

/// Runs `work` once per crash, each time in a new process on the files of the previous process.
/// Returns the resulting file system.
async fn crash_at(
    fs: SimFs,
    world: &World,
    crashes: &[(u64, CrashKind)],
    work: impl AsyncFn(&Process),
) -> SimFs {
    let mut fs = fs;
    for (changes, crash) in crashes {
        fs.kill_after(*changes);
        if let Some(process) = Process::start(&fs, world).await {
            // Tools of a killed process never return.
            let dead = async {
                while !fs.is_dead() {
                    tokio::task::yield_now().await
                }
            };
            tokio::select! {
                () = work(&process) => {}
                () = dead => {}
            }
            process.runtime.kill();
        }
        fs = crash.next(&fs);
    }
    fs
}

/// Sends two events to agent `a`, crashes after the given numbers of changes, and then completes.
/// Checks the result and returns the number of changes.
async fn run(crashes: &[(u64, CrashKind)]) -> u64 {
    let world = World::default();
    let work = async |process: &Process| {
        futures::join!(process.send("one"), process.send("two"));
    };
    let fs = crash_at(SimFs::new(), &world, crashes, work).await;
    let process = Process::start(&fs, &world).await.unwrap();
    check(process, &fs, &world).await;
    fs.changes()
}

async fn crash_at_every_change(crash: impl Fn(u64) -> CrashKind) {
    let changes = run(&[]).await;
    assert!(changes > 50, "the swarm made only {changes} changes");
    for change in 0..changes {
        run(&[(change, crash(change))]).await;
    }
}

#[tokio::test]
async fn a_kill_at_any_disk_change_loses_and_repeats_nothing() {
    crash_at_every_change(|_| CrashKind::Kill).await;
}

#[tokio::test]
async fn a_power_failure_at_any_disk_change_loses_and_repeats_nothing() {
    crash_at_every_change(|_| CrashKind::PowerFailure(None)).await;
}

#[tokio::test]
async fn a_power_failure_that_tears_files_loses_and_repeats_nothing() {
    crash_at_every_change(|change| CrashKind::PowerFailure(Some(change))).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_crashes_in_a_row_lose_and_repeat_nothing(crashes in proptest::collection::vec((0u64..120, 0u8..3, any::<u64>()), 2..5)) {
        let crash = |kind, seed| match kind {
            0 => CrashKind::Kill,
            1 => CrashKind::PowerFailure(None),
            _ => CrashKind::PowerFailure(Some(seed)),
        };
        let crashes: Vec<_> = crashes.into_iter().map(|(after, kind, seed)| (after, crash(kind, seed))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&crashes));
        // A third crash during the same call of the only turn fails that turn with E_TURN_POISON.
        let two = &crashes[..2];
        runtime.block_on(run_waiting(two, &[]));
        runtime.block_on(run_waiting(two, &OTHER_EVENTS));
    }
}

/// Events for agent `b`, in addition to the requests of agent `q`.
const OTHER_EVENTS: [&str; 4] = ["quiet1", "quiet2", "quiet3", "quiet4"];

/// Does the same as [`run`] with turns of agent `q`, which wait for answers of agent `b`. Agent `b`
/// also handles `other_events`.
async fn run_waiting(crashes: &[(u64, CrashKind)], other_events: &[&str]) -> u64 {
    let world = World::default();
    let work = async |process: &Process| {
        let waiting = async {
            process.send_to(q(), "one").await;
            process.send_to(q(), "two").await
        };
        let other_turns = async {
            for event in other_events {
                process.send_to(b(), event).await;
            }
        };
        futures::join!(waiting, other_turns);
    };
    let slow = SimFs::new();
    slow.yield_in_syncs();
    let fs = crash_at(slow, &world, crashes, work).await;
    let process = Process::start(&fs, &world).await.unwrap();
    check_answers(process, &world, other_events).await;
    fs.changes()
}

#[tokio::test]
async fn after_a_crash_received_answers_match_the_given_answers() {
    for other_events in [&[][..], &OTHER_EVENTS] {
        let changes = run_waiting(&[], other_events).await;
        assert!(changes > 50, "the swarm made only {changes} changes");
        for change in 0..changes {
            run_waiting(&[(change, CrashKind::Kill)], other_events).await;
            for seed in std::iter::once(None).chain((0..2).map(|seed| Some(change * 2 + seed))) {
                run_waiting(&[(change, CrashKind::PowerFailure(seed))], other_events).await;
            }
        }
    }
}

/// Events for agent `w`, which removes old messages.
const REWRITING_EVENTS: [&str; 4] = ["quiet1", "quiet2", "quiet3", "quiet4"];

/// Does the same as [`run`] with turns that rewrite their conversation.
async fn run_rewriting(crashes: &[(u64, CrashKind)]) -> u64 {
    let world = World::default();
    let work = async |process: &Process| {
        for event in REWRITING_EVENTS {
            if process
                .send_to(w(), event)
                .await
                .is_none_or(|result| result.error.is_some())
            {
                break;
            }
        }
    };
    let fs = crash_at(SimFs::new(), &world, crashes, work).await;
    let process = Process::start(&fs, &world).await.unwrap();
    for event in REWRITING_EVENTS {
        assert_eq!(process.send_to(w(), event).await.unwrap().error, None);
    }
    let messages = process.runtime.conversation(&w()).await.unwrap();
    let ids: Vec<&str> = messages.iter().map(|message| &*message.id).collect();
    assert_eq!(
        ids,
        [
            "turn-quiet3-m0",
            "turn-quiet3-m1",
            "turn-quiet4-m0",
            "turn-quiet4-m1"
        ]
    );
    fs.changes()
}

#[tokio::test]
async fn a_crash_during_a_rewrite_loses_and_repeats_nothing() {
    let changes = run_rewriting(&[]).await;
    assert!(changes > 50, "the swarm made only {changes} changes");
    for change in 0..changes {
        for crash in [
            CrashKind::Kill,
            CrashKind::PowerFailure(None),
            CrashKind::PowerFailure(Some(change)),
        ] {
            run_rewriting(&[(change, crash)]).await;
        }
    }
}
