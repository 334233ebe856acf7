//! The nodes, their turns, and the loss of one node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::bail;
use goondan::SharedDatabase;
use goondan_conformance::proxy::{FaultProxy, ProxyFlow};

use crate::chaos::process::{ProcessReport, ProcessStart, SwarmProcess};
use crate::chaos::swarm::{Job, SwarmReport};

use super::{TIMEOUT, project};

const NODE_COUNT: usize = 3;

/// Maximum number of concurrent turns of a node.
const TURNS_PER_NODE: usize = 4;

/// Number of concurrent turns: more than one node runs, and at most what two nodes run.
const CONCURRENT_JOBS: usize = 8;

/// Interval of checks on the turns.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Way to lose a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLoss {
    /// The node receives SIGKILL.
    Kill,
    /// Its connections to the database are closed, including new ones.
    Cut,
    /// Its connections to the database stay open, but transfer nothing.
    Silence,
}

/// Role of the lost node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeRole {
    Leader,
    Worker,
}

struct ProxiedNode {
    process: SwarmProcess,
    proxy: FaultProxy,
}

/// The nodes with their running turns.
pub(super) struct FailoverNodes<'p> {
    root: &'p Path,
    store: &'p str,
    nodes: Vec<ProxiedNode>,
    reports: (Sender<ProcessReport>, Receiver<ProcessReport>),
    leader: Option<u32>,
    /// Jobs without a result.
    open: BTreeMap<String, Job>,
    /// Number of created jobs.
    created: usize,
}

impl<'p> FailoverNodes<'p> {
    pub(super) fn start(root: &'p Path, store: &'p str) -> anyhow::Result<Self> {
        let (reports, open) = (channel(), BTreeMap::new());
        let mut all = FailoverNodes {
            root,
            store,
            nodes: Vec::new(),
            reports,
            leader: None,
            open,
            created: 0,
        };
        for number in 0..NODE_COUNT {
            let proxy = FaultProxy::start(store.parse::<SharedDatabase>()?.server())?;
            let process = all.process(number, &proxy)?;
            all.nodes.push(ProxiedNode { process, proxy });
        }
        Ok(all)
    }

    fn process(&self, number: usize, proxy: &FaultProxy) -> anyhow::Result<SwarmProcess> {
        let start = ProcessStart {
            root: self.root,
            state: format!("state-{number}"),
            project: project::FOLDER,
            store: self.store,
            proxy: Some(proxy.place()),
            turns: Some(TURNS_PER_NODE),
        };
        SwarmProcess::start(&start, self.reports.0.clone())
    }

    /// Starts turns, loses a node that runs some of them, and returns how long each took to resume on another node.
    pub(super) fn lose(&mut self, loss: NodeLoss, role: NodeRole) -> anyhow::Result<Vec<Duration>> {
        let end = Instant::now() + TIMEOUT;
        let (lost_node, turns) = loop {
            self.begin()?;
            if let Some(found) = self.busiest_node(role)? {
                break found;
            }
            // No such node is ready yet.
            self.finish()?;
            anyhow::ensure!(Instant::now() < end, "no node with this role runs a turn");
        };
        let lost_at = Instant::now();
        let node = &mut self.nodes[lost_node];
        let process = node.process.id();
        match loss {
            NodeLoss::Kill => node.process.kill()?,
            NodeLoss::Cut => node.proxy.set(ProxyFlow::Cut),
            NodeLoss::Silence => node.proxy.set(ProxyFlow::Silent),
        }
        let mut durations = BTreeMap::new();
        self.wait_until("its turns resume on another node", |nodes| {
            let running = project::running_on(nodes.root)?;
            for turn in &turns {
                if running.get(turn).is_some_and(|by| *by != process) {
                    durations
                        .entry(turn.clone())
                        .or_insert_with(|| lost_at.elapsed());
                }
            }
            Ok(durations.len() == turns.len())
        })?;
        self.nodes[lost_node].proxy.set(ProxyFlow::Open);
        self.finish()?;
        self.restart_exited()?;
        Ok(durations.into_values().collect())
    }

    /// Submits jobs, and waits until all their turns run.
    fn begin(&mut self) -> anyhow::Result<()> {
        for _ in 0..CONCURRENT_JOBS {
            let id = format!("job-{}", self.created);
            // A conversation waits for the node of its last turn, so each job has its own.
            self.open.insert(
                id.clone(),
                Job {
                    id: id.clone(),
                    key: id.clone(),
                    text: id,
                },
            );
            self.created += 1;
        }
        self.wait_until("all turns run", |nodes| {
            let running = project::running_on(nodes.root)?;
            Ok(nodes.open.keys().all(|job| running.contains_key(job)))
        })
    }

    /// Returns the node with this role that runs the most turns, and these turns.
    fn busiest_node(&self, role: NodeRole) -> anyhow::Result<Option<(usize, Vec<String>)>> {
        let running = project::running_on(self.root)?;
        let turns_of = |process: u32| -> Vec<String> {
            self.open
                .keys()
                .filter(|job| running.get(*job) == Some(&process))
                .cloned()
                .collect()
        };
        let nodes = self
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| (number, node.process.id()));
        let with_role = nodes
            .filter(|(_, process)| (Some(*process) == self.leader) == (role == NodeRole::Leader));
        let with_turns = with_role.map(|(number, process)| (number, turns_of(process)));
        Ok(with_turns
            .filter(|(_, turns)| !turns.is_empty())
            .max_by_key(|(_, turns)| turns.len()))
    }

    /// Lets all turns end.
    fn finish(&mut self) -> anyhow::Result<()> {
        for job in self.open.keys() {
            project::release(self.root, job)?;
        }
        self.wait_until("all turns have ended", |nodes| Ok(nodes.open.is_empty()))
    }

    /// Starts exited processes again.
    fn restart_exited(&mut self) -> anyhow::Result<()> {
        for number in 0..NODE_COUNT {
            if self.nodes[number].process.child.try_wait()?.is_some() {
                self.nodes[number].process = self.process(number, &self.nodes[number].proxy)?;
            }
        }
        Ok(())
    }

    /// Submits jobs to the leader and receives reports until a condition holds.
    fn wait_until(
        &mut self,
        condition: &str,
        mut holds: impl FnMut(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + TIMEOUT;
        while !holds(self)? {
            let leader = self.leader;
            if let Some(leader) = self
                .nodes
                .iter_mut()
                .find(|node| Some(node.process.id()) == leader)
            {
                self.open
                    .values()
                    .for_each(|job| leader.process.submit(job));
            }
            match self.reports.1.recv_timeout(CHECK_INTERVAL) {
                Ok((process, SwarmReport::Ready)) => self.leader = Some(process),
                Ok((_, SwarmReport::Done(id, reason))) if reason != "error" => {
                    drop(self.open.remove(&id))
                }
                // A leader without its database reports an error, and receives the job again.
                Ok((process, SwarmReport::Done(id, _) | SwarmReport::Refused(id))) => {
                    self.forget_submission(process, &id)
                }
                Ok((_, SwarmReport::Accepted(_))) | Err(_) => {}
            }
            if Instant::now() >= end {
                let open: Vec<_> = self.open.keys().collect();
                bail!(
                    "timeout after {} s until {condition}; jobs without a result: {open:?}",
                    TIMEOUT.as_secs()
                );
            }
        }
        Ok(())
    }

    fn forget_submission(&mut self, process: u32, id: &str) {
        if let Some(node) = self
            .nodes
            .iter_mut()
            .find(|node| node.process.id() == process)
        {
            node.process.submitted.remove(id);
        }
    }
}
