//! Reads and writes per turn must not grow with the conversation.

use crate::swarm::{Process, World};
use goondan_store::fs::sim::SimFs;

/// Returns the number of changes to the disk and of bytes read and written by some turns.
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
async fn a_turn_in_a_long_conversation_costs_what_one_in_a_short_one_does() {
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
