//! What runs tools in JavaScript, TypeScript and Python.

use std::path::Path;
use std::process::{Command, Stdio};

use goondan::spec::{Bundle, Code};

use super::{Check, Status, check};

const NODE: &str = "Node.js";

/// A row for each runtime that is installed, and one for those that are not: nobody needs all of them.
pub(super) fn installed() -> Vec<Check> {
    // Programs of the folder that somebody stands in don't count, like those of a project.
    let here = std::env::current_dir().unwrap_or_default();
    let (found, missing): (Vec<_>, Vec<_>) = goondan::checks::runtimes(&here)
        .into_iter()
        .partition(|(_, program)| program.is_some());
    let mut checks: Vec<Check> = found
        .into_iter()
        .filter_map(|(name, program)| {
            let program = program?;
            let version =
                version(&program).unwrap_or_else(|| "that does not say its version".to_owned());
            let lacks = if name == NODE && !reads_typescript(&version) {
                ", and reads no TypeScript"
            } else {
                ""
            };
            Some(check(
                "runtime",
                Status::Ok,
                format!("{name} {version} is {}{lacks}", program.display()),
            ))
        })
        .collect();
    let names: Vec<&str> = missing.into_iter().map(|(name, _)| name).collect();
    if !names.is_empty() {
        let detail = format!(
            "not installed: {}; tools that are written for them need them",
            names.join(", ")
        );
        checks.push(check("runtime", Status::Ok, detail));
    }
    checks
}

/// Tools whose runtime is missing.
pub(super) fn missing(bundle: &Bundle) -> Vec<Check> {
    let is_missing = |(_, why): &(_, Option<(String, String)>)| why.is_some();
    let rows = goondan::checks::modules(bundle)
        .into_iter()
        .filter(is_missing);
    rows.filter_map(|(tool, why)| {
        let (message, remedy) = why?;
        Some(
            check(
                "module",
                Status::Warn,
                format!("{tool}: {message} ({})", Code::NOT_READY),
            )
            .suggest(remedy),
        )
    })
    .collect()
}

/// Why tools in TypeScript do not run on this machine, as a sentence without its end; none where they do. It starts Node.js.
pub(in crate::commands) fn typescript_problem() -> Option<String> {
    let here = std::env::current_dir().unwrap_or_default();
    let found = goondan::checks::runtimes(&here);
    let program = |wanted: &str| {
        found
            .iter()
            .find(|(name, _)| *name == wanted)
            .and_then(|(_, program)| program.clone())
    };
    // Bun is taken before Node.js, and Node.js before Deno.
    match (program("Bun"), program(NODE)) {
        (Some(_), _) => None,
        (None, Some(node)) => version(&node)
            .filter(|version| !reads_typescript(version))
            .map(|version| format!("Node.js {version} does not read TypeScript")),
        (None, None) => program("Deno")
            .is_none()
            .then(|| "Nothing on this machine runs TypeScript".to_owned()),
    }
}

/// Whether Node.js of that version removes types by itself.
fn reads_typescript(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or_default());
    match (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    ) {
        (22, minor) => minor >= 18,
        (23, minor) => minor >= 6,
        (major, _) => major > 23,
    }
}

/// What a program says of its version.
fn version(program: &Path) -> Option<String> {
    let said = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let word = text
        .lines()
        .next()?
        .split_ascii_whitespace()
        .find(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    Some(word.trim_start_matches('v').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_removes_types_since_its_versions_of_2025() {
        let reads = |versions: &[&str]| versions.iter().all(|version| reads_typescript(version));
        assert!(reads(&["22.18.0", "23.6.1", "24.0.0", "100.1"]));
        assert!(
            ![
                "20.20.2",
                "22.17.9",
                "23.5.0",
                "that does not say its version"
            ]
            .iter()
            .any(|old| reads_typescript(old))
        );
    }
}
