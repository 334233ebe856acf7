//! Swarms whose conversations are in PostgreSQL. The database, the nodes and what drives them share the machine.

use std::time::{Duration, Instant};

use super::Setup;
use crate::figures::Run;
use crate::gdn::{BenchSwarm, Gdn, Usage};
use crate::postgres::Postgres;
use crate::projects;

/// Turns one after another, over a model that takes no time.
pub(super) fn alone(setup: &Setup, turns: usize) -> anyhow::Result<Run> {
    let (_database, gdn) = begin(setup)?;
    let mut swarm = gdn.serve(&setup.project)?;
    one_by_one(&mut swarm, 50)?;
    let took = one_by_one(&mut swarm, turns)?;
    swarm.end()?;
    Ok(Run::default()
        .millis("p50", at(&took, 0.5))
        .millis("p99", at(&took, 0.99)))
}

/// Turns with so many under way at all times, on that many nodes.
pub(super) fn crowd(
    setup: &Setup,
    ahead: usize,
    turns: usize,
    nodes: usize,
) -> anyhow::Result<Run> {
    let (database, gdn) = begin(setup)?;
    let mut swarm = gdn.serve(&setup.project)?;
    one_by_one(&mut swarm, 1)?;
    let workers = Workers::start(&gdn, setup, nodes - 1)?;
    let keys = |count: usize| (0..count).map(|number| format!("i{}", number % (2 * ahead)));
    swarm.flood(keys(4 * ahead), ahead)?;
    let (before, database_before) = (swarm.usage()?, database.cpu()?);
    let began = Instant::now();
    swarm.flood(keys(turns), ahead)?;
    let wall = began.elapsed();
    let (usage, in_database) = (
        swarm.usage()?,
        database.cpu()?.saturating_sub(database_before),
    );
    let a_turn = |time: Duration| time.as_secs_f64() * 1e3 / turns as f64;
    let run = Run::default()
        .with("turns_per_second", turns as f64 / wall.as_secs_f64())
        .with(
            "cpu_ms_a_turn_of_the_leader",
            a_turn(usage.cpu.saturating_sub(before.cpu)),
        )
        .with("cpu_ms_a_turn_of_the_database", a_turn(in_database))
        .megabytes("memory_of_the_leader", usage.resident);
    drop(workers);
    swarm.end()?;
    Ok(run)
}

/// Memory of nodes with that many instances that have nothing to do: of the one that made them, of one that leads later, and of
/// one that works for that.
pub(super) fn idle(setup: &Setup, count: usize) -> anyhow::Result<Run> {
    let (_database, gdn) = begin(setup)?;
    let mut swarm = gdn.serve(&setup.project)?;
    // What any node comes to remember of its last 10,000 turns is no matter of instances.
    swarm.flood((0..10_000).map(|number| format!("i{}", number % 64)), 64)?;
    settle();
    let few = swarm.usage()?.resident;
    let workers = Workers::start(&gdn, setup, 1)?;
    let worker_of_few = workers.usage()?.resident;
    drop(workers);
    swarm.flood((0..count).map(|number| format!("idle-{number}")), 128)?;
    settle();
    let made = swarm.usage()?.resident;
    swarm.end()?;
    let began = Instant::now();
    let mut swarm = gdn.serve(&setup.project)?;
    one_by_one(&mut swarm, 1)?;
    let found_in = began.elapsed();
    let found = swarm.usage()?.resident;
    let workers = Workers::start(&gdn, setup, 1)?;
    let worker = workers.usage()?.resident;
    drop(workers);
    swarm.end()?;
    let each = |bytes: u64, few: u64| bytes.saturating_sub(few) as f64 / count as f64;
    Ok(Run::default()
        .megabytes("leader_with_few", few)
        .megabytes("leader", made)
        .with("each_bytes_on_the_leader", each(made, few))
        .megabytes("next_leader", found)
        .with("each_bytes_on_the_next_leader", each(found, few))
        .millis("next_leader_and_first_turn", found_in)
        .megabytes("worker_with_few", worker_of_few)
        .megabytes("worker", worker))
}

