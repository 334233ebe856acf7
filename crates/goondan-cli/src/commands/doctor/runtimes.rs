//! Checks of the runtimes for tools in JavaScript, TypeScript and Python.

use goondan::spec::{Bundle, Code};
use goondan::start::checks::{program_version, reads_typescript};

use super::{CheckStatus, HealthCheck, check};

const NODE_NAME: &str = "Node.js";

/// Returns a row per installed runtime, and one row that lists the missing runtimes. The missing
/// runtimes are no warning, since no project needs all runtimes.
pub(super) fn installed_runtime_checks() -> Vec<HealthCheck> {
    // Programs in the current directory don't count, like those of a project.
    let current_dir = std::env::current_dir().unwrap_or_default();
    let (found, missing): (Vec<_>, Vec<_>) = goondan::start::checks::runtimes(&current_dir)
        .into_iter()
        .partition(|(_, program)| program.is_some());
    let mut checks: Vec<HealthCheck> = found
        .into_iter()
        .filter_map(|(name, program)| {
            let program = program?;
            let version =
                program_version(&program).unwrap_or_else(|| "(unknown version)".to_owned());
            let limitation = if name == NODE_NAME && !reads_typescript(&version) {
                ", without TypeScript support"
            } else {
                ""
            };
            Some(check(
                "runtime",
                CheckStatus::Ok,
                format!("{name} {version} is {}{limitation}", program.display()),
            ))
        })
        .collect();
    let names: Vec<&str> = missing.into_iter().map(|(name, _)| name).collect();
    if !names.is_empty() {
        let detail = format!(
            "not installed: {}; only needed by tools written for these runtimes",
            names.join(", ")
        );
        checks.push(check("runtime", CheckStatus::Ok, detail));
    }
    checks
}

/// Returns a warning per tool whose runtime is missing.
pub(super) fn missing_runtime_checks(bundle: &Bundle) -> Vec<HealthCheck> {
    let is_missing = |(_, problem): &(_, Option<(String, String)>)| problem.is_some();
    let rows = goondan::start::checks::modules(bundle)
        .into_iter()
        .filter(is_missing);
    rows.filter_map(|(tool, problem)| {
        let (message, remedy) = problem?;
        Some(
            check(
                "module",
                CheckStatus::Warn,
                format!("{tool}: {message} ({})", Code::NOT_READY),
            )
            .suggest(remedy),
        )
    })
    .collect()
}

/// Returns why this machine can't run TypeScript tools, without a full stop; `None` if it can.
/// Starts Node.js to get its version.
pub(in crate::commands) fn typescript_problem() -> Option<String> {
    let current_dir = std::env::current_dir().unwrap_or_default();
    let runtimes = goondan::start::checks::runtimes(&current_dir);
    let find_program = |wanted_name: &str| {
        runtimes
            .iter()
            .find(|(name, _)| *name == wanted_name)
            .and_then(|(_, program)| program.clone())
    };
    // Bun is preferred to Node.js, and Node.js to Deno.
    match (find_program("Bun"), find_program(NODE_NAME)) {
        (Some(_), _) => None,
        (None, Some(node)) => program_version(&node)
            .filter(|version| !reads_typescript(version))
            .map(|version| format!("Node.js {version} can't run TypeScript")),
        (None, None) => find_program("Deno")
            .is_none()
            .then(|| "Nothing on this machine runs TypeScript".to_owned()),
    }
}
