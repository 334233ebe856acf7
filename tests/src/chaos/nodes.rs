//! The processes that run the swarm, and what happens to them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::bail;
use goondan::SharedDatabase;
use goondan_conformance::proxy::{FaultProxy, ProxyFlow};

use super::database::Patient;
use super::driver::Ledger;
use super::plan::{Plan, Trouble};
use super::process::{Process, Start, Word};
use super::project;
use super::swarm::{self, Said};

/// How long a node stands still, or nothing reaches the database: longer than its lease.
const LAPSE: Duration = Duration::from_millis(12_500);

/// How long its connections are cut, or slow.
const HITCH: Duration = Duration::from_secs(4);

/// How slow they are.
const SLOW: Duration = Duration::from_millis(20);

/// How often it is looked how all fare.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// How long a supervisor waits before it starts a node again that has ended.
const RESPAWN: Duration = Duration::from_millis(500);

/// How long a node may take to end when it is told to.
const LEAVE: Duration = Duration::from_secs(20);

/// Jobs that are under way at the same time.
const UNDER_WAY: usize = 12;

/// Where jobs come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// New ones follow.
    Endless,
    /// Only those without a result.
    OnlyWhatIsLeft,
}

/// A place for a process.
struct Node {
    process: Option<Process>,
    /// When it is started again.
    starts_at: Instant,
    /// Of the project that it runs.
    generation: usize,
    proxy: Option<FaultProxy>,
    /// Since when it stands still.
    paused: Option<Instant>,
    /// Until when its connections are in trouble.
    hindered: Option<Instant>,
    /// Since when it is to end.
    leaving: Option<Instant>,
}

impl Node {
    /// Whether nothing but a kill is the matter with it.
    fn is_well(&self) -> bool {
        self.process.is_some()
            && self.paused.is_none()
            && self.hindered.is_none()
            && self.leaving.is_none()
    }

    fn go_on(&mut self) -> anyhow::Result<()> {
        if let (Some(_), Some(process)) = (self.paused.take(), &self.process) {
            process.signal("CONT")?;
        }
        Ok(())
    }

    fn hinder(&mut self, flow: ProxyFlow, time: Duration) {
        if let Some(proxy) = &self.proxy {
            proxy.set(flow);
            self.hindered = Some(Instant::now() + time);
        }
    }

    fn let_through(&mut self) {
        self.hindered = None;
        if let Some(proxy) = &self.proxy {
            proxy.set(ProxyFlow::Open);
        }
    }
}

/// The processes that run the swarm, or would.
pub(super) struct Nodes<'p> {
    root: &'p Path,
    plan: &'p Plan,
    nodes: Vec<Node>,
    /// What they say, each word with the process that says it.
    heard: (Sender<Word>, Receiver<Word>),
    /// How often one of them has begun to lead.
    pub(super) takeovers: usize,
    /// What has happened.
    pub(super) troubles: BTreeMap<Trouble, usize>,
    /// Which node each process was.
    pub(super) processes: BTreeMap<u32, usize>,
    /// The process that has begun to lead last.
    leader: Option<u32>,
    /// Who is still to be replaced by the newer generation.
    old: Vec<usize>,
    generation: usize,
    pub(super) database: Option<Patient>,
    /// How long a node stands still.
    lapse: Duration,
}

impl<'p> Nodes<'p> {
    pub(super) fn start(root: &'p Path, plan: &'p Plan) -> anyhow::Result<Self> {
        let mut nodes = Nodes {
            root,
            plan,
            nodes: Vec::new(),
            heard: channel(),
            takeovers: 0,
            troubles: BTreeMap::new(),
            processes: BTreeMap::new(),
            leader: None,
            old: Vec::new(),
            generation: 0,
            database: plan.server.clone().map(Patient::new),
            // Files have no lease that could end.
            lapse: if plan.is_on_files() { HITCH } else { LAPSE },
        };
        for number in 0..plan.nodes {
            let proxy = match &plan.store {
                Some(store) => Some(FaultProxy::start(
                    store.parse::<SharedDatabase>()?.server(),
                )?),
                None => None,
            };
            let (starts_at, generation) = (Instant::now(), 0);
            let (process, paused, hindered, leaving) = (None, None, None, None);
            nodes.nodes.push(Node {
                process,
                starts_at,
                generation,
                proxy,
                paused,
                hindered,
                leaving,
            });
            nodes.spawn(number)?;
        }
        Ok(nodes)
    }

