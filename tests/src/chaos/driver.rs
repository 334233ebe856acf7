//! Feeds, kills and restarts the swarm.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::swarm::{self, Job, Said};
use super::{Plan, check, project};

/// Jobs that are under way at the same time.
const UNDER_WAY: usize = 12;

/// How long a node stands still: longer than a member may be silent.
const PAUSE: Duration = Duration::from_secs(13);

/// How often it is looked whether all processes are there.
const LOOK: Duration = Duration::from_millis(100);

/// How long the last life may take to finish what is left.
const LAST_LIFE: Duration = Duration::from_secs(120);

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
    fn note(&mut self, said: Said) {
        match said {
            Said::Ready => {}
            Said::Accepted(id) => drop(self.accepted.insert(id)),
            Said::Done(id, reason) => drop(self.done.insert(id, reason)),
        }
    }
}

/// Runs `plan` in a folder of its own, which stays where something is wrong.
#[allow(clippy::print_stdout, reason = "a program's result")]
pub(super) fn run(plan: &Plan) -> anyhow::Result<()> {
    println!("seed {}", plan.seed);
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    project::write(&root.join("project"))?;
    let mut random = StdRng::seed_from_u64(plan.seed);
    let mut ledger = Ledger::default();
    let (started, mut kills) = (Instant::now(), 0);
    let mut nodes = Nodes::start(root, plan)?;
    while started.elapsed() < plan.seconds && kills < plan.kills {
        let life = random.random_range(Duration::ZERO..plan.life);
        nodes.live(&mut ledger, life, Feed::Endless)?;
        nodes.go_on(false)?;
        let node = random.random_range(0..plan.nodes);
        if plan.pauses && random.random_range(0..4) == 0 {
            nodes.pause(node)?;
        } else {
            nodes.replace(node)?;
            kills += 1;
        }
    }
    nodes.go_on(true)?;
    nodes.live(&mut ledger, LAST_LIFE, Feed::OnlyWhatIsLeft)?;
    let store = plan.store.as_deref();
    wait_for_late_answers(root, store);
    let (takeovers, pauses, processes) = (nodes.takeovers, nodes.pauses, std::mem::take(&mut nodes.processes));
    drop(nodes);
    if plan.nodes > 1 {
        println!("turns begun by node: {:?}", turns_by_node(root, &processes));
    }
    let (jobs, accepted) = (ledger.jobs.len(), ledger.accepted.len());
    let report = check::everything(root, store, &ledger);
    println!("{kills} kills, {pauses} pauses, {takeovers} lives, {jobs} jobs, {accepted} accepted; {}", report.figures);
    if report.faults.is_empty() {
        println!("{} passed, 0 failed", report.checks);
        return Ok(());
    }
    for fault in &report.faults {
        println!("  {fault}");
    }
    let kept = folder.keep();
    bail!("{} faults with seed {}; the state is in {}", report.faults.len(), plan.seed, kept.display())
}

/// How many turns each node has begun, in all its lives, by what its tools wrote down.
fn turns_by_node(root: &Path, processes: &BTreeMap<u32, usize>) -> BTreeMap<String, usize> {
    let mut turns = BTreeMap::new();
    for line in std::fs::read_to_string(root.join("project/nodes.txt")).unwrap_or_default().lines() {
        let node = line.parse().ok().and_then(|process: u32| processes.get(&process));
        *turns.entry(node.map_or("?".to_owned(), usize::to_string)).or_default() += 1;
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

/// Where jobs come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feed {
    /// New ones follow.
    Endless,
    /// Only those without a result.
    OnlyWhatIsLeft,
}

/// What a process says, with its number.
type Word = (u32, Said);

/// The processes that run the swarm, or would.
struct Nodes<'p> {
    root: &'p Path,
    plan: &'p Plan,
    nodes: Vec<Process>,
    /// What they say, each word with the process that says it.
    heard: (Sender<Word>, Receiver<Word>),
    /// How often one of them has begun to lead.
    takeovers: usize,
    pauses: usize,
    /// Which node each process was.
    processes: BTreeMap<u32, usize>,
    /// The process that has begun to lead last.
    leader: Option<u32>,
}

impl<'p> Nodes<'p> {
    fn start(root: &'p Path, plan: &'p Plan) -> anyhow::Result<Self> {
        let (nodes, heard, processes) = (Vec::new(), channel(), BTreeMap::new());
        let mut nodes = Nodes { root, plan, nodes, heard, takeovers: 0, pauses: 0, processes, leader: None };
        for number in 0..plan.nodes {
            let node = nodes.process(number)?;
            nodes.nodes.push(node);
        }
        Ok(nodes)
    }

    fn process(&mut self, number: usize) -> anyhow::Result<Process> {
        // The first has the folder of a swarm that is alone.
        let state = if number == 0 { project::STATE.to_owned() } else { format!("{}-{number}", project::STATE) };
        let store = self.plan.store.as_deref().unwrap_or_default();
        let process = Process::start(self.root, &state, store, self.heard.0.clone())?;
        self.processes.insert(process.child.id(), number);
        Ok(process)
    }

