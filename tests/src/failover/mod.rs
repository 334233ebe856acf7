//! Measures how soon the turns of a node resume on another node: after the node is killed, after its connections to the database
//! are closed, and after they transfer nothing.
//!
//! Three processes run the swarm of a project ([`project`]). Its only tool records the process that runs it, and returns after a
//! release. [`nodes`] starts the processes, submits jobs and loses one node at a time.

mod nodes;
mod project;

use std::time::Duration;

use anyhow::{Context, bail};

use nodes::{FailoverNodes, NodeLoss, NodeRole};

/// Measured losses with the role of the node, and how many rounds share one. Some take the ten seconds of a lease.
const LOSSES: [(&str, NodeLoss, NodeRole, u32); 4] = [
    ("leader killed", NodeLoss::Kill, NodeRole::Leader, 1),
    ("worker killed", NodeLoss::Kill, NodeRole::Worker, 1),
    (
        "worker's connections closed",
        NodeLoss::Cut,
        NodeRole::Worker,
        4,
    ),
    (
        "worker's connections silent",
        NodeLoss::Silence,
        NodeRole::Worker,
        4,
    ),
];

/// Measures each loss as often as the command line requires, and prints the durations.
#[allow(clippy::print_stdout, reason = "output of the program")]
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (store, times) = parse(arguments)?;
    let folder = tempfile::tempdir()?;
    project::write(folder.path())?;
    let mut nodes = FailoverNodes::start(folder.path(), &store)?;
    for (name, loss, role, rounds) in LOSSES {
        let mut durations = Vec::new();
        for _ in 0..times.div_ceil(rounds) {
            durations.extend(nodes.lose(loss, role).with_context(|| name.to_owned())?);
        }
        durations.sort_unstable();
        let at =
            |share: f64| durations[((durations.len() - 1) as f64 * share) as usize].as_secs_f64();
        println!(
            "{name}: {} turns resumed on another node after {:.2} s (median), {:.2} s at most",
            durations.len(),
            at(0.5),
            at(1.0)
        );
    }
    Ok(())
}

fn parse(arguments: &[String]) -> anyhow::Result<(String, u32)> {
    let (mut store, mut times) = (None, 20);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else {
            bail!("{} needs a value", pair[0])
        };
        match name.as_str() {
            "--store" => store = Some(value.clone()),
            "--times" => {
                times = value
                    .parse::<u32>()
                    .context("--times needs an integer")?
                    .max(1)
            }
            _ => bail!("there is no option {name}; use --store or --times"),
        }
    }
    Ok((
        store.context("nodes need --store, a database that they share")?,
        times,
    ))
}

/// Time limit of each step.
const TIMEOUT: Duration = Duration::from_secs(60);
