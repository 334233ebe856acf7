//! `gdn doctor`.

use std::path::Path;

use clap::Args;
use goondan::inside::private::{self, Access};
use goondan::inside::shown;
use goondan::spec::kinds::{Entry, McpTransport, Tool};
use goondan::spec::{Bundle, Environment, Resource};
use goondan::{Project, StateRoot, folders_to_trust};
use serde::Serialize;

use crate::commands::instance::in_sentence_case;
use crate::commands::quoted;
use crate::elsewhere;
use crate::exit::{CliError, Exit};
use crate::output::{Output, style};
use crate::place::ProjectPath;
use crate::project;
use crate::trust::{Trust, trusting};
use goondan::spec::reason;

mod runtimes;

pub(super) use self::runtimes::typescript_problem;

/// Keys that the well-known providers look for.
const PROVIDER_KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

const EXAMPLES: &str = "\
Examples:
  gdn doctor                 Check this machine and the project in this folder
  gdn doctor my-swarm        Check this machine and another project";

/// Arguments of `gdn doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    project: ProjectPath,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
}

/// Checks this machine and the project. Fails where any check fails; warnings do not count.
pub(crate) fn run(
    args: &DoctorArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let mut checks = vec![
        version(),
        state(state_root),
        shell(),
        sandbox(),
        libraries(),
    ];
    checks.extend(runtimes::installed());
    checks.extend(match args.project.known(output)? {
        Some(path) => project_checks(&path, state_root),
        None => vec![
            check(
                "project",
                Status::Warn,
                "there is no goondan.yaml in this folder, nor in one above it",
            )
            .suggest("Create one with `gdn init`."),
            provider_keys(),
        ],
    });
    if output.json {
        output.json_pretty(&checks)?;
    } else {
        checks.iter().try_for_each(|check| show(check, output))?;
    }
    match checks.iter().any(|check| check.status == Status::Fail) {
        true => Err(CliError::shown(Exit::Failure)),
        false => Ok(()),
    }
}

fn show(check: &Check, output: &Output) -> Result<(), CliError> {
    let (colour, word) = match check.status {
        Status::Ok => (style::GOOD, "ok  "),
        Status::Warn => (style::WARNING, "warn"),
        Status::Fail => (style::ERROR, "fail"),
    };
    output.line(&format!(
        "{colour}{word}{colour:#}  {:<12} {}",
        check.name,
        shown::line(&check.detail)
    ))?;
    match &check.suggestion {
        Some(suggestion) => {
            output.line(&format!("                    {}", shown::line(suggestion)))
        }
        None => Ok(()),
    }
}

fn check(name: &'static str, status: Status, detail: impl Into<String>) -> Check {
    Check {
        name,
        status,
        detail: detail.into(),
        suggestion: None,
    }
}

impl Check {
    fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

fn version() -> Check {
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    check(
        "gdn",
        Status::Ok,
        format!("{} on {os} {machine}", env!("CARGO_PKG_VERSION")),
    )
}

/// Whether state can be kept, and kept from others: a file is written there, or where the folder would be made, and taken away
/// again. Nothing else is changed.
fn state(state_root: &StateRoot) -> Check {
    let folder = &state_root.0;
    let there = folder
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(folder);
    let probe = there.join(format!(".doctor-{}", std::process::id()));
    let written = private::write(&probe, b"probe").and_then(|()| std::fs::remove_file(&probe));
    let shown = folder.display();
    if let Err(error) = written {
        return check(
            "state root",
            Status::Fail,
            format!("{shown} can't be written: {}", reason(&error)),
        )
        .suggest("Choose another folder with --state-root or GOONDAN_STATE_ROOT.");
    }
    if there != folder {
        return check("state root", Status::Ok, format!("{shown} can be made"));
    }
    let open = |why: &str| {
        check(
            "state root",
            Status::Warn,
            format!("others may look into {shown}{why}"),
        )
    };
    match private::access(folder) {
        Ok(Access::Others) => open("").suggest(format!(
            "Close it with `chmod go= {}`; the next command that runs a swarm does so, too.",
            quoted(&folder.to_string_lossy())
        )),
        Ok(Access::Everybody) => open(": it is a folder for everybody's files")
            .suggest("Choose a folder of your own with --state-root or GOONDAN_STATE_ROOT."),
        Ok(Access::Owner) | Err(_) => {
            check("state root", Status::Ok, format!("{shown} can be written"))
        }
    }
}

/// Tools that run commands need a shell.
fn shell() -> Check {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("sh").is_file()));
    match found {
        true => check(
            "shell",
            Status::Ok,
            "sh is there for tools that run commands",
        ),
        false => check(
            "shell",
            Status::Warn,
            "there is no sh in PATH; tools that run commands will fail",
        ),
    }
}

