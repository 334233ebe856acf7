//! The nodes, their turns, and what happens to one of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::bail;
use goondan::SharedDatabase;
use goondan_conformance::proxy::{FaultProxy, ProxyFlow};

use crate::chaos::process::{Process, Start, Word};
use crate::chaos::swarm::{Job, Said};

use super::{PATIENCE, project};

const NODES: usize = 3;

/// Turns that a node runs at a time.
const TURNS: usize = 4;

/// Turns under way: more than one node takes, and no more than two.
const JOBS: usize = 8;

/// How often it is looked where turns run.
const LOOK: Duration = Duration::from_millis(2);

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// It gets SIGKILL.
    Kill,
    /// Its connections to the database are closed, and new ones too.
    Cut,
    /// Its connections to the database stay open, and nothing comes through.
    Silence,
}

/// Which node it happens to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Leader,
    Worker,
}

struct Node {
    process: Process,
    proxy: FaultProxy,
}

/// The nodes, and the turns that are under way.
pub(super) struct Nodes<'p> {
    root: &'p Path,
    store: &'p str,
    nodes: Vec<Node>,
    heard: (Sender<Word>, Receiver<Word>),
    leader: Option<u32>,
    /// Those without a result.
    open: BTreeMap<String, Job>,
    made: usize,
}

impl<'p> Nodes<'p> {
    pub(super) fn start(root: &'p Path, store: &'p str) -> anyhow::Result<Self> {
        let (heard, open) = (channel(), BTreeMap::new());
        let mut all = Nodes {
            root,
            store,
            nodes: Vec::new(),
            heard,
            leader: None,
            open,
            made: 0,
        };
        for number in 0..NODES {
            let proxy = FaultProxy::start(store.parse::<SharedDatabase>()?.server())?;
            let process = all.process(number, &proxy)?;
            all.nodes.push(Node { process, proxy });
        }
        Ok(all)
    }

    fn process(&self, number: usize, proxy: &FaultProxy) -> anyhow::Result<Process> {
        let start = Start {
            root: self.root,
            state: format!("state-{number}"),
            project: project::FOLDER,
            store: self.store,
            proxy: Some(proxy.place()),
            turns: Some(TURNS),
        };
        Process::start(&start, self.heard.0.clone())
    }

    /// Has turns run, lets one of the nodes that run some be lost, and tells how long each of its turns took to go on elsewhere.
    pub(super) fn lose(&mut self, loss: Loss, place: Place) -> anyhow::Result<Vec<Duration>> {
        let end = Instant::now() + PATIENCE;
        let (victim, turns) = loop {
            self.begin()?;
            if let Some(found) = self.who_runs(place)? {
                break found;
            }
            // That node is not there yet.
            self.finish()?;
            anyhow::ensure!(Instant::now() < end, "no turn has come to such a node");
        };
        let lost = Instant::now();
        let node = &mut self.nodes[victim];
        let process = node.process.id();
        match loss {
            Loss::Kill => node.process.kill()?,
            Loss::Cut => node.proxy.set(ProxyFlow::Cut),
            Loss::Silence => node.proxy.set(ProxyFlow::Silent),
        }
        let mut took = BTreeMap::new();
        self.until("its turns go on elsewhere", |nodes| {
            let begun = project::begun(nodes.root)?;
            for turn in &turns {
                if begun.get(turn).is_some_and(|by| *by != process) {
                    took.entry(turn.clone()).or_insert_with(|| lost.elapsed());
                }
            }
            Ok(took.len() == turns.len())
        })?;
        self.nodes[victim].proxy.set(ProxyFlow::Open);
        self.finish()?;
        self.revive()?;
        Ok(took.into_values().collect())
    }

    /// Hands in turns, and waits until all of them run.
    fn begin(&mut self) -> anyhow::Result<()> {
        for _ in 0..JOBS {
            let id = format!("job-{}", self.made);
            // An instance would wait for the node that its last turn ran on.
            self.open.insert(
                id.clone(),
                Job {
                    id: id.clone(),
                    key: id.clone(),
                    text: id,
                },
            );
            self.made += 1;
        }
        self.until("the turns have begun", |nodes| {
            let begun = project::begun(nodes.root)?;
            Ok(nodes.open.keys().all(|job| begun.contains_key(job)))
        })
    }

    /// The node of that place that runs the most turns, and its turns.
    fn who_runs(&self, place: Place) -> anyhow::Result<Option<(usize, Vec<String>)>> {
        let begun = project::begun(self.root)?;
        let turns_of = |process: u32| -> Vec<String> {
            self.open
                .keys()
                .filter(|job| begun.get(*job) == Some(&process))
                .cloned()
                .collect()
        };
        let nodes = self
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| (number, node.process.id()));
        let of_place = nodes
            .filter(|(_, process)| (Some(*process) == self.leader) == (place == Place::Leader));
        let with_turns = of_place.map(|(number, process)| (number, turns_of(process)));
        Ok(with_turns
            .filter(|(_, turns)| !turns.is_empty())
            .max_by_key(|(_, turns)| turns.len()))
    }

    /// Lets all turns go on to their end.
    fn finish(&mut self) -> anyhow::Result<()> {
        for job in self.open.keys() {
            project::let_go(self.root, job)?;
        }
        self.until("the turns have ended", |nodes| Ok(nodes.open.is_empty()))
    }

    /// Starts again what has ended.
    fn revive(&mut self) -> anyhow::Result<()> {
        for number in 0..NODES {
            if self.nodes[number].process.child.try_wait()?.is_some() {
                self.nodes[number].process = self.process(number, &self.nodes[number].proxy)?;
            }
        }
        Ok(())
    }

    /// Hands turns in to whoever leads, and listens, until something is so.
    fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so(self)? {
            let leader = self.leader;
            if let Some(leader) = self
                .nodes
                .iter_mut()
                .find(|node| Some(node.process.id()) == leader)
            {
                self.open.values().for_each(|job| leader.process.give(job));
            }
            match self.heard.1.recv_timeout(LOOK) {
                Ok((process, Said::Ready)) => self.leader = Some(process),
                Ok((_, Said::Done(id, reason))) if reason != "error" => drop(self.open.remove(&id)),
                // The leader is told of the database, too: it is asked again.
                Ok((process, Said::Done(id, _) | Said::Refused(id))) => {
                    self.ask_again(process, &id)
                }
                Ok((_, Said::Accepted(_))) | Err(_) => {}
            }
            if Instant::now() >= end {
                let open: Vec<_> = self.open.keys().collect();
                bail!(
                    "after {} s it is not so that {what}; without a result: {open:?}",
                    PATIENCE.as_secs()
                );
            }
        }
        Ok(())
    }

    fn ask_again(&mut self, process: u32, id: &str) {
        if let Some(node) = self
            .nodes
            .iter_mut()
            .find(|node| node.process.id() == process)
        {
            node.process.given.remove(id);
        }
    }
}
