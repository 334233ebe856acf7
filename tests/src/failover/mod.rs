//! Measures how soon the turns of a node go on elsewhere when it is killed, when its connections to the database are closed, and
//! when nothing comes through them any more.
//!
//! Three processes run the swarm of [`chaos`](crate::chaos) nodes over a project of their own ([`project`]), whose only tool says
//! which process runs it and stays until it is let go. [`nodes`] starts them, hands in turns and does to one of them what is
//! measured.

mod nodes;
mod project;

use std::time::Duration;

use anyhow::{Context, bail};

use nodes::{Loss, Nodes, Place};

/// What is measured: a loss, at which node, and every how many rounds, for some take the ten seconds of a lease.
const LOSSES: [(&str, Loss, Place, u32); 4] = [
    ("leader killed", Loss::Kill, Place::Leader, 1),
    ("worker killed", Loss::Kill, Place::Worker, 1),
    ("worker's connections closed", Loss::Cut, Place::Worker, 4),
    (
        "worker's connections silent",
        Loss::Silence,
        Place::Worker,
        4,
    ),
];

/// Measures each loss as often as the command line says, and prints what it took.
#[allow(clippy::print_stdout, reason = "a program's result")]
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (store, times) = parse(arguments)?;
    let folder = tempfile::tempdir()?;
    project::write(folder.path())?;
    let mut nodes = Nodes::start(folder.path(), &store)?;
    for (name, loss, place, seldom) in LOSSES {
        let mut took = Vec::new();
        for _ in 0..times.div_ceil(seldom) {
            took.extend(nodes.lose(loss, place).with_context(|| name.to_owned())?);
        }
        took.sort_unstable();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64();
        println!(
            "{name}: {} turns went on elsewhere after {:.2} s (median), {:.2} s at most",
            took.len(),
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
                    .context("--times takes a whole number")?
                    .max(1)
            }
            _ => bail!("there is no option {name}; there are --store and --times"),
        }
    }
    Ok((
        store.context("nodes need a --store that they share")?,
        times,
    ))
}

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);
