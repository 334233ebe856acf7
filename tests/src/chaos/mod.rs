//! Kills a swarm with SIGKILL at random moments, starts it again, and checks at the end that every accepted event was
//! handled once, and in order. With `--store` and `--nodes` there are several processes at work, and `--with` says what else
//! happens to them and to their database: any of them is killed, stands still for longer than its lease, is cut off or replaced by
//! another generation; the database crashes, is away or has a full disk ([`plan`]).
//!
//! The parent ([`driver`]) hands inputs to child processes ([`nodes`]) that run a swarm ([`swarm`]) of two agents over the scripted
//! model ([`project`]); tools write to a ledger. In the end the parent compares what it was promised with what lies on disk
//! ([`check`]).

mod check;
mod database;
mod driver;
mod nodes;
mod plan;
pub(crate) mod process;
pub(crate) mod project;
pub(crate) mod swarm;

use std::path::Path;

use plan::Plan;

/// Runs the chaos of the command line, or the swarm that it kills.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    match arguments.first().map(String::as_str) {
        Some("--child") => serve(arguments),
        _ => driver::run(&Plan::parse(arguments)?),
    }
}

fn serve(arguments: &[String]) -> anyhow::Result<()> {
    let argument = |number: usize| arguments.get(number).map_or("", String::as_str);
    let given = |number: usize| Some(argument(number)).filter(|text| !text.is_empty());
    swarm::serve(&swarm::Told {
        root: Path::new(argument(1)),
        state: argument(2),
        project: argument(3),
        store: given(4),
        proxy: given(5).map(str::parse).transpose()?,
        turns: given(6).map(str::parse).transpose()?,
    })
}
