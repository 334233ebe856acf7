//! `gdn reload`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use goondan::inside::shown;
use goondan::spec::{Bundle, Code};
use goondan::{LastGeneration, LastReload, Preview, PreviewError, StateRoot, Swarm, Workspace};
use serde_json::json;

use crate::commands::{quoted, tool_host};
use crate::complete;
use crate::exit::{CliError, Exit};
use crate::output::{Output, plan_words, style};
use crate::place::ProjectPath;
use crate::project;
use crate::retyped;
use crate::trust::Trust;

const EXAMPLES: &str = "\
Examples:
  gdn reload                     Reload the project of this folder in the process that runs it
  gdn reload --dry-run           Show what a reload would change
  gdn reload --dry-run ../copy   Compare another copy of the project with the running one";

/// How long the running process may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often its answer is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Arguments of `gdn reload`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Show what a reload would change, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Reload this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    swarm: Option<String>,
    /// With --dry-run: read variables from this file before .env.local and .env
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    env_file: Option<PathBuf>,
    /// With --dry-run: trust the project for this run
    #[arg(long, requires = "dry_run")]
    trust: bool,
}

/// Shows or brings about a reload.
pub(crate) async fn run(
    args: &ReloadArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let path = args.project.find(output)?;
    if args.dry_run {
        // It opens libraries and reads variables, as a start does.
        let trust = Trust::new(state_root, args.trust);
        let (_, bundle, _) = project::load_trusted(&path, &trust, output)?;
        preview(args, bundle, state_root, output).await
    } else {
        let (_, bundle, _) = project::load_valid(&path, output).map_err(not_reloaded)?;
        request(args, &path, &bundle, state_root, output).await
    }
}

/// The error of a project that could not be taken up, whether it runs or not.
fn not_reloaded(error: CliError) -> CliError {
    if error.code != Code::VALIDATION_ERROR.as_str() {
        return error;
    }
    let errors = error.diagnostics.len();
    let message = format!(
        "Not reloaded: the project has {errors} problems. What runs goes on as it was loaded."
    );
    CliError { message, ..error }
        .suggest("Correct the YAML where the lines above point, then reload again.")
}

async fn preview(
    args: &ReloadArgs,
    bundle: std::sync::Arc<Bundle>,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let workspace = compared(args, &bundle, state_root, output)?;
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
    let Preview {
        workspace,
        last,
        plan,
    } = builder
        .preview()
        .await
        .map_err(|error| not_shown(error, output))?;
    let runs = workspace.running_process()?.is_some();
    if output.json {
        return output.json_pretty(&json!({
            "workspace": workspace.id, "running": runs, "generation": last.generation, "plan": plan,
        }));
    }
    let whom = match runs {
        true => format!("the running generation {}", last.generation),
        false => format!("generation {}, the last one", last.generation),
    };
    output.line(&format!("Compared with {whom}: {}", plan_words(&plan)))
}

