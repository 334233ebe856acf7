//! Runs one case.

mod approval;
mod clock;
mod cluster;
mod connect;
mod evaluation;
pub(crate) mod events;
pub(crate) mod evidence;
mod expectations;
mod life;
mod logs;
mod mcp;
mod models;
mod node;
mod outfit;
mod project;
mod steps;
mod substitute;
mod tools;
pub(crate) mod trajectory;
mod view;
mod web;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::case::expect::FilePlace;
use crate::case::read::Located;
use crate::invariants;
use crate::report::{CaseReport, Failure, Outcome};
use crate::run::Options;
use evidence::{Catalog, Evidence};
use steps::Performed;
use world::{Conditions, World};

pub(crate) use evaluation::{not_here, run_live};
pub(crate) use project::walk;

/// How much longer than its limit a case may take to tidy up, before it is given up on.
const TIDYING: Duration = Duration::from_secs(15);

/// Runs `located` as it is written.
pub(crate) fn run_case(located: &Located, options: &Options) -> CaseReport {
    let (begun, time_limit, database) =
        (Instant::now(), options.time_limit, options.database.clone());
    let conditions = Conditions {
        time_limit,
        database,
        nodes: options.nodes,
        live: None,
        tool_host: options.tool_host.clone(),
    };
    let case = located.clone();
    let outcome = guarded(time_limit, move || run(&case, conditions))
        .unwrap_or_else(|failure| Outcome::Failed(vec![failure]));
    CaseReport::new(located, outcome, begun.elapsed())
}

/// Does `work` on a thread of its own, so that even a case that blocks its thread ends with a report.
fn guarded<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panicked(&*panic));
        // Nobody listens any more where the case was given up on.
        let _ = done.send(outcome);
    });
    outcome
        .recv_timeout(limit + TIDYING)
        .unwrap_or_else(|_| Err(stuck(limit)))
}

fn run(located: &Located, conditions: Conditions) -> Outcome {
    if located.case.live.is_some() && located.case.models.is_empty() {
        return Outcome::Skipped("it is run with `--live` alone: it has no `models`".to_owned());
    }
    if let Some(reason) = unsupported(&located.case, conditions.database.is_some()) {
        return Outcome::Skipped(reason);
    }
    match run_and_judge(located, conditions) {
        Ok(failures) if failures.is_empty() => Outcome::Passed,
        Ok(failures) => Outcome::Failed(failures),
        Err(message) => Outcome::Failed(vec![Failure::new("the case", message)]),
    }
}

fn run_and_judge(located: &Located, conditions: Conditions) -> Result<Vec<Failure>, String> {
    let mut world = World::create(located, conditions)?;
    let judged = perform_and_judge(&mut world, located).map(|(performed, _)| performed.failures);
    world.end();
    world.forget();
    judged
}

/// Performs the case and looks at what it has left behind. All failures are among those of the steps.
fn perform_and_judge<'c>(
    world: &mut World<'c>,
    located: &'c Located,
) -> Result<(Performed, Evidence<'c>), String> {
    world.start()?;
    let catalog = catalog(world);
    let mut performed = steps::perform(world);
    world.end();
    let evidence = Evidence::collect(world, catalog)?;
    performed
        .failures
        .extend(expectations::judge(&located.case.expect, &evidence));
    performed.failures.extend(invariants::judge(&evidence));
    Ok((performed, evidence))
}

/// Why `case` can't run on this system, if it can't.
fn unsupported(case: &Case, has_database: bool) -> Option<String> {
    if has_database && case.expect.files.keys().any(is_of_embedded_store) {
        return Some(
            "it looks at files of the embedded store, and conversations are in a database"
                .to_owned(),
        );
    }
    if case.nodes.is_some() && !has_database {
        return Some(
            "it has several nodes, which share a database: run it with `--store`".to_owned(),
        );
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
    let FilePlace::State { path } = place else {
        return false;
    };
    path.contains("instances")
        && !["/workdir", "/files"]
            .iter()
            .any(|part| path.contains(part))
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// What the models of the agents that the case asks about are offered at the first step.
fn catalog(world: &World<'_>) -> Catalog {
    let offered = |agent: &String| {
        let tools = world.life.as_ref()?.swarm(world).ok()?.catalog(agent)?;
        Some((
            agent.clone(),
            tools.into_iter().map(|tool| tool.name).collect(),
        ))
    };
    world
        .case
        .expect
        .catalog
        .keys()
        .filter_map(offered)
        .collect()
}

fn stuck(time_limit: Duration) -> Failure {
    let message = format!(
        "did not end within {} s and could not be stopped",
        time_limit.as_secs()
    );
    Failure::new("the case", message)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    Failure::new(
        "the case",
        format!("panicked: {}", text.unwrap_or("without a message")),
    )
}