    fn spawn(&mut self, number: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        let start = Start {
            root: self.root,
            // The first has the folder of a swarm that is alone.
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
        let process = Process::start(&start, self.heard.0.clone())?;
        self.processes.insert(process.id(), number);
        node.process = Some(process);
        node.leaving = None;
        Ok(())
    }

    /// Makes trouble, where there is not too much of it; says whether.
    pub(super) fn trouble(&mut self, trouble: Trouble, number: usize) -> anyhow::Result<bool> {
        // One node is left alone, so that something goes on.
        let may_hinder = self.nodes[number].is_well()
            && (self.plan.is_on_files()
                || self.nodes.iter().filter(|node| node.is_well()).count() > 1);
        let database_is_well = self.database.as_ref().is_some_and(Patient::is_well);
        let may_be = match trouble {
            Trouble::Kill => self.nodes[number].process.is_some(),
            Trouble::Pause | Trouble::Cut | Trouble::Silence | Trouble::Delay => may_hinder,
            Trouble::Crash | Trouble::Outage | Trouble::Disk => database_is_well,
            Trouble::Deploy => self.old.is_empty(),
        };
        if !may_be {
            return Ok(false);
        }
        *self.troubles.entry(trouble).or_default() += 1;
        let node = &mut self.nodes[number];
        match (trouble, &mut self.database) {
            (Trouble::Kill, _) => self.kill(number)?,
            (Trouble::Pause, _) => {
                node.process
                    .as_ref()
                    .map(|process| process.signal("STOP"))
                    .transpose()?;
                node.paused = Some(Instant::now());
            }
            (Trouble::Cut, _) => node.hinder(ProxyFlow::Cut, HITCH),
            (Trouble::Silence, _) => node.hinder(ProxyFlow::Silent, LAPSE),
            (Trouble::Delay, _) => node.hinder(ProxyFlow::Slow(SLOW), HITCH),
            (Trouble::Crash, Some(database)) => database.crash()?,
            (Trouble::Outage, Some(database)) => database.go_away()?,
            (Trouble::Disk, Some(database)) => database.fill()?,
            (Trouble::Deploy, _) => self.deploy(),
            (Trouble::Crash | Trouble::Outage | Trouble::Disk, None) => {}
        }
        Ok(true)
    }

    /// Kills a node, and starts it again.
    fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        node.paused = None;
        if let Some(mut process) = node.process.take() {
            process.kill()?;
        }
        self.spawn(number)
    }

    /// Begins to replace all nodes, the leader last.
    fn deploy(&mut self) {
        self.generation = (self.generation + 1) % project::GENERATIONS.len();
        let mut old: Vec<usize> = (0..self.nodes.len()).collect();
        // Who comes first here is replaced last.
        old.sort_by_key(|number| !self.leads(*number));
        self.old = old;
    }

    fn leads(&self, number: usize) -> bool {
        self.nodes[number]
            .process
            .as_ref()
            .is_some_and(|process| Some(process.id()) == self.leader)
    }

    /// Replaces the next node, once the one before it is replaced.
    fn go_on_deploying(&mut self) {
        if self.nodes.iter().any(|node| node.leaving.is_some()) {
            return;
        }
        let Some(number) = self.old.pop() else { return };
        let node = &mut self.nodes[number];
        node.generation = self.generation;
        if let Some(process) = &mut node.process {
            process.dismiss();
            node.leaving = Some(Instant::now());
        }
    }

