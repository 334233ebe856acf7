//! What runs tools in JavaScript, TypeScript and Python.

use std::path::Path;
use std::process::{Command, Stdio};

use goondan::spec::{Bundle, Code};

use super::{Check, Status, check};

/// A row for each runtime that is installed, and one for those that are not: nobody needs all of them.
pub(super) fn installed() -> Vec<Check> {
    // Programs of the folder that somebody stands in don't count, like those of a project.
    let here = std::env::current_dir().unwrap_or_default();
    let (found, missing): (Vec<_>, Vec<_>) =
        goondan::checks::runtimes(&here).into_iter().partition(|(_, program)| program.is_some());
    let mut checks: Vec<Check> = found
        .into_iter()
        .filter_map(|(name, program)| {
            let program = program?;
            let version = version(&program).unwrap_or_else(|| "that does not say its version".to_owned());
            Some(check("runtime", Status::Ok, format!("{name} {version} is {}", program.display())))
        })
        .collect();
    let names: Vec<&str> = missing.into_iter().map(|(name, _)| name).collect();
    if !names.is_empty() {
        let detail = format!("not installed: {}; tools that are written for them need them", names.join(", "));
        checks.push(check("runtime", Status::Ok, detail));
    }
    checks
}

/// Tools whose runtime is missing.
pub(super) fn missing(bundle: &Bundle) -> Vec<Check> {
    let is_missing = |(_, why): &(_, Option<(String, String)>)| why.is_some();
    let rows = goondan::checks::modules(bundle).into_iter().filter(is_missing);
    rows.filter_map(|(tool, why)| {
        let (message, remedy) = why?;
        Some(check("module", Status::Warn, format!("{tool}: {message} ({})", Code::NOT_READY)).suggest(remedy))
    })
    .collect()
}

/// What a program says of its version.
fn version(program: &Path) -> Option<String> {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let word =
        text.lines().next()?.split_ascii_whitespace().find(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    Some(word.trim_start_matches('v').to_owned())
}
