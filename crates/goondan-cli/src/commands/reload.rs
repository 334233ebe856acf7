//! `gdn reload`: reloads the project of a running swarm, or previews a reload.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use goondan::internal::untrusted_text;
use goondan::spec::{Bundle, Code};
use goondan::{
    LastGeneration, LastReload, PreviewError, ReloadPreview, StateRoot, Swarm, Workspace,
};
use serde_json::json;

use crate::commands::{quoted, tool_host};
use crate::complete;
use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, plan_words, style};
use crate::project;
use crate::project_path::ProjectPathArg;
use crate::suggested_command;
use crate::trust::TrustSettings;

const EXAMPLES: &str = "\
Examples:
  gdn reload                     Reload this directory's project in the process that runs it
  gdn reload --dry-run           Show what a reload would change
  gdn reload --dry-run ../copy   Compare another copy of the project with the running one";

/// Time that the running process has to reload.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the result is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Arguments of `gdn reload`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Show what a reload would change, without reloading
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Reload this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    /// With --dry-run: read this env file, which overrides .env.local and .env
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    env_file: Option<PathBuf>,
    /// With --dry-run: trust the project for this run
    #[arg(long, requires = "dry_run")]
    trust: bool,
}

/// Requests a reload of the running process, or previews it.
pub(crate) async fn run(
    args: &ReloadArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let path = args.project.find(output)?;
    if args.dry_run {
        // A preview opens libraries and reads variables, as a start does, so it needs trust.
        let trust = TrustSettings::new(state_root, args.trust);
        let (_, bundle, _) = project::load_trusted(&path, &trust, output)?;
        print_preview(args, bundle, state_root, output).await
    } else {
        let (_, bundle, _) = project::load_valid(&path, output).map_err(reload_error)?;
        request_reload(args, &path, &bundle, state_root, output).await
    }
}

/// Rewords the error of an invalid project: the running swarm is unchanged.
fn reload_error(error: CliError) -> CliError {
    if error.code != Code::VALIDATION_ERROR.as_str() {
        return error;
    }
    let errors = error.diagnostics.len();
    let message =
        format!("Not reloaded: the project has {errors} errors. The running swarm is unchanged.");
    CliError { message, ..error }.suggest("Fix the errors above, then reload again.")
}

/// Prints what a reload would change in the running swarm, or in the last one that ran.
async fn print_preview(
    args: &ReloadArgs,
    bundle: std::sync::Arc<Bundle>,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let workspace = workspace_to_compare(args, &bundle, state_root, output)?;
    let mut builder = Swarm::builder(bundle).state_root(&state_root.0);
    if let Some(workspace) = workspace {
        builder = builder.workspace(workspace);
    }
    if let Some(host) = tool_host::command() {
        builder = builder.tool_host(host);
    }
    if let Some(name) = &args.swarm {
        builder = builder.swarm(name);
    }
    if let Some(file) = &args.env_file {
        builder = builder.env_file(file);
    }
    let ReloadPreview {
        workspace,
        last,
        plan,
    } = builder
        .preview()
        .await
        .map_err(|error| preview_error(error, output))?;
    let is_running = workspace.running_process()?.is_some();
    if output.json {
        return output.json_pretty(&json!({
            "workspace": workspace.id, "running": is_running, "generation": last.generation, "plan": plan,
        }));
    }
    let generation = if is_running {
        format!("the running generation {}", last.generation)
    } else {
        format!("generation {}, the last one", last.generation)
    };
    output.line(&format!(
        "Compared with {generation}: {}",
        plan_words(&plan)
    ))
}