/// What patterns allow runs in a sandbox where there is one.
fn sandbox() -> Check {
    if goondan::has_sandbox() {
        return check(
            "sandbox",
            Status::Ok,
            "programs can be contained by Landlock and seccomp",
        );
    }
    check("sandbox", Status::Warn, "this system can't contain programs").suggest(
        "A rule that allows `git *` then allows all that git does. Sandboxes take Linux 6.2 or later with Landlock.",
    )
}

/// A program that is linked with all it needs has nothing that could load more.
fn libraries() -> Check {
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return check("libraries", Status::Warn, "this program is static and can't load tool libraries")
            .suggest("Tools in JavaScript, TypeScript and Python work. Libraries take the program for glibc.");
    }
    check("libraries", Status::Ok, "tools can be dynamic libraries")
}

fn project_checks(path: &Path, state_root: &StateRoot) -> Vec<Check> {
    let is_project = path.is_file() || goondan::manifest_in(path).is_some();
    if !is_project {
        let nothing = format!("no goondan.yaml in {}", folder(path));
        return vec![
            check("project", Status::Warn, nothing).suggest("Create one with `gdn init`."),
            provider_keys(),
        ];
    }
    let project = match project::load(path) {
        Ok(project) => project,
        Err(error) => return vec![check("project", Status::Fail, error.message)],
    };
    let errors = project
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    let warnings = project.diagnostics.len() - errors;
    match &project.bundle {
        None => vec![
            check(
                "project",
                Status::Fail,
                format!("{} has {}", folder(path), counted(errors, "error")),
            )
            .suggest(format!(
                "`gdn validate {}` shows them.",
                quoted(&path.to_string_lossy())
            )),
        ],
        Some(bundle) => {
            let status = if warnings == 0 {
                Status::Ok
            } else {
                Status::Warn
            };
            let detail = match warnings {
                0 => format!("{} is valid", folder(path)),
                _ => format!(
                    "{} is valid, with {}",
                    folder(path),
                    counted(warnings, "warning")
                ),
            };
            let mut checks = vec![check("project", status, detail)];
            checks.extend(workspaces(bundle, state_root));
            let trust = Trust::new(state_root, false);
            checks.push(trusted(&trust, &project));
            checks.extend(values(&project.root, bundle, &trust));
            checks.extend(servers(bundle));
            checks.extend(runtimes::missing(bundle));
            checks
        }
    }
}

