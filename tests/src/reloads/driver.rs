//! Keeps all instances busy, reloads meanwhile, and says what it cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use goondan::event::FinishReason;
use goondan::spec::Environment;
use goondan::{Input, Swarm};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::Plan;
use super::process::Figures;
use super::project::{Project, name, named_in};
use super::watch::Watching;

/// Reloads and turns before the figures that the others are compared with.
const WARM_UP: u32 = 4;
/// Steps of each instance without a reload, for comparison.
const CONTROL_STEPS: u64 = 20;
/// Descriptors that may be open in the end and were not after the warm-up: a file that is just being written.
const SPARE_DESCRIPTORS: usize = 4;
/// Where the swarm keeps copies of libraries, below its state root.
const COPIES: &str = "/plugins/";

/// Runs `plan` in a folder of its own.
#[allow(clippy::print_stdout, reason = "a program's result")]
pub(super) async fn run(plan: Plan) -> anyhow::Result<()> {
    println!("seed {}", plan.seed);
    let folder = tempfile::tempdir()?;
    let project = Project::write(folder.path().join("project"))?;
    let watching = Watching::new();
    let loaded = goondan::load(&project.folder);
    let bundle = loaded
        .bundle
        .ok_or_else(|| anyhow!("{:?}", loaded.diagnostics))?;
    let builder = Swarm::builder(bundle)
        .state_root(folder.path().join("state"))
        .environment(Environment::default());
    let swarm = builder
        .models(Arc::new(watching.clone()))
        .start()
        .await
        .map_err(|error| anyhow!("{error:?}"))?;
    let random = StdRng::seed_from_u64(plan.seed);
    let mut run = Run {
        swarm,
        project,
        watching,
        random,
        plan,
        edit: 0,
    };
    run.under_load(Load::Reloads(WARM_UP)).await?;
    let before = Figures::now(COPIES);
    let control = run
        .under_load(Load::Steps(CONTROL_STEPS * plan.instances as u64))
        .await?;
    let middle = Figures::now(COPIES);
    let work = run.under_load(Load::Reloads(plan.reloads)).await?;
    let after = run.settled(middle).await;
    work.report(plan);
    Growth::of(&control, before, middle).report(&work, middle, after);
    run.swarm.shutdown().await;
    verdict(&run.watching, middle, after)
}

/// A swarm with its project.
struct Run {
    swarm: Swarm,
    project: Project,
    watching: Watching,
    random: StdRng,
    plan: Plan,
    edit: u32,
}

/// What happens while all instances are in turns.
#[derive(Clone, Copy)]
enum Load {
    /// So many reloads.
    Reloads(u32),
    /// Nothing, for so many steps.
    Steps(u64),
}

/// What was done.
#[derive(Default)]
struct Work {
    turns: u64,
    took: Duration,
    latencies: Vec<Duration>,
}

impl Run {
    /// Keeps all instances in turns meanwhile. Returns when every turn has its answer.
    async fn under_load(&mut self, what: Load) -> anyhow::Result<Work> {
        let (began, instances) = (Instant::now(), self.plan.instances);
        let (stop, turns) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let mut load = JoinSet::new();
        for number in 0..instances {
            load.spawn(busy(
                self.swarm.clone(),
                format!("i{number}"),
                Arc::clone(&stop),
                Arc::clone(&turns),
            ));
        }
        let mut latencies = Vec::new();
        match what {
            Load::Steps(count) => self.watching.more_steps(count).await,
            Load::Reloads(count) => {
                for _ in 0..count {
                    // Another moment of the steps each time, and every version serves some.
                    let pause = self.random.random_range(1..=instances as u64);
                    self.watching.more_steps(pause).await;
                    latencies.push(self.reload().await?);
                }
                self.watching.more_steps(instances as u64).await;
            }
        }
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = load.join_next().await {
            ended??;
        }
        Ok(Work {
            turns: turns.load(Ordering::Relaxed),
            took: began.elapsed(),
            latencies,
        })
    }

    async fn reload(&mut self) -> anyhow::Result<Duration> {
        self.edit += 1;
        let version = self.edit % self.plan.versions;
        self.project.turn_into(version, self.edit)?;
        let began = Instant::now();
        let outcome = self.swarm.reload().await;
        let took = began.elapsed();
        outcome
            .result
            .map_err(|diagnostics| anyhow!("a reload failed: {diagnostics:?}"))?;
        ensure!(
            outcome
                .plan
                .changed
                .iter()
                .any(|id| id.ends_with("Agent/a")),
            "the agent has not changed: {:?}",
            outcome.plan.changed
        );
        let catalog = self.swarm.catalog("a").context("the agent is there")?;
        let offered = catalog.first().and_then(|tool| named_in(&tool.description));
        ensure!(
            offered == Some(&name(version)),
            "{offered:?} is offered, not {}",
            name(version)
        );
        Ok(took)
    }