/// The workspace to compare with, where that is not the project's own: another copy is compared with the project around this
/// folder, unless it was run itself.
fn compared(
    args: &ReloadArgs,
    bundle: &Bundle,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Option<Workspace>, CliError> {
    let name = args.swarm.as_deref();
    let own = bundle
        .choose_swarm(name)
        .ok()
        .map(|swarm| state_root.workspace_of(bundle, swarm));
    let around = goondan::around(Path::new("."));
    let (Some(around), true) = (around, own.is_some_and(|own| !own.dir.exists())) else {
        return Ok(None);
    };
    let (running, swarm) = project::chosen_swarm(&around, name, output)?;
    Ok(Some(
        state_root.workspace_of(&running, &running.swarms()[&swarm]),
    ))
}

async fn request(
    args: &ReloadArgs,
    path: &Path,
    bundle: &Bundle,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let swarm = bundle
        .choose_swarm(args.swarm.as_deref())
        .map_err(|problem| CliError {
            suggestion: problem.suggestion.clone(),
            ..CliError::configuration(problem.message.clone())
        })?;
    let workspace = state_root.workspace_of(bundle, swarm);
    let (process, last) = running(&workspace, &swarm.id.name, path)?;
    let before = last.last_reload.map_or(0, |reload| reload.number);
    hang_up(process)?;
    let (generation, reload) = answer(&workspace, before).await?;
    if output.json {
        output.json_pretty(&json!({"generation": generation, "reload": reload}))?;
    } else if reload.ok {
        let (good, words) = (style::GOOD, plan_words(&reload.plan));
        output.line(&format!(
            "{good}Generation {generation}{good:#}: {words} ({} ms)",
            reload.duration_ms
        ))?;
    }
    if reload.ok {
        return Ok(());
    }
    output.note(&shown::lines(reload.messages.join("\n")).to_string())?;
    Err(CliError::new(
        Exit::Validation,
        Code::RELOAD_FAILED,
        format!("Not reloaded; generation {generation} serves on."),
    )
    .suggest("Correct what the lines above say, then reload again."))
}

/// The process that runs the project's swarm and can be asked.
fn running(
    workspace: &Workspace,
    swarm: &str,
    project: &Path,
) -> Result<(u32, LastGeneration), CliError> {
    let Some(Some(process)) = workspace.running_process()? else {
        return Err(CliError::configuration(format!("The swarm `{swarm}` of this project is not running.")).suggest(
            "Start it with `gdn run --watch`: it then takes up edits by itself. The state root must be the same.",
        ));
    };
    let last = workspace
        .last_generation()?
        .filter(|last| last.process == process && last.reloads_at_hangup);
    let Some(last) = last else {
        return Err(CliError::configuration(format!(
            "Process {process} runs the swarm `{swarm}` and can't be asked to reload."
        ))
        .suggest("It is another program than `gdn`, or just starting; edit the files it watches, or start it again."));
    };
    let folder = if project.is_dir() {
        project
    } else {
        project.parent().unwrap_or(project)
    };
    let is_same = folder.canonicalize().ok() == last.root.canonicalize().ok();
    if !is_same {
        return Err(CliError::configuration(format!("Process {process} runs the project in {}.", last.root.display()))
            .suggest(format!(
                "Compare with `gdn reload --dry-run`; to take it up, edit that folder and `gdn reload {}{}`.",
                quoted(&last.root.to_string_lossy()),
                retyped::state_root()
            )));
    }
    Ok((process, last))
}

#[cfg(unix)]
fn hang_up(process: u32) -> Result<(), CliError> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let number = i32::try_from(process).map(Pid::from_raw);
    let sent = number
        .map_err(|_| nix::errno::Errno::ESRCH)
        .and_then(|process| kill(process, Signal::SIGHUP));
    sent.map_err(|error| {
        CliError::failure(
            Code::INTERNAL_ERROR,
            format!("Process {process} can't be asked to reload: {error}."),
        )
    })
}

#[cfg(not(unix))]
fn hang_up(_: u32) -> Result<(), CliError> {
    Err(
        CliError::configuration("On this platform a running swarm can't be asked to reload.")
            .suggest("Start it with `gdn run --watch`: it then takes up edits by itself."),
    )
}

/// Waits until the process tells what came of a reload after the one with the number `before`.
async fn answer(workspace: &Workspace, before: u64) -> Result<(u64, LastReload), CliError> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(last) = workspace.last_generation()?
            && let Some(reload) = last.last_reload.filter(|reload| reload.number > before)
        {
            return Ok((last.generation, reload));
        }
        if workspace.running_process()?.is_none() {
            return Err(CliError::failure(
                Code::INTERNAL_ERROR,
                "The process ended before it had reloaded.",
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(CliError::failure(
        Code::INTERNAL_ERROR,
        format!(
            "The process did not reload within {} s.",
            PATIENCE.as_secs()
        ),
    )
    .suggest("Look at what it prints on standard error."))
}

fn not_shown(error: PreviewError, output: &Output) -> CliError {
    match error {
        PreviewError::Diagnostics(diagnostics) => {
            project::not_startable_shown(&diagnostics, output)
        }
        PreviewError::NothingRan(workspace) => CliError::configuration(format!(
            "Nothing ran in the workspace `{}` yet, so there is nothing to compare with.",
            workspace.id
        ))
        .suggest("Start the swarm with `gdn run`; to look for mistakes alone, use `gdn validate`."),
        PreviewError::OtherVersion(version) => CliError::configuration(format!(
            "The last run was by version {version} of gdn, whose notes can't be compared."
        ))
        .suggest("Start the swarm once with this version."),
        PreviewError::Unreadable(error) => error.into(),
    }
}
