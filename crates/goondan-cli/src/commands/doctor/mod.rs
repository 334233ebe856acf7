//! `gdn doctor`: checks this machine and a project for problems.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::internal::private_files::{self, DirectoryAccess};
use goondan::internal::untrusted_text;
use goondan::spec::kinds::{McpTransport, Tool, ToolEntry};
use goondan::spec::{Bundle, Environment, Resource};
use goondan::{Project, StateRoot, folders_to_trust};
use serde::Serialize;

use crate::commands::instance::in_sentence_case;
use crate::commands::quoted;
use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, style};
use crate::project;
use crate::project_path::ProjectPathArgOrOption;
use crate::stale_state;
use crate::trust::{TrustSettings, trust_command};
use goondan::spec::reason;

mod deep;
mod runtimes;

pub(super) use self::runtimes::typescript_problem;

/// Environment variables with the API keys of well-known providers.
const PROVIDER_KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

const EXAMPLES: &str = "\
Examples:
  gdn doctor                 Check this machine and the project in this directory
  gdn doctor my-swarm        Check this machine and another project
  gdn doctor --deep          Also check every record of all workspaces
  gdn doctor --deep --repair copies
                             Also save what can be read of damaged workspaces";

/// Arguments of `gdn doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    project: ProjectPathArgOrOption,
    /// Also check every file of all workspaces
    #[arg(long)]
    deep: bool,
    /// Write readable copies of damaged workspaces into this directory
    #[arg(long, value_name = "DIR", requires = "deep")]
    repair: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct HealthCheck {
    name: &'static str,
    status: CheckStatus,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
    /// Damaged files, or data that could not be saved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

/// Checks this machine and the project. Fails if any check fails; warnings do not count.
pub(crate) fn run(
    args: &DoctorArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let mut checks = vec![
        version(),
        state(state_root),
        shell(),
        sandbox(),
        libraries(),
    ];
    checks.extend(runtimes::installed_runtime_checks());
    checks.extend(match args.project.find_optional(output)? {
        Some(path) => project_checks(&path, state_root),
        None => vec![
            check(
                "project",
                CheckStatus::Warn,
                "no goondan.yaml in this directory or in a parent directory",
            )
            .suggest("Create one with `gdn init`."),
            provider_keys(),
        ],
    });
    if args.deep {
        checks.extend(deep::checks(state_root, args.repair.as_deref()));
    }
    if output.json {
        output.json_pretty(&checks)?;
    } else {
        checks
            .iter()
            .try_for_each(|check| print_check(check, output))?;
    }
    if checks.iter().any(|check| check.status == CheckStatus::Fail) {
        Err(CliError::already_printed(CommandExit::Failure))
    } else {
        Ok(())
    }
}

/// Prints the result of a check with its suggestion.
fn print_check(check: &HealthCheck, output: &CommandOutput) -> Result<(), CliError> {
    let (colour, word) = match check.status {
        CheckStatus::Ok => (style::GOOD, "ok  "),
        CheckStatus::Warn => (style::WARNING, "warn"),
        CheckStatus::Fail => (style::ERROR, "fail"),
    };
    output.line(&format!(
        "{colour}{word}{colour:#}  {:<12} {}",
        check.name,
        untrusted_text::line(&check.detail)
    ))?;
    for problem in &check.problems {
        let problem = untrusted_text::line(problem);
        output.line(&format!("                    {problem}"))?;
    }
    match &check.suggestion {
        Some(suggestion) => output.line(&format!(
            "                    {}",
            untrusted_text::line(suggestion)
        )),
        None => Ok(()),
    }
}

/// Creates the result of a check, without a suggestion.
fn check(name: &'static str, status: CheckStatus, detail: impl Into<String>) -> HealthCheck {
    HealthCheck {
        name,
        status,
        detail: detail.into(),
        suggestion: None,
        problems: Vec::new(),
    }
}

impl HealthCheck {
    /// Adds a suggestion for the user.
    fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Reports the version of gdn and the platform. Never fails.
fn version() -> HealthCheck {
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    check(
        "gdn",
        CheckStatus::Ok,
        format!("{} on {os} {machine}", env!("CARGO_PKG_VERSION")),
    )
}

/// Checks that the state root is writable and private, by writing and deleting a probe file.
/// If the directory does not exist, the probe is written to its nearest existing ancestor.
fn state(state_root: &StateRoot) -> HealthCheck {
    let folder = &state_root.0;
    let existing = folder
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(folder);
    let probe = existing.join(format!(".doctor-{}", std::process::id()));
    let probe_result =
        private_files::write(&probe, b"probe").and_then(|()| std::fs::remove_file(&probe));
    let path = folder.display();
    if let Err(error) = probe_result {
        return check(
            "state root",
            CheckStatus::Fail,
            format!("{path} can't be written: {}", reason(&error)),
        )
        .suggest("Choose another directory with --state-root or GOONDAN_STATE_ROOT.");
    }
    if existing != folder {
        return check(
            "state root",
            CheckStatus::Ok,
            format!("{path} can be created"),
        );
    }
    let readable_by_others = |why: &str| {
        check(
            "state root",
            CheckStatus::Warn,
            format!("{path} is readable by other users{why}"),
        )
    };
    match private_files::access(folder) {
        Ok(DirectoryAccess::Others) => readable_by_others("").suggest(format!(
            "Run `chmod go= {}`; the next command that runs a swarm also corrects the access.",
            quoted(&folder.to_string_lossy())
        )),
        Ok(DirectoryAccess::Everybody) => readable_by_others(": it is a shared directory")
            .suggest("Choose a private directory with --state-root or GOONDAN_STATE_ROOT."),
        Ok(DirectoryAccess::Owner) | Err(_) => {
            check("state root", CheckStatus::Ok, format!("{path} is writable"))
        }
    }
}

/// Checks for `sh`, which tools that run commands need.
fn shell() -> HealthCheck {
    let has_shell = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("sh").is_file()));
    if has_shell {
        check(
            "shell",
            CheckStatus::Ok,
            "found sh, which tools use to run commands",
        )
    } else {
        check(
            "shell",
            CheckStatus::Warn,
            "no sh in PATH; tools that run commands will fail",
        )
    }
}

