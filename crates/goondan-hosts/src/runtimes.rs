//! Finds the runtime program that runs a module, such as Node.js or Python.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use goondan_core::program_search::directory_outside_projects;
use goondan_spec::kinds::{ScriptLanguage, ScriptModule, ScriptRuntime};

/// A runtime that is installed on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFound {
    pub runtime: ScriptRuntime,
    pub program: PathBuf,
}

/// Finds the runtime for `module` of the bundle in `root`; `None` if it is not installed. Starts no
/// program.
pub fn find_runtime(module: &ScriptModule, root: &Path) -> Option<RuntimeFound> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let configured = module.runtime.as_slice();
    let runtimes = if configured.is_empty() {
        module.language.runtimes()
    } else {
        configured
    };
    let find_program_of = |runtime: &ScriptRuntime| {
        let own_program = virtual_environment(*runtime, &root.join(&module.package));
        let program = own_program.or_else(|| {
            programs(*runtime)
                .iter()
                .find_map(|name| find_on_path(name, &path, root))
        })?;
        Some(RuntimeFound {
            runtime: *runtime,
            program,
        })
    };
    runtimes.iter().find_map(find_program_of)
}

/// Returns the reason why `module` cannot run, and a suggestion, as sentences without their ends.
/// Starts no program.
pub fn problem(module: &ScriptModule, root: &Path) -> Option<(String, String)> {
    if !cfg!(unix) {
        let message = format!("`{}` can't run here: handler files need Unix", module.path);
        return Some((message, "run the swarm on Linux or macOS".to_owned()));
    }
    if find_runtime(module, root).is_some() {
        return None;
    }
    let configured = module.runtime.as_slice();
    let runtimes = if configured.is_empty() {
        module.language.runtimes()
    } else {
        configured
    };
    let names: Vec<&str> = runtimes
        .iter()
        .map(|runtime| runtime_display_name(*runtime))
        .collect();
    let message = format!(
        "`{}` needs {}, which is not installed",
        module.path,
        names.join(" or ")
    );
    let first = runtimes
        .first()
        .map_or("", |runtime| install_hint(*runtime));
    Some((
        message,
        format!("{first}; `gdn doctor` lists the installed runtimes"),
    ))
}

/// Returns why the installed Node.js can't run the TypeScript `module`, and a suggestion, both
/// without the final period. Returns `None` if it can. `version_of` returns the version of Node.js.
pub fn typescript_problem(
    module: &ScriptModule,
    root: &Path,
    version_of: impl FnOnce(&Path) -> Option<String>,
) -> Option<(String, String)> {
    if module.language != ScriptLanguage::TypeScript {
        return None;
    }
    let node = find_runtime(module, root).filter(|found| found.runtime == ScriptRuntime::Node)?;
    let version = version_of(&node.program).filter(|version| !reads_typescript(version))?;
    Some((
        format!(
            "Node.js {version} can't run `{}`, which is TypeScript",
            module.path
        ),
        "install Bun, or Node.js 24 or newer; `gdn doctor` lists the installed runtimes".to_owned(),
    ))
}

/// Returns true if this version of Node.js strips types by default.
pub fn reads_typescript(version: &str) -> bool {
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

/// Returns the version that a program prints for `--version`, without a leading `v`; `None` if the
/// program can't be run or prints no version.
pub fn program_version(program: &Path) -> Option<String> {
    let output = Command::new(program)
        .arg("--version")
        .current_dir(directory_outside_projects())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let word = text
        .lines()
        .next()?
        .split_ascii_whitespace()
        .find(|word| word.contains(|c: char| c.is_ascii_digit()))?;
    Some(word.trim_start_matches('v').to_owned())
}

/// Lists all runtimes by display name, with the program if installed. Starts no program.
pub fn installed(project: &Path) -> Vec<(&'static str, Option<PathBuf>)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find_program_of = |runtime: ScriptRuntime| {
        let program = programs(runtime)
            .iter()
            .find_map(|name| find_on_path(name, &path, project));
        (runtime_display_name(runtime), program)
    };
    [
        ScriptRuntime::Node,
        ScriptRuntime::Bun,
        ScriptRuntime::Deno,
        ScriptRuntime::Python,
    ]
    .map(find_program_of)
    .into()
}

pub(crate) fn runtime_display_name(runtime: ScriptRuntime) -> &'static str {
    match runtime {
        ScriptRuntime::Node => "Node.js",
        ScriptRuntime::Bun => "Bun",
        ScriptRuntime::Deno => "Deno",
        ScriptRuntime::Python => "Python 3",
    }
}

/// Returns the suggestion for a runtime that is not installed.
fn install_hint(runtime: ScriptRuntime) -> &'static str {
    match runtime {
        ScriptRuntime::Node => {
            "install Node.js 22 or newer (https://nodejs.org), so that `node` is on the PATH"
        }
        ScriptRuntime::Bun => "install Bun (https://bun.sh), so that `bun` is on the PATH",
        ScriptRuntime::Deno => "install Deno (https://deno.com), so that `deno` is on the PATH",
        ScriptRuntime::Python => "install Python 3.9 or newer, so that `python3` is on the PATH",
    }
}

/// Returns the program names of a runtime.
fn programs(runtime: ScriptRuntime) -> &'static [&'static str] {
    match runtime {
        ScriptRuntime::Node => &["node"],
        ScriptRuntime::Bun => &["bun"],
        ScriptRuntime::Deno => &["deno"],
        ScriptRuntime::Python => &["python3", "python"],
    }
}

/// Returns the interpreter of the virtual environment in `package`; `None` for other runtimes, or
/// if there is none.
fn virtual_environment(runtime: ScriptRuntime, package: &Path) -> Option<PathBuf> {
    let candidates = [".venv/bin/python3", "venv/bin/python3"];
    let mut programs = candidates
        .iter()
        .map(|candidate| package.join(candidate))
        .filter(|program| program.is_file());
    (runtime == ScriptRuntime::Python)
        .then(|| programs.next())
        .flatten()
}

/// Finds a program in the directories of `path`. Ignores relative directories and those below the
/// project, because a project must not replace programs such as `node`.
fn find_on_path(name: &str, path: &OsStr, project: &Path) -> Option<PathBuf> {
    let project = project
        .canonicalize()
        .unwrap_or_else(|_| project.to_owned());
    let is_foreign = |folder: &PathBuf| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute() && !real.starts_with(&project)
    };
    std::env::split_paths(path)
        .filter(is_foreign)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typescript_needs_a_recent_version_of_node() {
        let all_read_typescript =
            |versions: &[&str]| versions.iter().all(|version| reads_typescript(version));
        assert!(all_read_typescript(&[
            "22.18.0", "23.6.1", "24.0.0", "100.1"
        ]));
        assert!(
            !["20.20.2", "22.17.9", "23.5.0", "(unknown version)"]
                .iter()
                .any(|old| reads_typescript(old))
        );
    }
}
