//! Runs one test case: starts its swarm, performs the steps and checks the expectations.

mod approval;
mod case_context;
mod clock;
mod cluster;
mod connect;
mod evaluation;
pub(crate) mod events;
pub(crate) mod evidence;
mod expectations;
mod logs;
mod mcp_mocks;
mod models;
mod node;
mod project;
mod steps;
mod substitute;
mod swarm_config;
mod swarm_process;
mod tool_mocks;
pub(crate) mod trajectory;
mod view;
mod web;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::case::ConformanceCase;
use crate::case::expect::RootedPath;
use crate::case::read::LocatedCase;
use crate::invariants;
use crate::report::{CaseOutcome, CaseReport, CheckFailure};
use crate::run::RunOptions;
use case_context::{CaseContext, RunConditions};
use evidence::{CaseEvidence, Catalog};
use steps::StepResults;

pub(crate) use evaluation::{run_live, unsupported_live_reason};
pub(crate) use project::walk;

/// Time after the time limit for cleanup. After that, the test case is abandoned.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs a test case and returns its report; a panic or a hang fails the test case.
pub(crate) fn run_case(located: &LocatedCase, options: &RunOptions) -> CaseReport {
    let (begun, time_limit, database) =
        (Instant::now(), options.time_limit, options.database.clone());
    let conditions = RunConditions {
        time_limit,
        database,
        nodes: options.nodes,
        live: None,
        tool_host: options.tool_host.clone(),
    };
    let case = located.clone();
    let outcome = run_guarded(time_limit, move || run(&case, conditions))
        .unwrap_or_else(|failure| CaseOutcome::Failed(vec![failure]));
    CaseReport::new(located, outcome, begun.elapsed())
}

/// Runs `work` on its own thread, so that a blocked or panicking test case still gets a report.
fn run_guarded<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CheckFailure> {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_failure(&*panic));
        // The receiver no longer exists if the test case was abandoned.
        let _ = done.send(outcome);
    });
    outcome
        .recv_timeout(limit + CLEANUP_TIMEOUT)
        .unwrap_or_else(|_| Err(timeout_failure(limit)))
}

/// Runs a test case, or skips it if its requirements are not met.
fn run(located: &LocatedCase, conditions: RunConditions) -> CaseOutcome {
    if located.case.live.is_some() && located.case.models.is_empty() {
        return CaseOutcome::Skipped("it only runs with `--live`: it has no `models`".to_owned());
    }
    if let Some(reason) = unsupported_reason(&located.case, conditions.database.is_some()) {
        return CaseOutcome::Skipped(reason);
    }
    match run_and_judge(located, conditions) {
        Ok(failures) if failures.is_empty() => CaseOutcome::Passed,
        Ok(failures) => CaseOutcome::Failed(failures),
        Err(message) => CaseOutcome::Failed(vec![CheckFailure::new("the case", message)]),
    }
}

/// Performs the steps and checks the expectations. `Err`: the test case could not run.
fn run_and_judge(
    located: &LocatedCase,
    conditions: RunConditions,
) -> Result<Vec<CheckFailure>, String> {
    let mut context = CaseContext::create(located, conditions)?;
    let judged = perform_and_judge(&mut context, located).map(|(performed, _)| performed.failures);
    context.end();
    context.delete_workspaces();
    judged
}

/// Runs the steps and checks the final state. Returns all failures.
fn perform_and_judge<'c>(
    context: &mut CaseContext<'c>,
    located: &'c LocatedCase,
) -> Result<(StepResults, CaseEvidence<'c>), String> {
    context.start()?;
    let catalog = catalog(context);
    let mut performed = steps::perform_all(context);
    context.end();
    let evidence = CaseEvidence::collect(context, catalog)?;
    performed.failures.extend(expectations::check_expectations(
        &located.case.expect,
        &evidence,
    ));
    performed
        .failures
        .extend(invariants::check_invariants(&evidence));
    Ok((performed, evidence))
}

/// Returns the reason why a test case cannot run on this system, if any.
fn unsupported_reason(case: &ConformanceCase, has_database: bool) -> Option<String> {
    if has_database && case.expect.files.keys().any(is_of_embedded_store) {
        return Some(
            "it checks files of the embedded store, but the conversations are in a database"
                .to_owned(),
        );
    }
    if case.nodes.is_some() && !has_database {
        return Some(
            "it has several nodes, which need a database: run it with `--store`".to_owned(),
        );
    }
    let needs_modes = case.files.values().any(|content| content.mode.is_some());
    if needs_modes && !cfg!(unix) {
        return Some("files with a mode need a Unix system".to_owned());
    }
    let missing_program = case.needs.iter().find(|program| !is_installed(program))?;
    Some(format!(
        "it needs `{missing_program}`, which is not on the PATH"
    ))
}

/// Returns true for files that only the embedded store has. Working directories exist with every
/// store.
fn is_of_embedded_store(place: &RootedPath) -> bool {
    let RootedPath::State { path } = place else {
        return false;
    };
    path.contains("instances")
        && !["/workdir", "/files"]
            .iter()
            .any(|part| path.contains(part))
}

/// Returns true if PATH contains the program.
fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Returns the tools offered at the first step, for all agents with a catalog expectation.
fn catalog(context: &CaseContext<'_>) -> Catalog {
    let offered = |agent: &String| {
        let tools = context
            .process
            .as_ref()?
            .swarm(context)
            .ok()?
            .catalog(agent)?;
        Some((
            agent.clone(),
            tools.into_iter().map(|tool| tool.name).collect(),
        ))
    };
    context
        .case
        .expect
        .catalog
        .keys()
        .filter_map(offered)
        .collect()
}

/// Creates the failure of a test case that ignored its time limit.
fn timeout_failure(time_limit: Duration) -> CheckFailure {
    let message = format!(
        "did not end within {} s and could not be stopped",
        time_limit.as_secs()
    );
    CheckFailure::new("the case", message)
}

/// Creates the failure of a test case that panicked.
fn panic_failure(panic: &(dyn std::any::Any + Send)) -> CheckFailure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    CheckFailure::new(
        "the case",
        format!("panicked: {}", text.unwrap_or("without a message")),
    )
}