/// Checks for a sandbox, in which commands run that patterns allow.
fn sandbox() -> HealthCheck {
    if goondan::has_sandbox() {
        return check(
            "sandbox",
            CheckStatus::Ok,
            "programs can run in a sandbox (Landlock and seccomp)",
        );
    }
    check(
        "sandbox",
        CheckStatus::Warn,
        "this system has no sandbox for programs",
    )
    .suggest(
        "Without a sandbox, a rule that allows `git *` allows everything git does. Sandboxes \
            need Linux 6.2 or later with Landlock.",
    )
}

/// Checks for dynamic loading, which a statically linked program can't do.
fn libraries() -> HealthCheck {
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return check(
            "libraries",
            CheckStatus::Warn,
            "this program is static and can't load tool \
            libraries",
        )
        .suggest(
            "Tools in JavaScript, TypeScript and Python work. To load libraries, install the \
                glibc build of gdn.",
        );
    }
    check(
        "libraries",
        CheckStatus::Ok,
        "tools can be dynamic libraries",
    )
}

/// Checks the project at `path`: errors, workspaces, trust, variables, servers and runtimes.
fn project_checks(path: &Path, state_root: &StateRoot) -> Vec<HealthCheck> {
    let is_project = path.is_file() || goondan::manifest_in(path).is_some();
    if !is_project {
        let nothing = format!("no goondan.yaml in {}", directory_name(path));
        return vec![
            check("project", CheckStatus::Warn, nothing).suggest("Create one with `gdn init`."),
            provider_keys(),
        ];
    }
    let project = match project::load(path) {
        Ok(project) => project,
        Err(error) => return vec![check("project", CheckStatus::Fail, error.message)],
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
                CheckStatus::Fail,
                format!(
                    "{} has {}",
                    directory_name(path),
                    count_phrase(errors, "error")
                ),
            )
            .suggest(format!(
                "List them with `gdn validate {}`.",
                quoted(&path.to_string_lossy())
            )),
        ],
        Some(bundle) => {
            let status = if warnings == 0 {
                CheckStatus::Ok
            } else {
                CheckStatus::Warn
            };
            let detail = match warnings {
                0 => format!("{} is valid", directory_name(path)),
                _ => format!(
                    "{} is valid, with {}",
                    directory_name(path),
                    count_phrase(warnings, "warning")
                ),
            };
            let mut checks = vec![check("project", status, detail)];
            checks.extend(workspaces(bundle, state_root));
            let trust = TrustSettings::new(state_root, false);
            checks.push(trust_check(&trust, &project));
            checks.extend(value_checks(&project.root, bundle, &trust));
            checks.extend(servers(bundle));
            checks.extend(runtimes::missing_runtime_checks(bundle));
            checks
        }
    }
}

