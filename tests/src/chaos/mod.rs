//! Kills a swarm with SIGKILL at random moments, starts it again, and checks at the end that every accepted event was
//! handled once, and in order. With `--store` and `--nodes` there are several processes at work: any of them is killed, the one
//! that leads among them, and with `--pauses` some stand still for longer than their lease, and then go on.
//!
//! The parent ([`driver`]) hands inputs to a child process ([`swarm`]) that runs a swarm of two agents over the scripted
//! model ([`project`]); tools write to a ledger. In the end the parent compares what it was promised with what lies on disk
//! ([`check`]).

mod check;
mod driver;
mod project;
mod swarm;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

/// What a run does.
#[derive(Debug, Clone)]
struct Plan {
    /// How long it kills.
    seconds: Duration,
    /// It ends earlier after that many kills.
    kills: u32,
    /// What the random moments come from.
    seed: u64,
    /// The database that keeps everything, instead of files.
    store: Option<String>,
    /// So many processes run the swarm.
    nodes: usize,
    /// The longest time between two kills.
    life: Duration,
    /// Nodes stand still, too.
    pauses: bool,
    /// Somebody restarts the database meanwhile: a node that can't start then is started again.
    database_restarts: bool,
}

impl Plan {
    /// Whether a node may be told that the store has failed a turn.
    fn may_fail(&self) -> bool {
        self.database_restarts || self.pauses
    }
}

/// Runs the chaos of the command line, or the swarm that it kills.
#[allow(clippy::print_stderr, reason = "this is a program's shell")]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let outcome = match arguments.first().map(String::as_str) {
        Some("--child") => {
            let argument = |number: usize| arguments.get(number).map_or("", String::as_str);
            swarm::serve(&PathBuf::from(argument(1)), argument(2), Some(argument(3)).filter(|store| !store.is_empty()))
        }
        _ => parse(&arguments).and_then(|plan| driver::run(&plan)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> anyhow::Result<Plan> {
    let mut plan = Plan {
        seconds: Duration::from_secs(20),
        kills: u32::MAX,
        seed: rand::random(),
        store: None,
        nodes: 1,
        life: Duration::ZERO,
        pauses: false,
        database_restarts: false,
    };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { bail!("{} needs a value", pair[0]) };
        if name == "--store" {
            plan.store = Some(value.clone());
            continue;
        }
        let number: u64 = value.parse().with_context(|| format!("{name} takes a whole number, not `{value}`"))?;
        match name.as_str() {
            "--seconds" => plan.seconds = Duration::from_secs(number),
            "--kills" => plan.kills = u32::try_from(number)?,
            "--seed" => plan.seed = number,
            "--database-restarts" => plan.database_restarts = number > 0,
            "--life" => plan.life = Duration::from_millis(number),
            "--pauses" => plan.pauses = number > 0,
            "--nodes" => plan.nodes = usize::try_from(number)?.max(1),
            _ => bail!(
                "there is no option {name}; there are --seconds, --kills, --seed, --store, --nodes, --life, --pauses and \
                 --database-restarts"
            ),
        }
    }
    if plan.life.is_zero() {
        // Several nodes have to find each other first.
        plan.life = Duration::from_millis(if plan.nodes > 1 { 2_000 } else { 400 });
    }
    if plan.nodes > 1 && plan.store.is_none() {
        bail!("several nodes need a --store that they share");
    }
    Ok(plan)
}