    /// The figures once old generations have let go of what they held.
    async fn settled(&self, before: Figures) -> Figures {
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let now = Figures::now(COPIES);
            let quiet = now.threads <= before.threads && now.descriptors <= before.descriptors;
            if quiet || Instant::now() > patience {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// One turn after the other. A turn that fails, or answers with anything else than what the tool said, ends the run.
async fn busy(
    swarm: Swarm,
    key: String,
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let input = Input {
            instance_key: Some(key.clone()),
            ..Input::text("which are you?")
        };
        let result = swarm
            .send(input)
            .await?
            .result()
            .await
            .with_context(|| format!("{key}: a turn was dropped"))?;
        let text = result.response_text();
        if result.finish_reason != FinishReason::TextResponse
            || named_in(&text) != Some(text.as_str())
        {
            bail!(
                "{key}: a turn ended with {:?} {:?} and the answer {text:?}",
                result.finish_reason,
                result.error
            );
        }
        turns.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Work {
    #[allow(clippy::print_stdout, reason = "a program's result")]
    fn report(&self, plan: Plan) {
        let mut latencies = self.latencies.clone();
        latencies.sort();
        let at = |part: usize| {
            latencies
                .get(latencies.len() * part / 100)
                .map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        println!(
            "{} reloads under {} instances in {:.1} s, {} turns; a reload takes {:.1} ms (median), {:.1} ms (99 of 100)",
            plan.reloads,
            plan.instances,
            self.took.as_secs_f64(),
            self.turns,
            at(50),
            at(99)
        );
    }
}

/// What turns without a reload add to memory: conversations, and what the allocator keeps.
struct Growth {
    /// KiB a turn.
    turn: f64,
}

impl Growth {
    fn of(work: &Work, before: Figures, after: Figures) -> Self {
        Growth {
            turn: (after.resident as f64 - before.resident as f64) / work.turns.max(1) as f64,
        }
    }

    /// A mapping is never removed, so memory grows with each library that is loaded; everything else should not.
    #[allow(clippy::print_stdout, reason = "a program's result")]
    fn report(&self, work: &Work, before: Figures, after: Figures) {
        let reloads = work.latencies.len().max(1) as f64;
        let each = |before: usize, after: usize| (after as f64 - before as f64) / reloads;
        let (whole, libraries) = (
            each(before.resident, after.resident),
            each(before.in_libraries, after.in_libraries),
        );
        let turns = self.turn * work.turns as f64 / reloads;
        println!(
            "memory: {} MiB, then {} MiB; {whole:.0} KiB a reload: {libraries:.0} in mappings of libraries, which stay; {:.0} elsewhere, where the turns alone (without reloads {:.1} KiB each) would add {turns:.0}",
            before.resident / 1024,
            after.resident / 1024,
            whole - libraries,
            self.turn,
        );
        println!(
            "mappings: {} before, {} after, {:.1} of libraries a reload; file descriptors: {} before, {} after; threads: {} before, {} after",
            before.mappings,
            after.mappings,
            each(before.library_mappings, after.library_mappings),
            before.descriptors,
            after.descriptors,
            before.threads,
            after.threads
        );
    }
}

#[allow(clippy::print_stdout, reason = "a program's result")]
fn verdict(watching: &Watching, before: Figures, after: Figures) -> anyhow::Result<()> {
    let books = watching.books();
    println!(
        "{} tool answers are of the version that was offered, {} turns went on with another one; {} versions were offered",
        books.answers,
        books.across,
        books.steps.len()
    );
    if !books.faults.is_empty() {
        bail!(
            "{} steps mix generations, such as: {}",
            books.faults.len(),
            books.faults[0]
        );
    }
    ensure!(
        books.answers > 0 && books.steps.len() >= 2,
        "not every version was asked"
    );
    ensure!(
        after.descriptors <= before.descriptors + SPARE_DESCRIPTORS,
        "file descriptors grow: {} before, {} after",
        before.descriptors,
        after.descriptors
    );
    println!("passed");
    Ok(())
}
