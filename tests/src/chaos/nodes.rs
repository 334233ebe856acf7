//! The nodes that run the swarm, and their disruptions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::bail;
use goondan::SharedDatabase;
use goondan_conformance::proxy::{FaultProxy, ProxyFlow};
use rand::RngExt;
use rand::rngs::StdRng;

use super::database::DisruptedDatabase;
use super::driver::JobLedger;
use super::plan::{ChaosDisruption, ChaosPlan};
use super::process::{ProcessReport, ProcessStart, SwarmProcess};
use super::project;
use super::swarm::{self, ProcessCommand, SwarmReport};

/// Duration of a pause or silence among several nodes: longer than a lease.
const LEASE_LOSS_DURATION: Duration = Duration::from_millis(12_500);

/// Duration of a pause of the only node.
const SHORT_PAUSE_DURATION: Duration = Duration::from_secs(1);

/// Duration of closed or slow connections.
const CONNECTION_FAULT_DURATION: Duration = Duration::from_secs(4);

/// Latency of slow connections.
const SLOW_LATENCY: Duration = Duration::from_millis(20);

/// Largest change of a clock, in seconds.
const MAX_CLOCK_OFFSET: i64 = 2 * 60 * 60;

/// Interval of checks on the processes.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Delay before a process that exited is started again, as by a supervisor.
const RESTART_DELAY: Duration = Duration::from_millis(500);

/// Time after which a process that was asked to stop is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Number of concurrent jobs.
const OPEN_JOBS: usize = 12;

/// Jobs to submit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JobFeed {
    /// New jobs and unfinished ones.
    Endless,
    /// Only unfinished jobs.
    Unfinished,
}

/// A place for a process.
struct NodeSlot {
    process: Option<SwarmProcess>,
    /// Time of the next start, if no process is running.
    starts_at: Instant,
    /// Generation of the project that the next process runs.
    generation: usize,
    proxy: Option<FaultProxy>,
    /// Time of SIGSTOP.
    paused_since: Option<Instant>,
    /// End of a connection fault.
    faulty_until: Option<Instant>,
    /// Time of SIGTERM.
    stopping_since: Option<Instant>,
}

impl NodeSlot {
    fn new(proxy: Option<FaultProxy>) -> Self {
        NodeSlot {
            process: None,
            starts_at: Instant::now(),
            generation: 0,
            proxy,
            paused_since: None,
            faulty_until: None,
            stopping_since: None,
        }
    }

    fn is_undisturbed(&self) -> bool {
        self.process.is_some()
            && self.paused_since.is_none()
            && self.faulty_until.is_none()
            && self.stopping_since.is_none()
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        if let (Some(_), Some(process)) = (self.paused_since.take(), &self.process) {
            process.signal("CONT")?;
        }
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(process) = &mut self.process {
            process.stop()?;
            self.stopping_since = Some(Instant::now());
        }
        Ok(())
    }

    fn begin_fault(&mut self, flow: ProxyFlow, duration: Duration) {
        if let Some(proxy) = &self.proxy {
            proxy.set(flow);
            self.faulty_until = Some(Instant::now() + duration);
        }
    }

    fn end_fault(&mut self) {
        self.faulty_until = None;
        if let Some(proxy) = &self.proxy {
            proxy.set(ProxyFlow::Open);
        }
    }
}

/// The nodes that run the swarm.
pub(super) struct NodeSet<'p> {
    root: &'p Path,
    plan: &'p ChaosPlan,
    nodes: Vec<NodeSlot>,
    reports: (Sender<ProcessReport>, Receiver<ProcessReport>),
    /// Number of processes that began to lead.
    pub(super) takeovers: usize,
    /// Number of disruptions of each kind.
    pub(super) disruptions: BTreeMap<ChaosDisruption, usize>,
    /// Node of each process id.
    pub(super) processes: BTreeMap<u32, usize>,
    /// Process that began to lead last.
    leader: Option<u32>,
    /// Nodes that a running deployment has not replaced yet.
    outdated: Vec<usize>,
    generation: usize,
    pub(super) database: Option<DisruptedDatabase>,
}

impl<'p> NodeSet<'p> {
    pub(super) fn start(root: &'p Path, plan: &'p ChaosPlan) -> anyhow::Result<Self> {
        let mut nodes = NodeSet {
            root,
            plan,
            nodes: Vec::new(),
            reports: channel(),
            takeovers: 0,
            disruptions: BTreeMap::new(),
            processes: BTreeMap::new(),
            leader: None,
            outdated: Vec::new(),
            generation: 0,
            database: plan.server.clone().map(DisruptedDatabase::new),
        };
        for number in 0..plan.nodes {
            let proxy = match &plan.store {
                Some(store) => Some(FaultProxy::start(
                    store.parse::<SharedDatabase>()?.server(),
                )?),
                None => None,
            };
            nodes.nodes.push(NodeSlot::new(proxy));
            nodes.spawn(number)?;
        }
        Ok(nodes)
    }