/// The folder of the project in a sentence.
fn folder(path: &Path) -> String {
    if path == Path::new(".") {
        "this folder".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Such as `1 warning` or `2 warnings`.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Whether the project may do what it wants.
fn trusted(trust: &Trust, project: &Project) -> Check {
    let is_given = trust.is_given(&project.root);
    match trust.open_wants(project) {
        Err(error) => check("trust", Status::Fail, error.message),
        Ok(wants) if wants.is_empty() => {
            let why = if is_given.unwrap_or(false) {
                "is trusted"
            } else {
                "wants nothing that needs trust"
            };
            check("trust", Status::Ok, format!("the project {why}"))
        }
        Ok(wants) => {
            let detail = match is_given.unwrap_or(false) {
                true => format!(
                    "the project is trusted, but wants {} of folders that are not",
                    counted(wants.len(), "thing")
                ),
                false => format!(
                    "the project is not trusted and wants {}",
                    counted(wants.len(), "thing")
                ),
            };
            let folders = folders_to_trust(&project.root, &wants).into_iter();
            let commands: Vec<String> = folders
                .map(|folder| format!("`{}`", trusting(&folder)))
                .collect();
            let list = if commands.len() == 1 {
                "lists them, and trusts it"
            } else {
                "list them, and trust it"
            };
            check("trust", Status::Warn, detail)
                .suggest(format!("{} {list}.", commands.join(" and ")))
        }
    }
}

/// Where the swarms keep their state, and state of the project that lies elsewhere.
fn workspaces(bundle: &Bundle, state_root: &StateRoot) -> Vec<Check> {
    let mut checks = Vec::new();
    for swarm in bundle.swarms().values() {
        let own = state_root.workspace_of(bundle, swarm);
        checks.push(check(
            "workspace",
            Status::Ok,
            format!("{} keeps its state in `{}`", swarm.id, own.id),
        ));
        let elsewhere = elsewhere::words(state_root, bundle, swarm);
        checks.extend(
            elsewhere
                .into_iter()
                .map(|[what, remedy]| check("workspace", Status::Warn, what).suggest(remedy)),
        );
    }
    checks
}

/// Whether every model finds its key, and every connection its values. They are never shown.
fn values(root: &Path, bundle: &Bundle, trust: &Trust) -> Vec<Check> {
    let environment = match trust.environment(root) {
        Ok(environment) => environment,
        Err(problem) => return vec![check("variables", Status::Fail, problem.message)],
    };
    let keys = goondan::checks::keys(bundle, &environment);
    let of_models = keys.map(|(model, missing)| match missing {
        None => check(
            "key",
            Status::Ok,
            format!("{} needs no key, or has its key", model.id),
        ),
        Some(remedy) => check("key", Status::Warn, format!("{} has no key", model.id))
            .suggest(in_sentence_case(&remedy)),
    });
    let connections = goondan::checks::connections(bundle, &environment);
    let of_connections = connections.map(|(connection, problem)| match problem {
        None => check(
            "connection",
            Status::Ok,
            format!("{connection} has its values"),
        ),
        Some(problem) => check(
            "connection",
            Status::Warn,
            format!("{connection} can't run. {problem}"),
        )
        .suggest("Set it in the environment, or in a file named `.env`."),
    });
    of_models.chain(of_connections).collect()
}

/// Whether the programs of MCP servers are there. None is started, and no server is reached.
fn servers(bundle: &Bundle) -> Vec<Check> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |command: &str| match command.contains('/') {
        true => bundle.root().join(command).is_file(),
        false => std::env::split_paths(&path).any(|folder| folder.join(command).is_file()),
    };
    let look = |tool: &Resource<Tool>| {
        let Entry::Mcp(server) = &tool.spec.entry else {
            return None;
        };
        Some(match &server.transport {
            McpTransport::Program { command, .. } if !is_there(command) => check(
                "mcp",
                Status::Warn,
                format!("{}: there is no program `{command}`", tool.id),
            )
            .suggest("Install it, or correct `command` in `spec.mcp`."),
            _ => check(
                "mcp",
                Status::Ok,
                format!("{}: {}", tool.id, server.shown()),
            )
            .suggest("`gdn mcp list --connect` reaches it."),
        })
    };
    bundle
        .tools()
        .values()
        .filter_map(|tool| look(tool))
        .collect()
}

fn provider_keys() -> Check {
    let environment = Environment::of_process();
    let set: Vec<&str> = PROVIDER_KEYS
        .into_iter()
        .filter(|name| environment.get(name).is_some())
        .collect();
    match set.is_empty() {
        false => check("keys", Status::Ok, format!("{} set", set.join(", "))),
        true => check("keys", Status::Warn, "no key of a model provider is set").suggest(format!(
            "Set one of {} to use a real model; scripted models need none.",
            PROVIDER_KEYS.join(", ")
        )),
    }
}
