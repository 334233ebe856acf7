//! Reads and writes per turn must not grow with the conversation.

use crate::swarm::{Process, World};
use goondan_store::fs::sim::SimFs;

/// Runs the turns. Returns the number of disk changes, and of bytes read and written.
async fn cost(process: &Process, fs: &SimFs, turns: std::ops::Range<u32>) -> (u64, usize) {
    let before = (fs.changes(), fs.traffic());
    for turn in turns {
        assert_eq!(
            process.send(&format!("quiet{turn}")).await.unwrap().error,
            None
        );
    }
    (fs.changes() - before.0, fs.traffic() - before.1)
}

#[tokio::test]
async fn turn_cost_does_not_grow_with_the_conversation() {
    let (fs, world) = (SimFs::new(), World::default());
    let process = Process::start(&fs, &world).await.unwrap();
    // The first turn creates the files.
    cost(&process, &fs, 100..101).await;
    let early = cost(&process, &fs, 101..401).await;
    cost(&process, &fs, 401..1_000).await;
    let late = cost(&process, &fs, 1_000..1_300).await;
    // Costs that grow with the conversation would more than quadruple. The factor of two allows for
    // background writes that are delayed by many turns on a busy machine.
    assert!(late.0 <= early.0 * 2, "{early:?} became {late:?}");
    assert!(late.1 <= early.1 * 2, "{early:?} became {late:?}");
    assert!(early.1 < 300 * 10_000, "300 turns cost {early:?}");
}
