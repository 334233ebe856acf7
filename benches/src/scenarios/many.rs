//! Many conversations in one process.

use std::time::{Duration, Instant};

use super::Setup;
use crate::figures::Run;
use crate::gdn::BenchSwarm;
use crate::projects;

/// Inputs that are under way at a time where nothing else is asked.
const AHEAD: usize = 64;

/// That many instances begin at once and ask the model three times each.
pub(super) fn fan_out(setup: &Setup, count: usize) -> anyhow::Result<Run> {
    let behaviour = r#"calls:2:json-query__count:{"data":"[1, 2]"}"#;
    projects::one_agent(
        &setup.project,
        &setup.server.endpoint(),
        behaviour,
        &["Tool/json-query"],
    )?;
    let mut swarm = setup.gdn.serve(&setup.project)?;
    warm_up(&mut swarm)?;
    setup.server.take();
    let before = swarm.usage()?;
    let began = Instant::now();
    swarm.flood((0..count).map(|number| format!("i{number}")), count + 1)?;
    let wall = began.elapsed();
    let usage = swarm.usage()?;
    swarm.end()?;
    let calls = setup.server.take().len();
    anyhow::ensure!(
        calls == 3 * count,
        "{calls} model calls instead of {}",
        3 * count
    );
    Ok(Run::default()
        .millis("wall", wall)
        .millis("cpu", usage.cpu.saturating_sub(before.cpu))
        .megabytes("memory_after", usage.resident)
        .with("per_instance_ms", wall.as_secs_f64() * 1e3 / count as f64))
}

/// Memory with that many instances that have nothing to do, in the process that made them and in one that finds them.
pub(super) fn idle(setup: &Setup, count: usize) -> anyhow::Result<Run> {
    projects::scripted(&setup.project)?;
    let mut swarm = setup.gdn.serve(&setup.project)?;
    settle();
    let empty = swarm.usage()?.resident;
    warm_up(&mut swarm)?;
    let one = swarm.usage()?.resident;
    swarm.flood((0..count).map(|number| format!("i{number}")), AHEAD)?;
    let made = swarm.usage()?.resident;
    swarm.end()?;
    let began = Instant::now();
    let mut swarm = setup.gdn.serve(&setup.project)?;
    warm_up(&mut swarm)?;
    let found_in = began.elapsed();
    let found = swarm.usage()?.resident;
    swarm.end()?;
    let each = |bytes: u64| bytes.saturating_sub(one) as f64 / count as f64;
    Ok(Run::default()
        .megabytes("no_instance", empty)
        .megabytes("all", made)
        .with("each_bytes", each(made))
        .megabytes("all_after_restart", found)
        .with("each_after_restart_bytes", each(found))
        .millis("restart_and_first_turn", found_in))
}

/// So many turns that anything that grows is seen.
pub(super) fn long_run(setup: &Setup, turns: usize) -> anyhow::Result<Run> {
    const INSTANCES: usize = 64;
    const EARLY: usize = 10_000;
    projects::scripted(&setup.project)?;
    let mut swarm = setup.gdn.serve(&setup.project)?;
    let keys = |count: usize| (0..count).map(|number| format!("i{}", number % INSTANCES));
    swarm.flood(keys(EARLY.min(turns)), INSTANCES)?;
    let early = swarm.usage()?.resident;
    let began = Instant::now();
    swarm.flood(keys(turns.saturating_sub(EARLY)), INSTANCES)?;
    let wall = began.elapsed();
    let usage = swarm.usage()?;
    swarm.end()?;
    Ok(Run::default()
        .megabytes("memory_after_10000", early)
        .megabytes("memory_at_the_end", usage.resident)
        .with("memory_ratio", usage.resident as f64 / early as f64)
        .with(
            "turns_per_second",
            turns.saturating_sub(EARLY) as f64 / wall.as_secs_f64().max(1e-9),
        ))
}

/// The first turn opens files and connections.
fn warm_up(swarm: &mut BenchSwarm) -> anyhow::Result<()> {
    swarm.send("warm-up", "go")?;
    swarm.result()?;
    settle();
    Ok(())
}

/// The start, and what is done behind an answer (the fold), take a moment and tell nobody when they are over.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}