    fn spawn(&mut self, number: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        let start = ProcessStart {
            root: self.root,
            // The first node uses the state directory of a swarm without other nodes.
            state: if number == 0 {
                project::STATE.to_owned()
            } else {
                format!("{}-{number}", project::STATE)
            },
            project: project::GENERATIONS[node.generation],
            store: self.plan.store.as_deref().unwrap_or_default(),
            proxy: node.proxy.as_ref().map(FaultProxy::place),
            turns: None,
        };
        let process = SwarmProcess::start(&start, self.reports.0.clone())?;
        self.processes.insert(process.id(), number);
        node.process = Some(process);
        node.stopping_since = None;
        Ok(())
    }

    /// Disrupts a node or the database, unless too many are disrupted already.
    pub(super) fn disrupt(
        &mut self,
        disruption: ChaosDisruption,
        number: usize,
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        if !self.can_disrupt(disruption, number) {
            return Ok(());
        }
        *self.disruptions.entry(disruption).or_default() += 1;
        let node = &mut self.nodes[number];
        match disruption {
            ChaosDisruption::Kill => self.kill(number)?,
            ChaosDisruption::Stop => node.stop()?,
            ChaosDisruption::Pause => {
                if let Some(process) = &node.process {
                    process.signal("STOP")?;
                }
                node.paused_since = Some(Instant::now());
            }
            ChaosDisruption::Clock => {
                let offset = random.random_range(-MAX_CLOCK_OFFSET..=MAX_CLOCK_OFFSET);
                if let Some(process) = &mut node.process {
                    process.send(&ProcessCommand::ClockOffset(offset));
                }
            }
            ChaosDisruption::Cut => node.begin_fault(ProxyFlow::Cut, CONNECTION_FAULT_DURATION),
            ChaosDisruption::Silence => node.begin_fault(ProxyFlow::Silent, LEASE_LOSS_DURATION),
            ChaosDisruption::Delay => {
                node.begin_fault(ProxyFlow::Slow(SLOW_LATENCY), CONNECTION_FAULT_DURATION);
            }
            ChaosDisruption::Deploy => self.deploy(),
            ChaosDisruption::Crash | ChaosDisruption::Outage | ChaosDisruption::Disk => {
                self.disrupt_database(disruption)?;
            }
        }
        Ok(())
    }

    fn can_disrupt(&self, disruption: ChaosDisruption, number: usize) -> bool {
        let node = &self.nodes[number];
        let undisturbed = self.nodes.iter().filter(|node| node.is_undisturbed());
        // One of several nodes stays undisturbed, so that work continues.
        let may_suspend =
            node.is_undisturbed() && (self.nodes.len() == 1 || undisturbed.count() > 1);
        match disruption {
            ChaosDisruption::Kill => node.process.is_some(),
            ChaosDisruption::Stop | ChaosDisruption::Clock => node.is_undisturbed(),
            ChaosDisruption::Pause
            | ChaosDisruption::Cut
            | ChaosDisruption::Silence
            | ChaosDisruption::Delay => may_suspend,
            ChaosDisruption::Crash | ChaosDisruption::Outage | ChaosDisruption::Disk => self
                .database
                .as_ref()
                .is_some_and(DisruptedDatabase::is_recovered),
            ChaosDisruption::Deploy => self.outdated.is_empty(),
        }
    }

    fn disrupt_database(&mut self, disruption: ChaosDisruption) -> anyhow::Result<()> {
        let Some(database) = &mut self.database else {
            return Ok(());
        };
        match disruption {
            ChaosDisruption::Crash => database.crash(),
            ChaosDisruption::Outage => database.begin_outage(),
            _ => database.fill_disk(),
        }
    }

