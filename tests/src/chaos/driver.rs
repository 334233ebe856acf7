//! The parent process: it submits jobs, disrupts the swarm and prints the result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::check::CheckViolation;
use super::nodes::{CHECK_INTERVAL, JobFeed, NodeSet};
use super::plan::{ChaosDisruption, ChaosPlan};
use super::swarm::{Job, SwarmReport};
use super::{check, project};

/// Time limit for unfinished jobs after the last disruption.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of violations to print.
const MAX_PRINTED_VIOLATIONS: usize = 40;

/// The jobs with the reports about them.
#[derive(Default)]
pub(super) struct JobLedger {
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) accepted: BTreeSet<String>,
    /// Accepted jobs at the first submission of each job.
    pub(super) before: BTreeMap<String, BTreeSet<String>>,
    /// Finish reason of each finished job.
    pub(super) done: BTreeMap<String, String>,
}

impl JobLedger {
    pub(super) fn add(&mut self, report: SwarmReport) {
        match report {
            SwarmReport::Ready | SwarmReport::Refused(_) => {}
            SwarmReport::Accepted(id) => drop(self.accepted.insert(id)),
            SwarmReport::Done(id, reason) => drop(self.done.insert(id, reason)),
        }
    }

    /// Returns the jobs without a result.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Job> {
        self.jobs
            .values()
            .filter(|job| !self.done.contains_key(&job.id))
    }

    /// Creates jobs until this number of jobs is unfinished.
    pub(super) fn create_jobs(&mut self, unfinished: usize) {
        while self.jobs.len() - self.done.len() < unfinished {
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

/// Runs `plan` in a temporary directory, which is kept if a check fails.
#[allow(clippy::print_stdout, reason = "output of the program")]
pub(super) fn run(plan: &ChaosPlan) -> anyhow::Result<()> {
    println!("seed {}", plan.seed);
    let mut folder = tempfile::tempdir()?;
    let root = folder.path().to_owned();
    for generation in 0..project::GENERATIONS.len() {
        project::write(&root, generation)?;
    }
    let mut ledger = JobLedger::default();
    let mut nodes = NodeSet::start(&root, plan)?;
    // The state of a failed run shows the cause.
    folder.disable_cleanup(true);
    disrupt(plan, &mut nodes, &mut ledger)?;
    nodes.recover(true)?;
    nodes.work(&mut ledger, FINISH_TIMEOUT, JobFeed::Unfinished)?;
    let store = plan.store.as_deref();
    wait_for_late_answers(&root, store);
    if plan.nodes > 1 {
        println!(
            "turns started by each node: {:?}",
            turns_by_node(&root, &nodes.processes)
        );
    }
    println!("{}", summary(plan, &nodes));
    drop(nodes);
    let report = check::run(&root, store, plan.store_may_fail(), &ledger);
    println!(
        "{} jobs, {} accepted; {}",
        ledger.jobs.len(),
        ledger.accepted.len(),
        report.figures
    );
    let counts = CheckViolation::ALL.map(|(kind, name)| {
        let found = report.violations.iter().filter(|(found, _)| *found == kind);
        format!("{} {name}", found.count())
    });
    println!("{}", counts.join(", "));
    if report.violations.is_empty() {
        folder.disable_cleanup(false);
        println!("{} passed, 0 failed", report.checks);
        return Ok(());
    }
    for (_, violation) in report.violations.iter().take(MAX_PRINTED_VIOLATIONS) {
        println!("  {violation}");
    }
    bail!(
        "{} checks failed with seed {}; the state is in {}",
        report.violations.len(),
        plan.seed,
        root.display()
    )
}

fn disrupt(
    plan: &ChaosPlan,
    nodes: &mut NodeSet<'_>,
    ledger: &mut JobLedger,
) -> anyhow::Result<()> {
    let mut random = StdRng::seed_from_u64(plan.seed);
    let started = Instant::now();
    let is_limit_reached = |nodes: &NodeSet<'_>| {
        plan.limit.is_some_and(|(disruption, limit)| {
            let count = nodes.disruptions.get(&disruption);
            count.is_some_and(|count| *count >= limit)
        })
    };
    while started.elapsed() < plan.seconds && !is_limit_reached(nodes) {
        let wait = random.random_range(Duration::ZERO..plan.interval);
        nodes.work(ledger, wait, JobFeed::Endless)?;
        let disruption = *plan
            .disruptions
            .choose(&mut random)
            .unwrap_or(&ChaosDisruption::Kill);
        let number = random.random_range(0..plan.nodes);
        nodes.disrupt(disruption, number, &mut random)?;
    }
    // The last disruptions take their full duration.
    while nodes.has_suspended_node() {
        nodes.work(ledger, CHECK_INTERVAL, JobFeed::Endless)?;
    }
    Ok(())
}

/// Returns one line with the count of each kind of disruption, of full-disk errors and of starts as
/// leader.
fn summary(plan: &ChaosPlan, nodes: &NodeSet<'_>) -> String {
    let count = |disruption: &ChaosDisruption| {
        nodes
            .disruptions
            .get(disruption)
            .copied()
            .unwrap_or_default()
    };
    let kinds: BTreeSet<ChaosDisruption> = plan.disruptions.iter().copied().collect();
    let mut parts: Vec<String> = kinds
        .iter()
        .map(|disruption| format!("{} {}", count(disruption), disruption.name()))
        .collect();
    if let (true, Some(server)) = (kinds.contains(&ChaosDisruption::Disk), &plan.server) {
        parts.push(format!("{} full-disk errors", server.full_disk_errors()));
    }
    format!("{}; {} starts as leader", parts.join(", "), nodes.takeovers)
}

/// Returns the number of turns that each node started, as recorded by the project's tools.
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

/// Waits for answers to asynchronous requests, which can arrive after their jobs. The later check reports missing ones.
fn wait_for_late_answers(root: &Path, store: Option<&str>) {
    let end = Instant::now() + FINISH_TIMEOUT;
    while !check::are_requests_answered(root, store) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
}