/// Returns the workspace to compare with, if it is not the project's own.
/// A copy that never ran is compared with the project around the current directory.
fn workspace_to_compare(
    args: &ReloadArgs,
    bundle: &Bundle,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<Option<Workspace>, CliError> {
    let name = args.swarm.as_deref();
    let own_workspace = bundle
        .choose_swarm(name)
        .ok()
        .map(|swarm| state_root.workspace_of(bundle, swarm));
    let outer_project = goondan::around(Path::new("."));
    let (Some(outer_project), true) = (
        outer_project,
        own_workspace.is_some_and(|own_workspace| !own_workspace.dir.exists()),
    ) else {
        return Ok(None);
    };
    let (running, swarm) = project::chosen_swarm(&outer_project, name, output)?;
    Ok(Some(
        state_root.workspace_of(&running, &running.swarms()[&swarm]),
    ))
}

/// Requests a reload of the running process, and waits for its result.
async fn request_reload(
    args: &ReloadArgs,
    path: &Path,
    bundle: &Bundle,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let swarm = bundle
        .choose_swarm(args.swarm.as_deref())
        .map_err(|problem| CliError {
            suggestion: problem.suggestion.clone(),
            ..CliError::configuration(problem.message.clone())
        })?;
    let workspace = state_root.workspace_of(bundle, swarm);
    let (process, last) = reloadable_process(&workspace, &swarm.id.name, path)?;
    let before = last.last_reload.map_or(0, |reload| reload.number);
    hang_up(process)?;
    let (generation, reload) = wait_for_reload(&workspace, before).await?;
    if output.json {
        output.json_pretty(&json!({"generation": generation, "reload": reload}))?;
    } else if reload.ok {
        let (good, plan) = (style::GOOD, plan_words(&reload.plan));
        output.line(&format!(
            "{good}Generation {generation}{good:#}: {plan} ({} ms)",
            reload.duration_ms
        ))?;
    }
    if reload.ok {
        return Ok(());
    }
    output.note(&untrusted_text::lines(reload.messages.join("\n")).to_string())?;
    Err(CliError::new(
        CommandExit::Validation,
        Code::RELOAD_FAILED,
        format!("Not reloaded; generation {generation} keeps running."),
    )
    .suggest("Fix the errors above, then reload again."))
}

/// Returns the process that runs the project's swarm and reloads at SIGHUP, and its last generation.
/// Fails if there is no such process.
fn reloadable_process(
    workspace: &Workspace,
    swarm: &str,
    project: &Path,
) -> Result<(u32, LastGeneration), CliError> {
    let Some(Some(process)) = workspace.running_process()? else {
        return Err(CliError::configuration(format!(
            "Swarm `{swarm}` of this project is not running."
        ))
        .suggest(
            "Start the swarm with `gdn run --watch`, which reloads on changes. Use the same \
                state root.",
        ));
    };
    let last = workspace
        .last_generation()?
        .filter(|last| last.process == process && last.reloads_at_hangup);
    let Some(last) = last else {
        return Err(CliError::configuration(format!(
            "Process {process} runs the swarm `{swarm}`, but can't reload."
        ))
        .suggest(
            "The process is not `gdn`, or is still starting. Edit a file that it watches, or \
                restart it.",
        ));
    };
    let folder = if project.is_dir() {
        project
    } else {
        project.parent().unwrap_or(project)
    };
    let is_same = folder.canonicalize().ok() == last.root.canonicalize().ok();
    if !is_same {
        return Err(CliError::configuration(format!(
            "Process {process} runs the project in {}.",
            last.root.display()
        ))
        .suggest(format!(
            "Compare with `gdn reload --dry-run`. To apply changes, edit that directory and run \
                `gdn reload {}{}`.",
            quoted(&last.root.to_string_lossy()),
            suggested_command::state_root()
        )));
    }
    Ok((process, last))
}

/// Sends SIGHUP to the process.
#[cfg(unix)]
fn hang_up(process: u32) -> Result<(), CliError> {
    let sent = crate::remote::send_signal(process, nix::sys::signal::Signal::SIGHUP);
    sent.map_err(|error| {
        CliError::failure(
            Code::INTERNAL_ERROR,
            format!("Could not signal process {process} to reload: {error}."),
        )
    })
}

/// Always fails, because this platform has no SIGHUP.
#[cfg(not(unix))]
fn hang_up(_: u32) -> Result<(), CliError> {
    Err(
        CliError::configuration("`gdn reload` is not supported on this platform.")
            .suggest("Start the swarm with `gdn run --watch`, which reloads on changes."),
    )
}

/// Waits for the result of a reload after the one numbered `before`.
async fn wait_for_reload(
    workspace: &Workspace,
    before: u64,
) -> Result<(u64, LastReload), CliError> {
    let end = Instant::now() + RELOAD_TIMEOUT;
    while Instant::now() < end {
        if let Some(last) = workspace.last_generation()?
            && let Some(reload) = last.last_reload.filter(|reload| reload.number > before)
        {
            return Ok((last.generation, reload));
        }
        if workspace.running_process()?.is_none() {
            return Err(CliError::failure(
                Code::INTERNAL_ERROR,
                "The process ended before the reload.",
            ));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(CliError::failure(
        Code::INTERNAL_ERROR,
        format!(
            "The process did not reload within {} s.",
            RELOAD_TIMEOUT.as_secs()
        ),
    )
    .suggest("Check the standard error of the process."))
}

/// Converts the error, and suggests how to continue.
fn preview_error(error: PreviewError, output: &CommandOutput) -> CliError {
    match error {
        PreviewError::Diagnostics(diagnostics) => {
            project::report_not_startable(&diagnostics, output)
        }
        PreviewError::NothingRan(workspace) => CliError::configuration(format!(
            "No swarm has run in the workspace `{}` yet, so there is nothing to compare with.",
            workspace.id
        ))
        .suggest("Start the swarm with `gdn run`. To only check for errors, use `gdn validate`."),
        PreviewError::OtherVersion(version) => CliError::configuration(format!(
            "The last run used version {version} of gdn; its state can't be compared."
        ))
        .suggest("Start the swarm once with this version."),
        PreviewError::Unreadable(error) => error.into(),
    }
}