    /// Kills a node, and starts it again.
    fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        node.paused_since = None;
        if let Some(mut process) = node.process.take() {
            process.kill()?;
        }
        self.spawn(number)
    }

    /// Begins to replace all nodes, the leader last.
    fn deploy(&mut self) {
        self.generation = (self.generation + 1) % project::GENERATIONS.len();
        let mut outdated: Vec<usize> = (0..self.nodes.len()).collect();
        // Nodes are taken from the end.
        outdated.sort_by_key(|number| !self.is_leader(*number));
        self.outdated = outdated;
    }

    fn is_leader(&self, number: usize) -> bool {
        self.nodes[number]
            .process
            .as_ref()
            .is_some_and(|process| Some(process.id()) == self.leader)
    }

    /// Replaces the next node of a deployment, after the previous one has stopped.
    fn continue_deployment(&mut self) -> anyhow::Result<()> {
        if self.nodes.iter().any(|node| node.stopping_since.is_some()) {
            return Ok(());
        }
        let Some(number) = self.outdated.pop() else {
            return Ok(());
        };
        self.nodes[number].generation = self.generation;
        self.nodes[number].resume()?;
        self.nodes[number].stop()
    }

    /// Returns whether a node is paused or disconnected.
    pub(super) fn has_suspended_node(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| node.paused_since.is_some() || node.faulty_until.is_some())
    }

    /// Ends each disruption after its duration, or immediately if `all`.
    pub(super) fn recover(&mut self, all: bool) -> anyhow::Result<()> {
        if let Some(database) = &mut self.database {
            database.recover(all)?;
        }
        let pause_duration = match self.nodes.len() {
            1 => SHORT_PAUSE_DURATION,
            _ => LEASE_LOSS_DURATION,
        };
        for node in &mut self.nodes {
            let is_pause_over = |since: Instant| all || since.elapsed() > pause_duration;
            if node.paused_since.is_some_and(is_pause_over) {
                node.resume()?;
            }
            if node
                .faulty_until
                .is_some_and(|until| all || Instant::now() > until)
            {
                node.end_fault();
            }
        }
        Ok(())
    }

    /// Submits jobs and receives reports for a duration, or until no job is left.
    pub(super) fn work(
        &mut self,
        ledger: &mut JobLedger,
        duration: Duration,
        feed: JobFeed,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + duration;
        let mut checked = Instant::now();
        loop {
            self.submit_jobs(ledger, feed);
            if feed == JobFeed::Unfinished && ledger.unfinished().next().is_none() {
                return Ok(());
            }
            // A killed process can have sent reports before.
            let wait = end.saturating_duration_since(Instant::now());
            match self.reports.1.recv_timeout(wait.min(CHECK_INTERVAL)) {
                Ok((process, report)) => self.receive(ledger, process, report),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if checked.elapsed() >= CHECK_INTERVAL {
                checked = Instant::now();
                self.recover(false)?;
                self.supervise()?;
                self.continue_deployment()?;
            }
            if Instant::now() < end {
                continue;
            }
            if feed == JobFeed::Unfinished {
                let left: Vec<_> = ledger.unfinished().map(|job| &job.id).collect();
                bail!(
                    "these jobs have no result after {} s: {left:?}",
                    duration.as_secs()
                );
            }
            return Ok(());
        }
    }

    /// Submits each job without a result to the leader. The id of a job stays the same.
    fn submit_jobs(&mut self, ledger: &mut JobLedger, feed: JobFeed) {
        let leader = self.leader;
        let mut processes = self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut());
        let Some(leader) = processes.find(|process| Some(process.id()) == leader) else {
            return;
        };
        if feed == JobFeed::Endless {
            ledger.create_jobs(OPEN_JOBS);
        }
        ledger.unfinished().for_each(|job| leader.submit(job));
    }

    fn receive(&mut self, ledger: &mut JobLedger, process: u32, report: SwarmReport) {
        let mut processes = self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut());
        if report == SwarmReport::Ready && processes.any(|running| running.id() == process) {
            self.leader = Some(process);
            self.takeovers += 1;
        }
        let store_may_fail = self.plan.store_may_fail();
        match report {
            // The turn continues after the outage or on another leader, so the result is requested again.
            SwarmReport::Done(id, reason) if store_may_fail && reason == "error" => {
                self.forget_submission(&id);
            }
            SwarmReport::Refused(id) if store_may_fail => self.forget_submission(&id),
            report => ledger.add(report),
        }
    }

    fn forget_submission(&mut self, id: &str) {
        for process in self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut())
        {
            process.submitted.remove(id);
        }
    }

    /// Restarts nodes that exited. An unexpected exit is an error.
    fn supervise(&mut self) -> anyhow::Result<()> {
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            let Some(process) = &mut node.process else {
                if Instant::now() >= node.starts_at {
                    self.spawn(number)?;
                }
                continue;
            };
            let Some(status) = process.child.try_wait()? else {
                if node
                    .stopping_since
                    .is_some_and(|since| since.elapsed() > STOP_TIMEOUT)
                {
                    self.kill(number)?;
                }
                continue;
            };
            let is_expected = match status.code() {
                // SIGTERM can arrive before the process handles it.
                Some(0) | None => node.stopping_since.is_some(),
                Some(swarm::TAKEN_OVER) => true,
                Some(1) => self.plan.store_may_fail(),
                _ => false,
            };
            if !is_expected {
                bail!("a node exited unexpectedly: {status}");
            }
            let was_stopped = node.stopping_since.take().is_some();
            node.process = None;
            node.paused_since = None;
            node.starts_at = Instant::now()
                + match was_stopped {
                    true => Duration::ZERO,
                    false => RESTART_DELAY,
                };
        }
        Ok(())
    }
}
