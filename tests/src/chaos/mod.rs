//! Disrupts a busy swarm at random moments, and checks that each accepted input was handled once and in order.
//!
//! One process on files, or several nodes on PostgreSQL, run a swarm of two agents with the scripted model. They are killed,
//! stopped in order, suspended, replaced by another generation, disconnected, or given another clock; the database crashes, is
//! down or has a full disk ([`plan`]). Approval requests are open at all times.
//!
//! The parent ([`driver`]) submits jobs to child processes ([`nodes`], [`process`]) that run the swarm ([`swarm`]) of a project
//! ([`project`]) whose tools append to a file. Finally, the parent compares the acknowledged jobs with the state on disk
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

use plan::ChaosPlan;

/// Runs the plan on the command line, or the child process that it disrupts.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    match arguments.first().map(String::as_str) {
        Some("--child") => serve(arguments),
        _ => driver::run(&ChaosPlan::parse(arguments)?),
    }
}

fn serve(arguments: &[String]) -> anyhow::Result<()> {
    let argument = |number: usize| arguments.get(number).map_or("", String::as_str);
    let optional = |number: usize| Some(argument(number)).filter(|text| !text.is_empty());
    swarm::serve(&swarm::ServeOptions {
        root: Path::new(argument(1)),
        state: argument(2),
        project: argument(3),
        store: optional(4),
        proxy: optional(5).map(str::parse).transpose()?,
        turns: optional(6).map(str::parse).transpose()?,
    })
}
