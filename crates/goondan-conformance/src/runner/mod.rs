//! Runs one case.

mod approval;
mod clock;
pub(crate) mod events;
pub(crate) mod evidence;
mod expectations;
mod life;
mod logs;
mod mcp;
mod models;
mod project;
mod steps;
mod substitute;
mod view;
mod web;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use goondan::Database;

use crate::case::Case;
use crate::case::expect::FilePlace;
use crate::case::read::Located;
use crate::invariants;
use crate::report::{CaseReport, Failure, Outcome};
use crate::run::Options;
use evidence::{Catalog, Evidence};
use world::World;

pub(crate) use project::walk;

/// How much longer than its limit a case may take to tidy up, before it is given up on.
const TIDYING: Duration = Duration::from_secs(15);

/// Runs `located` on a thread of its own, so that even a case that blocks its thread ends with a report.
pub(crate) fn run_case(located: &Located, options: &Options) -> CaseReport {
    let (begun, time_limit, database) = (Instant::now(), options.time_limit, options.database.clone());
    let (done, outcome) = mpsc::channel();
    let case = located.clone();
    std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&case, time_limit, database)));
        // Nobody listens any more where the case was given up on.
        let _ = done.send(outcome.unwrap_or_else(|panic| panicked(&*panic)));
    });
    let outcome = outcome.recv_timeout(time_limit + TIDYING).unwrap_or_else(|_| stuck(time_limit));
    CaseReport::new(located, outcome, begun.elapsed())
}

fn run(located: &Located, time_limit: Duration, database: Option<Database>) -> Outcome {
    if let Some(reason) = unsupported(&located.case, database.is_some()) {
        return Outcome::Skipped(reason);
    }
    match run_and_judge(located, time_limit, database) {
        Ok(failures) if failures.is_empty() => Outcome::Passed,
        Ok(failures) => Outcome::Failed(failures),
        Err(message) => Outcome::Failed(vec![Failure::new("the case", message)]),
    }
}

fn run_and_judge(located: &Located, time_limit: Duration, database: Option<Database>) -> Result<Vec<Failure>, String> {
    let mut world = World::create(located, time_limit, database)?;
    let judged = perform_and_judge(&mut world, located);
    world.end();
    world.forget();
    judged
}

fn perform_and_judge(world: &mut World<'_>, located: &Located) -> Result<Vec<Failure>, String> {
    world.start()?;
    let catalog = catalog(world);
    let mut failures = steps::perform(world);
    world.end();
    let evidence = Evidence::collect(world, catalog)?;
    failures.extend(expectations::judge(&located.case.expect, &evidence));
    failures.extend(invariants::judge(&evidence));
    Ok(failures)
}

/// Why `case` can't run on this system, if it can't.
fn unsupported(case: &Case, has_database: bool) -> Option<String> {
    if has_database && case.expect.files.keys().any(is_of_embedded_store) {
        return Some("it looks at files of the embedded store, and conversations are in a database".to_owned());
    }
    let needs_modes = case.files.values().any(|content| content.mode.is_some());
    if needs_modes && !cfg!(unix) {
        return Some("files with a mode need a Unix system".to_owned());
    }
    let missing = case.needs.iter().find(|program| !is_there(program))?;
    Some(format!("it needs `{missing}`, which is not on the PATH"))
}

/// Whether only the embedded store has that file. Tools work in folders whatever the store is.
fn is_of_embedded_store(place: &FilePlace) -> bool {
    let FilePlace::State { path } = place else { return false };
    path.contains("instances") && !["/workdir", "/files"].iter().any(|part| path.contains(part))
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// What the models of the agents that the case asks about are offered at the first step.
fn catalog(world: &World<'_>) -> Catalog {
    let offered = |agent: &String| {
        let tools = world.life.as_ref()?.swarm.catalog(agent)?;
        Some((agent.clone(), tools.into_iter().map(|tool| tool.name).collect()))
    };
    world.case.expect.catalog.keys().filter_map(offered).collect()
}

fn stuck(time_limit: Duration) -> Outcome {
    let message = format!("did not end within {} s and could not be stopped", time_limit.as_secs());
    Outcome::Failed(vec![Failure::new("the case", message)])
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Outcome::Failed(vec![Failure::new("the case", format!("panicked: {}", text.unwrap_or("without a message")))])
}