    /// Whether any node stands still or is kept from the database.
    pub(super) fn are_hindered(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| node.paused.is_some() || node.hindered.is_some())
    }

    /// Ends what has lasted for long enough, or all.
    pub(super) fn heal(&mut self, all: bool) -> anyhow::Result<()> {
        if let Some(database) = &mut self.database {
            database.heal(all)?;
        }
        for node in &mut self.nodes {
            if node
                .paused
                .is_some_and(|since| all || since.elapsed() > self.lapse)
            {
                node.go_on()?;
            }
            if node
                .hindered
                .is_some_and(|until| all || Instant::now() > until)
            {
                node.let_through();
            }
        }
        Ok(())
    }

    /// Feeds the swarm and listens for as long as `life`, or until nothing is left.
    pub(super) fn live(
        &mut self,
        ledger: &mut Ledger,
        life: Duration,
        feed: Feed,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + life;
        let mut looked = Instant::now();
        loop {
            self.feed(ledger, feed);
            if feed == Feed::OnlyWhatIsLeft
                && ledger.jobs.keys().all(|id| ledger.done.contains_key(id))
            {
                return Ok(());
            }
            // One that was killed may have said something before.
            match self
                .heard
                .1
                .recv_timeout(end.saturating_duration_since(Instant::now()).min(LOOK))
            {
                Ok((process, said)) => self.hear(ledger, process, said),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.heal(false)?;
                self.look_after_processes()?;
                self.go_on_deploying();
            }
            if Instant::now() >= end {
                if feed == Feed::OnlyWhatIsLeft {
                    let left: Vec<_> = ledger
                        .jobs
                        .keys()
                        .filter(|id| !ledger.done.contains_key(*id))
                        .collect();
                    bail!(
                        "after {} s these jobs have no result: {left:?}",
                        life.as_secs()
                    );
                }
                return Ok(());
            }
        }
    }

    /// Jobs without a result are given again to each process that leads, under the same id.
    fn feed(&mut self, ledger: &mut Ledger, feed: Feed) {
        let leader = self.leader;
        let mut processes = self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut());
        let Some(leader) = processes.find(|process| Some(process.id()) == leader) else {
            return;
        };
        if feed == Feed::Endless {
            ledger.make_jobs(UNDER_WAY);
        }
        ledger.open().for_each(|job| leader.give(job));
    }

    fn hear(&mut self, ledger: &mut Ledger, process: u32, said: Said) {
        let mut processes = self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut());
        if said == Said::Ready && processes.any(|there| there.id() == process) {
            self.leader = Some(process);
            self.takeovers += 1;
        }
        match said {
            // The database was away, or another node leads by now: the turn goes on, and whoever asks again is told how it
            // ended.
            Said::Done(id, reason) if self.plan.may_fail() && reason == "error" => {
                for process in self
                    .nodes
                    .iter_mut()
                    .filter_map(|node| node.process.as_mut())
                {
                    process.given.remove(&id);
                }
            }
            Said::Refused(id) if self.plan.may_fail() => {
                for process in self
                    .nodes
                    .iter_mut()
                    .filter_map(|node| node.process.as_mut())
                {
                    process.given.remove(&id);
                }
            }
            said => ledger.note(said),
        }
    }

    /// A node that ends by itself is a fault, unless its database may be away: then it is started again, as a supervisor would.
    fn look_after_processes(&mut self) -> anyhow::Result<()> {
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            let Some(process) = &mut node.process else {
                if Instant::now() >= node.starts_at {
                    self.spawn(number)?;
                }
                continue;
            };
            if let Some(status) = process.child.try_wait()? {
                let is_meant = match status.code() {
                    Some(0) => node.leaving.is_some(),
                    Some(swarm::TAKEN_OVER) => true,
                    Some(1) => self.plan.may_fail(),
                    _ => false,
                };
                if !is_meant {
                    bail!("a node ended by itself: {status}");
                }
                let was_told = node.leaving.take().is_some();
                node.process = None;
                node.paused = None;
                node.starts_at = Instant::now() + if was_told { Duration::ZERO } else { RESPAWN };
            } else if node.leaving.is_some_and(|since| since.elapsed() > LEAVE) {
                // As a supervisor does.
                self.kill(number)?;
            }
        }
        Ok(())
    }
}
