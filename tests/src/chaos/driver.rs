//! Feeds, kills and restarts the swarm.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
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

/// How long the last life may take to finish what is left.
const LAST_LIFE: Duration = Duration::from_secs(120);

/// What the swarm has promised by now.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) accepted: BTreeSet<String>,
    pub(super) done: BTreeMap<String, String>,
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
    while started.elapsed() < plan.seconds && kills < plan.kills {
        let life = random.random_range(Duration::ZERO..LONGEST_LIFE);
        let mut swarm = Process::start(root)?;
        swarm.live(&mut ledger, life, Feed::Endless)?;
        swarm.kill()?;
        kills += 1;
    }
    let mut last = Process::start(root)?;
    last.live(&mut ledger, LAST_LIFE, Feed::OnlyWhatIsLeft)?;
    wait_for_late_answers(root);
    drop(last);
    let (jobs, accepted) = (ledger.jobs.len(), ledger.accepted.len());
    let report = check::everything(root, &ledger);
    println!("{kills} kills, {jobs} jobs, {accepted} accepted; {}", report.figures);
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
fn wait_for_late_answers(root: &Path) {
    let end = Instant::now() + LAST_LIFE;
    while !check::all_answers_are_in(root) && Instant::now() < end {
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

/// A running swarm.
struct Process {
    child: Child,
    stdin: ChildStdin,
    said: Receiver<Said>,
    given: BTreeSet<String>,
}

impl Process {
    fn start(root: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["chaos".as_ref(), "--child".as_ref(), root.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("a pipe to the swarm")?;
        let stdout = BufReader::new(child.stdout.take().context("a pipe from the swarm")?);
        let (sender, said) = channel();
        std::thread::spawn(move || {
            // A line that was cut off by the kill was not said.
            for line in stdout.lines().map_while(Result::ok) {
                if serde_json::from_str(&line).is_ok_and(|word: Said| sender.send(word).is_err()) {
                    return;
                }
            }
        });
        Ok(Process { child, stdin, said, given: BTreeSet::new() })
    }

    /// Feeds the swarm and listens for as long as `life`, or until nothing is left.
    fn live(&mut self, ledger: &mut Ledger, life: Duration, feed: Feed) -> anyhow::Result<()> {
        let end = Instant::now() + life;
        loop {
            self.give(ledger, feed);
            if feed == Feed::OnlyWhatIsLeft && ledger.jobs.keys().all(|id| ledger.done.contains_key(id)) {
                return Ok(());
            }
            match self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Said::Ready) => {}
                Ok(Said::Accepted(id)) => drop(ledger.accepted.insert(id)),
                Ok(Said::Done(id, reason)) => drop(ledger.done.insert(id, reason)),
                Err(RecvTimeoutError::Timeout) if feed == Feed::OnlyWhatIsLeft => {
                    let left: Vec<_> = ledger.jobs.keys().filter(|id| !ledger.done.contains_key(*id)).collect();
                    bail!("after {} s these jobs have no result: {left:?}", life.as_secs());
                }
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => bail!("the swarm ended by itself: {}", self.child.wait()?),
            }
        }
    }

    /// Jobs without a result are given again after each start, under the same id.
    fn give(&mut self, ledger: &mut Ledger, feed: Feed) {
        let open = |ledger: &Ledger| ledger.jobs.len() - ledger.done.len();
        while feed == Feed::Endless && open(ledger) < UNDER_WAY {
            let number = ledger.jobs.len();
            let key = project::KEYS[number % project::KEYS.len()].to_owned();
            let job = Job { id: format!("job-{number}"), key, text: format!("job-{number}") };
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

    fn kill(mut self) -> anyhow::Result<()> {
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
