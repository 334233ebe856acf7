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

use super::swarm::{Job, Said};
use super::{Plan, check, project};

/// Jobs that are under way at the same time.
const UNDER_WAY: usize = 12;

/// The longest a swarm lives before it is killed.
const LONGEST_LIFE: Duration = Duration::from_millis(400);

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
        let life = random.random_range(Duration::ZERO..LONGEST_LIFE);
        nodes.live(&mut ledger, life, Feed::Endless)?;
        nodes.replace(random.random_range(0..plan.nodes))?;
        kills += 1;
    }
    nodes.live(&mut ledger, LAST_LIFE, Feed::OnlyWhatIsLeft)?;
    let store = plan.store.as_deref();
    wait_for_late_answers(root, store);
    let takeovers = nodes.takeovers;
    drop(nodes);
    let (jobs, accepted) = (ledger.jobs.len(), ledger.accepted.len());
    let report = check::everything(root, store, &ledger);
    println!("{kills} kills, {takeovers} lives, {jobs} jobs, {accepted} accepted; {}", report.figures);
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
    /// How often one of them has begun to work.
    takeovers: usize,
}

impl<'p> Nodes<'p> {
    fn start(root: &'p Path, plan: &'p Plan) -> anyhow::Result<Self> {
        let mut nodes = Nodes { root, plan, nodes: Vec::new(), heard: channel(), takeovers: 0 };
        for number in 0..plan.nodes {
            let node = nodes.process(number)?;
            nodes.nodes.push(node);
        }
        Ok(nodes)
    }

    fn process(&self, number: usize) -> anyhow::Result<Process> {
        // The first has the folder of a swarm that is alone.
        let state = if number == 0 { project::STATE.to_owned() } else { format!("{}-{number}", project::STATE) };
        let store = self.plan.store.as_deref().unwrap_or_default();
        Process::start(self.root, &state, store, self.heard.0.clone())
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
            if let Some(worker) = self.nodes.iter_mut().find(|node| node.is_ready) {
                worker.give(ledger, feed);
            }
            if feed == Feed::OnlyWhatIsLeft && ledger.jobs.keys().all(|id| ledger.done.contains_key(id)) {
                return Ok(());
            }
            // One that was killed may have said something before.
            match self.heard.1.recv_timeout(end.saturating_duration_since(Instant::now()).min(LOOK)) {
                Ok((process, said)) => {
                    let node = self.nodes.iter_mut().find(|node| node.child.id() == process);
                    if let (Some(node), Said::Ready) = (node, &said) {
                        node.is_ready = true;
                        self.takeovers += 1;
                    }
                    match said {
                        // The database was away: the turn goes on, and whoever asks again is told how it ended.
                        Said::Done(id, reason) if self.plan.database_restarts && reason == "error" => {
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
            if !self.plan.database_restarts {
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
    /// It works.
    is_ready: bool,
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
        Ok(Process { child, stdin, given: BTreeSet::new(), is_ready: false })
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