    /// Lets a node stand still.
    fn pause(&mut self, number: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[number];
        if node.paused.is_none() {
            node.signal("STOP")?;
            node.paused = Some(Instant::now());
            self.pauses += 1;
        }
        Ok(())
    }

    /// Lets those go on that have stood still for long enough, or all.
    fn go_on(&mut self, all: bool) -> anyhow::Result<()> {
        for node in &mut self.nodes {
            if node.paused.is_some_and(|since| all || since.elapsed() > PAUSE) {
                node.signal("CONT")?;
                node.paused = None;
            }
        }
        Ok(())
    }

    /// Kills a node, and starts it again.
    fn replace(&mut self, number: usize) -> anyhow::Result<()> {
        self.nodes[number].kill()?;
        self.nodes[number] = self.process(number)?;
        Ok(())
    }

    /// Feeds the swarm and listens for as long as `life`, or until nothing is left.
    fn live(&mut self, ledger: &mut Ledger, life: Duration, feed: Feed) -> anyhow::Result<()> {
        let end = Instant::now() + life;
        loop {
            if let Some(leader) = self.nodes.iter_mut().find(|node| Some(node.child.id()) == self.leader) {
                leader.give(ledger, feed);
            }
            if feed == Feed::OnlyWhatIsLeft && ledger.jobs.keys().all(|id| ledger.done.contains_key(id)) {
                return Ok(());
            }
            // One that was killed may have said something before.
            match self.heard.1.recv_timeout(end.saturating_duration_since(Instant::now()).min(LOOK)) {
                Ok((process, said)) => {
                    let is_there = self.nodes.iter().any(|node| node.child.id() == process);
                    if is_there && said == Said::Ready {
                        self.leader = Some(process);
                        self.takeovers += 1;
                    }
                    match said {
                        // The database was away, or another node leads by now: the turn goes on, and whoever asks again is told
                        // how it ended.
                        Said::Done(id, reason) if self.plan.may_fail() && reason == "error" => {
                            for node in &mut self.nodes {
                                node.given.remove(&id);
                            }
                        }
                        said => ledger.note(said),
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.are_alive()?,
            }
            if Instant::now() >= end {
                if feed == Feed::OnlyWhatIsLeft {
                    let left: Vec<_> = ledger.jobs.keys().filter(|id| !ledger.done.contains_key(*id)).collect();
                    bail!("after {} s these jobs have no result: {left:?}", life.as_secs());
                }
                return Ok(());
            }
        }
    }

    /// A node that ends by itself is a fault, unless its database may be away: then it is started again, as a supervisor would.
    fn are_alive(&mut self) -> anyhow::Result<()> {
        for number in 0..self.nodes.len() {
            let Some(status) = self.nodes[number].child.try_wait()? else { continue };
            let is_meant = self.plan.database_restarts || status.code() == Some(swarm::TAKEN_OVER);
            if !is_meant {
                bail!("a node ended by itself: {status}");
            }
            self.nodes[number] = self.process(number)?;
        }
        Ok(())
    }
}

/// A process that runs the swarm, or would.
struct Process {
    child: Child,
    stdin: ChildStdin,
    given: BTreeSet<String>,
    /// Since when it stands still.
    paused: Option<Instant>,
}

impl Process {
    fn start(root: &Path, state: &str, store: &str, heard: Sender<Word>) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["chaos".as_ref(), "--child".as_ref(), root.as_os_str(), state.as_ref(), store.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("a pipe to the swarm")?;
        let stdout = BufReader::new(child.stdout.take().context("a pipe from the swarm")?);
        let process = child.id();
        std::thread::spawn(move || {
            // A line that was cut off by the kill was not said.
            for line in stdout.lines().map_while(Result::ok) {
                if serde_json::from_str(&line).is_ok_and(|word: Said| heard.send((process, word)).is_err()) {
                    return;
                }
            }
        });
        Ok(Process { child, stdin, given: BTreeSet::new(), paused: None })
    }

    /// Jobs without a result are given again after each start, under the same id.
    fn give(&mut self, ledger: &mut Ledger, feed: Feed) {
        let open = |ledger: &Ledger| ledger.jobs.len() - ledger.done.len();
        while feed == Feed::Endless && open(ledger) < UNDER_WAY {
            let number = ledger.jobs.len();
            let key = project::KEYS[number % project::KEYS.len()].to_owned();
            let job = Job { id: format!("job-{number}"), key, text: format!("job-{number}") };
            ledger.before.insert(job.id.clone(), ledger.accepted.clone());
            ledger.jobs.insert(job.id.clone(), job);
        }
        for (id, job) in ledger.jobs.iter().filter(|(id, _)| !ledger.done.contains_key(*id)) {
            if self.given.insert(id.clone()) {
                let line = serde_json::to_string(job).expect("a job is plain data");
                // A swarm that has just ended does not read; its end shows when we listen.
                let _ = writeln!(self.stdin, "{line}");
            }
        }
    }

    fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status()?;
        anyhow::ensure!(sent.success(), "the signal {signal} could not be sent");
        Ok(())
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