/// Turns one after another on a fresh store, and with that many messages and events in it of other conversations. The time of the
/// processor stands beside, which says something on a busy machine, too.
pub(super) fn history(setup: &Setup, rows: usize) -> anyhow::Result<Run> {
    let (database, gdn) = begin(setup)?;
    let mut run = Run::default();
    let mut measure = |swarm: &mut BenchSwarm, name: &str| {
        const TURNS: usize = 1_000;
        one_by_one(swarm, 100)?;
        let before = database.cpu()?;
        let took = one_by_one(swarm, TURNS)?;
        let in_database = database.cpu()?.saturating_sub(before).as_secs_f64() * 1e3 / TURNS as f64;
        run = std::mem::take(&mut run)
            .millis(&format!("{name}_p50"), at(&took, 0.5))
            .with(format!("{name}_cpu_ms_a_turn_of_the_database"), in_database);
        anyhow::Ok(())
    };
    let mut swarm = gdn.serve(&setup.project)?;
    measure(&mut swarm, "fresh")?;
    fill(&database, rows)?;
    measure(&mut swarm, "with_history")?;
    swarm.end()?;
    let began = Instant::now();
    let mut swarm = gdn.serve(&setup.project)?;
    one_by_one(&mut swarm, 1)?;
    let found_in = began.elapsed();
    measure(&mut swarm, "with_history_after_restart")?;
    swarm.end()?;
    Ok(run.millis("restart_and_first_turn", found_in))
}

/// Copies rows as turns have written them: so many messages and as many events, of a thousand conversations.
fn fill(database: &Postgres, rows: usize) -> anyhow::Result<()> {
    const CONVERSATIONS: usize = 1_000;
    let each = rows / CONVERSATIONS;
    let of_others = "decode(md5(c::text), 'hex')";
    let copies = format!("generate_series(1, {CONVERSATIONS}) c, generate_series(1, {each}) n");
    database.run(&format!(
        "INSERT INTO goondan.messages (workspace, instance, message)
         SELECT m.workspace, {of_others}, m.message FROM (SELECT * FROM goondan.messages LIMIT 1) m, {copies};
         INSERT INTO goondan.runtime_events (workspace, instance, sequence, event)
         SELECT e.workspace, {of_others}, n, e.event FROM (SELECT * FROM goondan.runtime_events LIMIT 1) e, {copies};
         INSERT INTO goondan.instances (workspace, instance, meta)
         SELECT i.workspace, {of_others}, replace(i.meta, '\"main\"', '\"c' || c || '\"')
         FROM (SELECT * FROM goondan.instances LIMIT 1) i, generate_series(1, {CONVERSATIONS}) c;
         ANALYZE; CHECKPOINT;"
    ))
}

/// A database, and the command with its state there.
fn begin(setup: &Setup) -> anyhow::Result<(Postgres, Gdn)> {
    projects::scripted(&setup.project)?;
    let database = Postgres::start()?;
    let gdn = database.with(&setup.gdn);
    Ok((database, gdn))
}

/// What each turn took, in order of time.
fn one_by_one(swarm: &mut BenchSwarm, turns: usize) -> anyhow::Result<Vec<Duration>> {
    let mut took = Vec::with_capacity(turns);
    for _ in 0..turns {
        let began = Instant::now();
        swarm.send("main", "go")?;
        swarm.result()?;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    Ok(took)
}

fn at(took: &[Duration], share: f64) -> Duration {
    took[((took.len() - 1) as f64 * share) as usize]
}

/// What is written behind answers takes a moment, and tells nobody when it is over.
fn settle() {
    std::thread::sleep(Duration::from_millis(500));
}

/// Nodes that work for the one that leads. Dropped, they are killed.
struct Workers(Vec<std::process::Child>);

impl Workers {
    fn start(gdn: &Gdn, setup: &Setup, count: usize) -> anyhow::Result<Self> {
        let mut workers = Workers(Vec::new());
        for number in 0..count {
            // As if it were on a machine of its own.
            let gdn = Gdn {
                state: gdn.state.with_file_name(format!("worker-{number}")),
                ..gdn.clone()
            };
            let mut command = gdn.command(&["serve", "--listen", "127.0.0.1:0"]);
            workers.0.push(
                command
                    .arg(&setup.project)
                    .stdin(std::process::Stdio::null())
                    .spawn()?,
            );
        }
        while count > 0
            && gdn
                .output(&["nodes", "--json"])?
                .matches("\"works\"")
                .count()
                < count
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(workers)
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        settle();
        Usage::of(self.0[0].id())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            // It has ended already, or nobody wants it any more.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}