/// Returns the path for a message.
fn directory_name(path: &Path) -> String {
    if path == Path::new(".") {
        "this directory".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Returns `1 error`, `2 errors` and so on.
fn count_phrase(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Checks whether the project is trusted for everything that it requests.
fn trust_check(trust: &TrustSettings, project: &Project) -> HealthCheck {
    let is_given = trust.is_given(&project.root);
    match trust.untrusted_capabilities(project) {
        Err(error) => check("trust", CheckStatus::Fail, error.message),
        Ok(wants) if wants.is_empty() => {
            let state = if is_given.unwrap_or(false) {
                "is trusted"
            } else {
                "requests nothing that needs trust"
            };
            check("trust", CheckStatus::Ok, format!("the project {state}"))
        }
        Ok(wants) => {
            let detail = if is_given.unwrap_or(false) {
                format!(
                    "the project is trusted, but requests access to {} in untrusted directories",
                    count_phrase(wants.len(), "item")
                )
            } else {
                format!(
                    "the project is not trusted and requests access to {}",
                    count_phrase(wants.len(), "item")
                )
            };
            let folders = folders_to_trust(&project.root, &wants).into_iter();
            let commands: Vec<String> = folders
                .map(|folder| format!("`{}`", trust_command(&folder)))
                .collect();
            let effect = if commands.len() == 1 {
                "lists them and trusts the project"
            } else {
                "list them and trust the directories"
            };
            check("trust", CheckStatus::Warn, detail)
                .suggest(format!("{} {effect}.", commands.join(" and ")))
        }
    }
}

/// Checks the workspace of each swarm, and looks for state of the project in other workspaces.
fn workspaces(bundle: &Bundle, state_root: &StateRoot) -> Vec<HealthCheck> {
    let mut checks = Vec::new();
    for swarm in bundle.swarms().values() {
        let workspace = state_root.workspace_of(bundle, swarm);
        checks.push(check(
            "workspace",
            CheckStatus::Ok,
            format!("{} stores its state in `{}`", swarm.id, workspace.id),
        ));
        let stale_notices = stale_state::stale_state_notices(state_root, bundle, swarm);
        checks.extend(
            stale_notices.into_iter().map(|[notice, remedy]| {
                check("workspace", CheckStatus::Warn, notice).suggest(remedy)
            }),
        );
    }
    checks
}

/// Checks that every model has its key and every connection its values. Values are never shown.
fn value_checks(root: &Path, bundle: &Bundle, trust: &TrustSettings) -> Vec<HealthCheck> {
    let environment = match trust.environment(root) {
        Ok(environment) => environment,
        Err(problem) => return vec![check("variables", CheckStatus::Fail, problem.message)],
    };
    let keys = goondan::start::checks::keys(bundle, &environment);
    let model_checks = keys.map(|(model, missing)| match missing {
        None => check(
            "key",
            CheckStatus::Ok,
            format!("{} has its key or needs none", model.id),
        ),
        Some(remedy) => check("key", CheckStatus::Warn, format!("{} has no key", model.id))
            .suggest(in_sentence_case(&remedy)),
    });
    let connections = goondan::start::checks::connections(bundle, &environment);
    let connection_checks = connections.map(|(connection, problem)| match problem {
        None => check(
            "connection",
            CheckStatus::Ok,
            format!("all values of {connection} are set"),
        ),
        Some(problem) => check(
            "connection",
            CheckStatus::Warn,
            format!("{connection} can't run. {problem}"),
        )
        .suggest("Set the value in the environment or in a file named `.env`."),
    });
    model_checks.chain(connection_checks).collect()
}

/// Checks that the programs of MCP servers exist. Starts no program and contacts no server.
fn servers(bundle: &Bundle) -> Vec<HealthCheck> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = |command: &str| {
        if command.contains('/') {
            bundle.root().join(command).is_file()
        } else {
            std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
        }
    };
    let server_check = |tool: &Resource<Tool>| {
        let ToolEntry::Mcp(server) = &tool.spec.entry else {
            return None;
        };
        Some(match &server.transport {
            McpTransport::Program { command, .. } if !is_installed(command) => check(
                "mcp",
                CheckStatus::Warn,
                format!("{}: program `{command}` not found", tool.id),
            )
            .suggest("Install the program, or correct `command` in `spec.mcp`."),
            _ => check(
                "mcp",
                CheckStatus::Ok,
                format!("{}: {}", tool.id, server.display_address()),
            )
            .suggest("Test the connection with `gdn mcp list --connect`."),
        })
    };
    bundle
        .tools()
        .values()
        .filter_map(|tool| server_check(tool))
        .collect()
}

/// Checks that the API key of at least one model provider is set.
fn provider_keys() -> HealthCheck {
    let environment = Environment::of_process();
    let set: Vec<&str> = PROVIDER_KEYS
        .into_iter()
        .filter(|name| environment.get(name).is_some())
        .collect();
    if set.is_empty() {
        check(
            "keys",
            CheckStatus::Warn,
            "no API key of a model provider is set",
        )
        .suggest(format!(
            "Set one of {} to use a real model; scripted models need none.",
            PROVIDER_KEYS.join(", ")
        ))
    } else {
        check("keys", CheckStatus::Ok, format!("{} set", set.join(", ")))
    }
}
