//! Kills the process at every single change to the disk, or cuts the power, and restarts it. In
//! each case no accepted event is lost, nothing is done twice, and the conversation is complete.

use proptest::prelude::*;

use crate::checks::{check, check_answers};
use crate::swarm::{Process, World, b, q, w};
use goondan_store::fs::sim::SimFs;

#[derive(Debug, Clone, Copy)]
enum End {
    Kill,
    PowerFailure(Option<u64>),
}

impl End {
    fn next(self, fs: &SimFs) -> SimFs {
        match self {
            End::Kill => fs.kill(),
            End::PowerFailure(seed) => fs.lose_power(seed),
        }
    }
}

/// Runs `work` once per death, each time in a process that continues from the previous one's files.
/// Returns the resulting file system.
async fn die_at(
    fs: SimFs,
    world: &World,
    deaths: &[(u64, End)],
    work: impl AsyncFn(&Process),
) -> SimFs {
    let mut fs = fs;
    for (changes, end) in deaths {
        fs.die_after(*changes);
        if let Some(process) = Process::start(&fs, world).await {
            // Tools of a dead process never return.
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
        fs = end.next(&fs);
    }
    fs
}

/// Runs two events, dies after the given number of changes each time, and then completes. Checks
/// the result and returns the number of changes.
async fn run(deaths: &[(u64, End)]) -> u64 {
    let world = World::default();
    let work = async |process: &Process| {
        futures::join!(process.send("one"), process.send("two"));
    };
    let fs = die_at(SimFs::new(), &world, deaths, work).await;
    let process = Process::start(&fs, &world).await.unwrap();
    check(process, &fs, &world).await;
    fs.changes()
}

async fn die_everywhere(end: impl Fn(u64) -> End) {
    let changes = run(&[]).await;
    assert!(changes > 50, "the swarm made {changes} changes only");
    for death in 0..changes {
        run(&[(death, end(death))]).await;
    }
}

#[tokio::test]
async fn a_kill_anywhere_loses_and_repeats_nothing() {
    die_everywhere(|_| End::Kill).await;
}

#[tokio::test]
async fn a_power_failure_anywhere_loses_and_repeats_nothing() {
    die_everywhere(|_| End::PowerFailure(None)).await;
}

#[tokio::test]
async fn nor_does_one_that_tears_files() {
    die_everywhere(|death| End::PowerFailure(Some(death))).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nor_do_several_in_a_row(deaths in proptest::collection::vec((0u64..120, 0u8..3, any::<u64>()), 2..5)) {
        let end = |kind, seed| match kind {
            0 => End::Kill,
            1 => End::PowerFailure(None),
            _ => End::PowerFailure(Some(seed)),
        };
        let deaths: Vec<_> = deaths.into_iter().map(|(after, kind, seed)| (after, end(kind, seed))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&deaths));
        // A third end during the same call of the only turn fails that turn with E_TURN_POISON.
        let two = &deaths[..2];
        runtime.block_on(run_asking(two, &[]));
        runtime.block_on(run_asking(two, &BESIDE));
    }
}

/// Events for the agent that is asked.
const BESIDE: [&str; 4] = ["quiet1", "quiet2", "quiet3", "quiet4"];

/// Does the same as [`run`], for turns that wait for another agent's answers. That agent also
/// handles the given events.
async fn run_asking(deaths: &[(u64, End)], beside: &[&str]) -> u64 {
    let world = World::default();
    let work = async |process: &Process| {
        let asking = async {
            process.send_to(q(), "one").await;
            process.send_to(q(), "two").await
        };
        let beside = async {
            for event in beside {
                process.send_to(b(), event).await;
            }
        };
        futures::join!(asking, beside);
    };
    let slow = SimFs::new();
    slow.take_time();
    let fs = die_at(slow, &world, deaths, work).await;
    let process = Process::start(&fs, &world).await.unwrap();
    check_answers(process, &world, beside).await;
    fs.changes()
}

#[tokio::test]
async fn an_answer_that_was_heard_is_the_one_that_was_given() {
    for beside in [&[][..], &BESIDE] {
        let changes = run_asking(&[], beside).await;
        assert!(changes > 50, "the swarm made {changes} changes only");
        for death in 0..changes {
            run_asking(&[(death, End::Kill)], beside).await;
            for seed in std::iter::once(None).chain((0..2).map(|seed| Some(death * 2 + seed))) {
                run_asking(&[(death, End::PowerFailure(seed))], beside).await;
            }
        }
    }
}

/// Events for the agent that forgets old messages.
const LITTLE: [&str; 4] = ["quiet1", "quiet2", "quiet3", "quiet4"];

/// Does the same as [`run`], for turns that rewrite their conversation.
async fn run_forgetful(deaths: &[(u64, End)]) -> u64 {
    let world = World::default();
    let work = async |process: &Process| {
        for event in LITTLE {
            if process
                .send_to(w(), event)
                .await
                .is_none_or(|result| result.error.is_some())
            {
                break;
            }
        }
    };
    let fs = die_at(SimFs::new(), &world, deaths, work).await;
    let process = Process::start(&fs, &world).await.unwrap();
    for event in LITTLE {
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
async fn nor_does_one_while_a_conversation_is_rewritten() {
    let changes = run_forgetful(&[]).await;
    assert!(changes > 50, "the swarm made {changes} changes only");
    for death in 0..changes {
        for end in [
            End::Kill,
            End::PowerFailure(None),
            End::PowerFailure(Some(death)),
        ] {
            run_forgetful(&[(death, end)]).await;
        }
    }
}
