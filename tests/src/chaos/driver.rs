//! Feeds the swarm, makes trouble, and tells what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::check::Fault;
use super::nodes::{Feed, LOOK, Nodes};
use super::plan::{Plan, Trouble};
use super::swarm::{Job, Said};
use super::{check, project};

/// How long the last life may take to finish what is left.
const LAST_LIFE: Duration = Duration::from_secs(120);

/// So many faults are told one by one.
const MOST_TOLD: usize = 40;

/// What the swarm has promised by now.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) accepted: BTreeSet<String>,
    /// What was known to be accepted when a job was handed in for the first time.
    pub(super) before: BTreeMap<String, BTreeSet<String>>,
    pub(super) done: BTreeMap<String, String>,
}

impl Ledger {
    pub(super) fn note(&mut self, said: Said) {
        match said {
            Said::Ready | Said::Refused(_) => {}
            Said::Accepted(id) => drop(self.accepted.insert(id)),
            Said::Done(id, reason) => drop(self.done.insert(id, reason)),
        }
    }

    /// Jobs without a result.
    pub(super) fn open(&self) -> impl Iterator<Item = &Job> {
        self.jobs
            .values()
            .filter(|job| !self.done.contains_key(&job.id))
    }

    /// Makes jobs until there are that many without a result.
    pub(super) fn make_jobs(&mut self, open: usize) {
        while self.jobs.len() - self.done.len() < open {
            let number = self.jobs.len();
            let key = project::KEYS[number % project::KEYS.len()].to_owned();
            let job = Job {
                id: format!("job-{number}"),
                key,
                text: format!("job-{number}"),
            };
            self.before.insert(job.id.clone(), self.accepted.clone());
            self.jobs.insert(job.id.clone(), job);
        }
    }
}

/// Runs `plan` in a folder of its own, which stays where something is wrong.
#[allow(clippy::print_stdout, reason = "a program's result")]
pub(super) fn run(plan: &Plan) -> anyhow::Result<()> {
    println!("seed {}", plan.seed);
    let mut folder = tempfile::tempdir()?;
    let root = folder.path().to_owned();
    for generation in 0..project::GENERATIONS.len() {
        project::write(&root, generation)?;
    }
    let mut ledger = Ledger::default();
    let mut nodes = Nodes::start(&root, plan)?;
    // Whoever looks for the cause finds everything.
    folder.disable_cleanup(true);
    make_trouble(plan, &mut nodes, &mut ledger)?;
    nodes.heal(true)?;
    nodes.live(&mut ledger, LAST_LIFE, Feed::OnlyWhatIsLeft)?;
    let store = plan.store.as_deref();
    wait_for_late_answers(&root, store);
    if plan.nodes > 1 {
        println!(
            "turns begun by node: {:?}",
            turns_by_node(&root, &nodes.processes)
        );
    }
    println!("{}", told(plan, &nodes));
    drop(nodes);
    let report = check::everything(&root, store, plan.may_fail(), &ledger);
    println!(
        "{} jobs, {} accepted; {}",
        ledger.jobs.len(),
        ledger.accepted.len(),
        report.figures
    );
    let count = |kind| {
        report
            .faults
            .iter()
            .filter(|(fault, _)| *fault == kind)
            .count()
    };
    let (lost, doubled, disordered) = (
        count(Fault::Lost),
        count(Fault::Doubled),
        count(Fault::Disordered),
    );
    println!(
        "{lost} lost, {doubled} doubled, {disordered} out of order, {} else",
        count(Fault::Other)
    );
    if report.faults.is_empty() {
        folder.disable_cleanup(false);
        println!("{} passed, 0 failed", report.checks);
        return Ok(());
    }
    for (_, fault) in report.faults.iter().take(MOST_TOLD) {
        println!("  {fault}");
    }
    bail!(
        "{} faults with seed {}; the state is in {}",
        report.faults.len(),
        plan.seed,
        root.display()
    )
}

fn make_trouble(plan: &Plan, nodes: &mut Nodes<'_>, ledger: &mut Ledger) -> anyhow::Result<()> {
    let mut random = StdRng::seed_from_u64(plan.seed);
    let started = Instant::now();
    let is_enough = |nodes: &Nodes<'_>| {
        plan.enough.is_some_and(|(trouble, count)| {
            nodes
                .troubles
                .get(&trouble)
                .is_some_and(|made| *made >= count)
        })
    };
    while started.elapsed() < plan.seconds && !is_enough(nodes) {
        let life = random.random_range(Duration::ZERO..plan.life);
        nodes.live(ledger, life, Feed::Endless)?;
        let trouble = *plan.troubles.choose(&mut random).unwrap_or(&Trouble::Kill);
        nodes.trouble(trouble, random.random_range(0..plan.nodes))?;
    }
    // The last ones last as long as the others.
    while nodes.are_hindered() {
        nodes.live(ledger, LOOK, Feed::Endless)?;
    }
    Ok(())
}

/// What has happened, in a line.
fn told(plan: &Plan, nodes: &Nodes<'_>) -> String {
    let made = |trouble: &Trouble| nodes.troubles.get(trouble).copied().unwrap_or_default();
    let kinds: BTreeSet<Trouble> = plan.troubles.iter().copied().collect();
    let mut told: Vec<String> = kinds
        .iter()
        .map(|trouble| format!("{} {}", made(trouble), trouble.name()))
        .collect();
    if kinds.contains(&Trouble::Disk) {
        let met = plan
            .server
            .as_ref()
            .map(|server| server.full_disks())
            .unwrap_or_default();
        told.push(format!("no space left {met} times"));
    }
    format!("{}; {} lives", told.join(", "), nodes.takeovers)
}

/// How many turns each node has begun, in all its lives, by what its tools wrote down.
fn turns_by_node(root: &Path, processes: &BTreeMap<u32, usize>) -> BTreeMap<String, usize> {
    let mut turns = BTreeMap::new();
    for line in std::fs::read_to_string(root.join(project::TURNS))
        .unwrap_or_default()
        .lines()
    {
        let node = line
            .parse()
            .ok()
            .and_then(|process: u32| processes.get(&process));
        *turns
            .entry(node.map_or("?".to_owned(), usize::to_string))
            .or_default() += 1;
    }
    turns
}

/// Answers to asynchronous requests come behind the jobs that asked. The check afterwards tells which never came.
fn wait_for_late_answers(root: &Path, store: Option<&str>) {
    let end = Instant::now() + LAST_LIFE;
    while !check::all_answers_are_in(root, store) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
}
