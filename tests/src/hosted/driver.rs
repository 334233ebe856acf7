//! Sends turns at a steady pace, reloads meanwhile, and says what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use goondan::event::FinishReason;
use goondan::spec::Environment;
use goondan::{Input, Swarm};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::Plan;
use super::project::{CALLS, Project, check};

/// Conversations, and so turns that run at the same time.
const INSTANCES: u32 = 32;

/// Runs `plan` in a folder of its own.
#[allow(clippy::print_stdout, reason = "a program's result")]
pub(super) async fn run(plan: Plan) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut project = Project::write(folder.path().join("project"))?;
    let loaded = goondan::load(&project.folder);
    let bundle = loaded
        .bundle
        .ok_or_else(|| anyhow!("{:?}", loaded.diagnostics))?;
    let builder = Swarm::builder(bundle)
        .state_root(folder.path().join("state"))
        .environment(Environment::default());
    let swarm = builder
        .start()
        .await
        .map_err(|error| anyhow!("{error:?}"))?;
    let load = Arc::new(Load::new(swarm.clone()));
    let sending = tokio::spawn(Arc::clone(&load).send(plan.calls));
    load.more_turns(u64::from(INSTANCES)).await?;
    let (began, before) = (Instant::now(), *load.turns.borrow());
    let mut latencies = Vec::new();
    for edit in 1..=plan.reloads {
        load.more_turns(plan.between).await?;
        // Before it is written: a host that is just being started reads what is there.
        load.newest.store(edit, Ordering::SeqCst);
        project.turn_into(edit)?;
        let at = Instant::now();
        let outcome = swarm.reload().await;
        outcome
            .result
            .map_err(|diagnostics| anyhow!("reload {edit} failed: {diagnostics:?}"))?;
        latencies.push(at.elapsed());
        ensure!(
            outcome.plan.changed.len() >= 5,
            "reload {edit} changed only {:?}",
            outcome.plan.changed
        );
        load.serving.store(edit, Ordering::SeqCst);
    }
    load.more_turns(u64::from(INSTANCES)).await?;
    let (took, turns) = (began.elapsed(), *load.turns.borrow() - before);
    load.stop.store(true, Ordering::SeqCst);
    let mut turn_times = sending.await??;
    swarm.shutdown().await;
    let left = children();
    ensure!(left == 0, "{left} processes are left");
    let calls = turns * u64::from(CALLS);
    println!(
        "{} reloads of two modules for {}, two for python and a library in {:.1} s; {calls} calls, {:.0} a second, none failed",
        plan.reloads,
        project.runtime,
        took.as_secs_f64(),
        calls as f64 / took.as_secs_f64()
    );
    println!(
        "a reload: {}; a turn with {CALLS} calls: {}",
        shown(&mut latencies),
        shown(&mut turn_times)
    );
    Ok(())
}

fn shown(times: &mut [Duration]) -> String {
    times.sort();
    let at = |part: usize| {
        times
            .get(times.len() * part / 100)
            .map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    format!("{:.1} ms (median), {:.1} ms (99 of 100)", at(50), at(99))
}

/// Processes that this one has started and that have not ended.
fn children() -> usize {
    let own = std::process::id().to_string();
    let folder = format!("/proc/{own}/task/{own}/children");
    std::fs::read_to_string(folder).map_or(0, |list| list.split_whitespace().count())
}

/// What is sent, and what has come of it.
struct Load {
    swarm: Swarm,
    stop: AtomicBool,
    /// The edit of the last reload that is over.
    serving: AtomicU32,
    /// The edit that was written last.
    newest: AtomicU32,
    /// Turns that are over.
    turns: watch::Sender<u64>,
}

impl Load {
    fn new(swarm: Swarm) -> Self {
        let (serving, newest) = (AtomicU32::new(0), AtomicU32::new(0));
        Load {
            swarm,
            stop: AtomicBool::new(false),
            serving,
            newest,
            turns: watch::Sender::new(0),
        }
    }

    /// Waits for that many more turns; an error where none comes.
    async fn more_turns(&self, count: u64) -> anyhow::Result<()> {
        let mut turns = self.turns.subscribe();
        let target = *turns.borrow() + count;
        let reached = tokio::time::timeout(
            Duration::from_secs(60),
            turns.wait_for(|turns| *turns >= target),
        )
        .await;
        ensure!(
            reached.is_ok() && !self.stop.load(Ordering::SeqCst),
            "a turn failed, or none ends"
        );
        Ok(())
    }

    /// Sends turns until it is stopped; how long they took.
    async fn send(self: Arc<Self>, calls: u32) -> anyhow::Result<Vec<Duration>> {
        let mut pace = tokio::time::interval(Duration::from_secs(1) * CALLS / calls);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let (mut running, mut times) = (JoinSet::new(), Vec::new());
        let free = Arc::new(Semaphore::new(INSTANCES as usize));
        for number in 0_u32.. {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            pace.tick().await;
            let permit = Arc::clone(&free).acquire_owned().await?;
            let load = Arc::clone(&self);
            running.spawn(async move {
                let took = load.turn(number % INSTANCES).await;
                drop(permit);
                took
            });
            while let Some(ended) = running.try_join_next() {
                times.push(self.took(ended?)?);
            }
        }
        while let Some(ended) = running.join_next().await {
            times.push(self.took(ended?)?);
        }
        Ok(times)
    }

    /// A turn that fails ends the run.
    fn took(&self, took: anyhow::Result<Duration>) -> anyhow::Result<Duration> {
        took.inspect_err(|_| self.stop.store(true, Ordering::SeqCst))
    }

    async fn turn(&self, instance: u32) -> anyhow::Result<Duration> {
        let (began, first) = (Instant::now(), self.serving.load(Ordering::SeqCst));
        let input = Input {
            instance_key: Some(format!("i{instance}")),
            ..Input::text("which?")
        };
        let result = self
            .swarm
            .send(input)
            .await?
            .result()
            .await
            .context("a turn was dropped")?;
        let text = result.response_text();
        if result.finish_reason != FinishReason::TextResponse {
            bail!(
                "a turn ended with {:?} {:?}",
                result.finish_reason,
                result.error
            );
        }
        check(&text, first, self.newest.load(Ordering::SeqCst))?;
        self.turns.send_modify(|turns| *turns += 1);
        Ok(began.elapsed())
    }
}
