//! Finding, loading and starting the project of a command.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use goondan::event::SwarmEvent;
use goondan::internal::render;
use goondan::ports::approval::Approver;
use goondan::spec::{Bundle, Code, Diagnostic, ResourceId, SourceTexts, reason};
use goondan::start::telemetry::TelemetrySettings;
use goondan::{LockError, OpenWorkspaceError, Project, StartError, StateRoot, Swarm, models};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::commands::run::ApprovalResponder;
use crate::commands::{quoted, sandbox_exec, tool_host};
use crate::complete;
use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, style};
use crate::stale_state;
use crate::store::StoreArgs;
use crate::trust::TrustSettings;

/// Start options, shared by all commands that start a swarm.
#[derive(Debug, Clone, Args)]
pub(crate) struct StartArgs {
    /// Run this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    pub(crate) swarm: Option<String>,
    /// Read this env file, which overrides .env.local and .env
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Run all tools in this directory; overrides the agents' `workdir`
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Approve every approval request
    #[arg(short = 'y', long = "approve-all", visible_alias = "yes")]
    pub(crate) yes: bool,
    /// Trust the project for this run
    #[arg(long)]
    pub(crate) trust: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// With a database, limit this node to N turns at a time; 0 leaves them to other nodes if there
    /// are any
    #[arg(long, value_name = "N")]
    pub(crate) node_turns: Option<usize>,
    /// Build tools and extensions first, as `gdn build` does
    #[arg(long)]
    pub(crate) build: bool,
    /// Start even if the log of accepted events is lost
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

impl StartArgs {
    /// Returns the trust settings of this run.
    pub(crate) fn trust(&self, state_root: &StateRoot) -> TrustSettings {
        TrustSettings::new(state_root, self.trust).working_in(self.workdir.as_deref())
    }
}

/// Loads the project at `path`, including an invalid one. Fails only if there is no project.
pub(crate) fn load(path: &Path) -> Result<Project, CliError> {
    require(path)?;
    Ok(goondan::load(path))
}

/// Loads a project for use. Fails if the project has errors. Warnings are left to `gdn validate`.
pub(crate) fn load_valid(
    path: &Path,
    output: &CommandOutput,
) -> Result<(PathBuf, Arc<Bundle>, SourceTexts), CliError> {
    require_valid(load(path)?, output)
}

/// Loads a project for a run, see [`load_valid`]. Fails if the project is untrusted and requests
/// capabilities.
pub(crate) fn load_trusted(
    path: &Path,
    trust: &TrustSettings,
    output: &CommandOutput,
) -> Result<(PathBuf, Arc<Bundle>, SourceTexts), CliError> {
    require_valid(load_and_require_trust(path, trust, output)?, output)
}

/// Loads a project, and asks for trust unless the project has errors.
fn load_and_require_trust(
    path: &Path,
    trust: &TrustSettings,
    output: &CommandOutput,
) -> Result<Project, CliError> {
    let project = load(path)?;
    if project.bundle.is_some() {
        trust.require(&project, output)?;
    }
    Ok(project)
}

/// Returns the directory, the resources and the sources of the project. Prints the errors and fails
/// if the project is invalid.
fn require_valid(
    project: Project,
    output: &CommandOutput,
) -> Result<(PathBuf, Arc<Bundle>, SourceTexts), CliError> {
    let Project {
        root,
        bundle,
        diagnostics,
        sources,
        ..
    } = project;
    match bundle {
        Some(bundle) => Ok((root, bundle, sources)),
        None => {
            output.explain(format_diagnostics(&diagnostics, &sources).trim_end_matches('\n'))?;
            Err(invalid_project_error(&diagnostics))
        }
    }
}

/// Loads the project at `path` and selects the named swarm, or the default one.
pub(crate) fn chosen_swarm(
    path: &Path,
    name: Option<&str>,
    output: &CommandOutput,
) -> Result<(Arc<Bundle>, ResourceId), CliError> {
    let (_, bundle, _) = load_valid(path, output)?;
    let swarm = bundle.choose_swarm(name).map(|swarm| swarm.id.clone());
    let swarm = swarm.map_err(|problem| not_startable_error(std::slice::from_ref(&problem)))?;
    Ok((bundle, swarm))
}

/// Prints diagnostics with their source lines.
fn print_diagnostics(
    diagnostics: &[Diagnostic],
    sources: &SourceTexts,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if diagnostics.is_empty() {
        return Ok(());
    }
    output.note(format_diagnostics(diagnostics, sources).trim_end_matches('\n'))
}

/// Formats diagnostics with their source lines.
fn format_diagnostics(diagnostics: &[Diagnostic], sources: &SourceTexts) -> String {
    render::pretty(diagnostics, sources, CommandOutput::stderr_has_colour())
}

/// Parameters of a swarm start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwarmLaunch<'a> {
    /// Project directory, or its goondan.yaml.
    pub(crate) project: &'a Path,
    pub(crate) args: &'a StartArgs,
    /// File that records all model calls.
    pub(crate) record: Option<&'a Path>,
    /// Recipient of approval requests.
    pub(crate) asked: ApprovalResponder,
    /// Reload when the project changes.
    pub(crate) watch: bool,
    /// Wait without limit for a workspace that another node holds.
    pub(crate) waits: bool,
}

/// Project that is ready to run.
#[derive(Clone)]
pub(crate) struct PreparedProject {
    pub(crate) bundle: Arc<Bundle>,
    sources: SourceTexts,
    pub(crate) trust: TrustSettings,
}

/// Loads the project, which must be valid and trusted.
pub(crate) fn prepare(
    launch: &SwarmLaunch<'_>,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<PreparedProject, CliError> {
    if let Some(folder) = &launch.args.workdir {
        existing_folder(folder)?;
    }
    let trust = launch.args.trust(state_root);
    let project = load_and_require_trust(launch.project, &trust, output)?;
    if project.bundle.is_some() && !project.diagnostics.is_empty() {
        let yellow = style::WARNING;
        output.note(&format!(
            "{yellow}warning{yellow:#}: {} List the warnings with `gdn validate`.",
            render::summary(&project.diagnostics)
        ))?;
    }
    let (root, bundle, sources) = require_valid(project, output)?;
    // Also read here, because an unusable file is a configuration error, not a project error.
    goondan::environment(&root, launch.args.env_file.as_deref())
        .map_err(|problem| unusable_variables(&problem))?;
    Ok(PreparedProject {
        bundle,
        sources,
        trust,
    })
}

/// Starts the swarm of the project. The event stream starts with turns that an earlier run left
/// unfinished. Cancelling `leave` stops a node that is waiting to become the leader.
pub(crate) async fn start(
    PreparedProject {
        bundle,
        sources,
        trust,
    }: PreparedProject,
    SwarmLaunch {
        args,
        record,
        waits,
        ..
    }: SwarmLaunch<'_>,
    approver: Arc<dyn Approver>,
    leave: &CancellationToken,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), SwarmStartFailure> {
    warn_stale_state(&bundle, args.swarm.as_deref(), state_root, output)?;
    let mut builder = Swarm::builder(bundle)
        .state_root(&state_root.0)
        .approver(approver)
        .redactor(crate::output::redactor().clone())
        .reload_check(trust.reload_check())
        .accept_loss(args.accept_loss)
        .reloads_at_hangup(cfg!(unix));
    if let Some(settings) = TelemetrySettings::read(|name| std::env::var(name).ok()) {
        builder = builder.telemetry(settings);
    }
    if let Some(file) = &args.env_file {
        builder = builder.env_file(file);
    }
    if let Some(host) = tool_host::command() {
        builder = builder.tool_host(host);
    }
    #[cfg(target_os = "linux")]
    goondan::adopt_orphans();
    if let Some(helper) = sandbox_exec::command() {
        builder = builder.sandbox_helper(helper);
    }
    if let Some(name) = &args.swarm {
        builder = builder.swarm(name);
    }
    if let Some(folder) = &args.workdir {
        builder = builder.workdir(existing_folder(folder)?);
    }
    if let Some(database) = args.store.database()? {
        let database = match args.node_turns {
            Some(max_turns) => database.turns(max_turns),
            None => database,
        };
        builder = builder.database(if waits {
            database.waiting().leaving(leave.clone())
        } else {
            database
        });
    }
    if let Some(file) = record {
        let recorder =
            models::record(Arc::new(models::ModelProviders::default()), file).map_err(|error| {
                let message = format!("`{}` can't be written: {}.", file.display(), reason(&error));
                CliError::configuration(message)
                    .suggest("Record to a file in an existing directory that you may write to.")
            })?;
        builder = builder.models(recorder);
    }
    let (swarm, events) = builder
        .start_watched()
        .await
        .map_err(|error| SwarmStartFailure::of(error, output))?;
    print_diagnostics(&swarm.warnings(), &sources, output)?;
    Ok((swarm, events))
}

/// Warns about state in other workspaces while the project has none in its own.
fn warn_stale_state(
    bundle: &Bundle,
    swarm: Option<&str>,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    // Without a swarm nothing starts; the builder reports that error.
    let Ok(swarm) = bundle.choose_swarm(swarm) else {
        return Ok(());
    };
    if state_root.workspace_of(bundle, swarm).dir.exists() {
        return Ok(());
    }
    let yellow = style::WARNING;
    for [notice, remedy] in stale_state::stale_state_notices(state_root, bundle, swarm) {
        output.note(&format!("{yellow}warning{yellow:#}: {notice}\n  {remedy}"))?;
    }
    Ok(())
}

/// Checks that `path` leads to a project.
pub(crate) fn require(path: &Path) -> Result<(), CliError> {
    let shown_path = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| missing_path_error(path, &error))?;
    if metadata.is_file() {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        return if goondan::start::project::MANIFEST_FILES.contains(&name) {
            Ok(())
        } else {
            Err(no_project_error(format!(
                "`{shown_path}` is not a project directory or a goondan.yaml."
            )))
        };
    }
    if !metadata.is_dir() {
        return Err(no_project_error(format!(
            "`{shown_path}` is not a file or a directory."
        )));
    }
    if goondan::manifest_in(path).is_some() {
        return Ok(());
    }
    if let Some(error) = manifest_error(path) {
        return Err(error);
    }
    let (directory, command) = if path == Path::new(".") {
        ("this directory".to_owned(), "gdn init".to_owned())
    } else {
        (format!("`{shown_path}`"), init_command(path))
    };
    Err(
        CliError::configuration(format!("There is no goondan.yaml in {directory}.")).suggest(
            format!("Create a project with `{command}`, or name the directory of a project."),
        ),
    )
}

/// Returns the command that creates a project at `path`.
fn init_command(path: &Path) -> String {
    format!("gdn init {}", quoted(&path.to_string_lossy()))
}

/// Returns the error of a path that is not a project.
fn no_project_error(message: String) -> CliError {
    CliError::configuration(message).suggest("Name the directory that contains goondan.yaml.")
}

/// Returns the error for a path that does not exist or cannot be opened.
fn missing_path_error(path: &Path, error: &io::Error) -> CliError {
    let shown_path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => no_project_error(format!(
            "`{shown_path}` is a link to something that does not exist."
        )),
        io::ErrorKind::NotFound => {
            CliError::configuration(format!("`{shown_path}` does not exist.")).suggest(format!(
                "Create a project there with `{}`.",
                init_command(path)
            ))
        }
        _ => no_project_error(format!(
            "`{shown_path}` can't be opened: {}.",
            reason(error)
        )),
    }
}

/// Returns an error if the directory has a goondan.yaml that is not a readable regular file.
pub(crate) fn manifest_error(folder: &Path) -> Option<CliError> {
    let unusable_project_error = |path: &Path, problem: String| {
        let shown_path = path.strip_prefix(".").unwrap_or(path).display();
        CliError::configuration(format!("`{shown_path}` {problem}."))
    };
    for path in goondan::start::project::MANIFEST_FILES.map(|name| folder.join(name)) {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                let error = unusable_project_error(&path, "is a directory, not a file".to_owned());
                return Some(error.suggest("Rename it, then create a project with `gdn init`."));
            }
            Ok(_) => {
                let error = unusable_project_error(&path, "is not a regular file".to_owned());
                return Some(error.suggest("Remove it, then create a project with `gdn init`."));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let error = unusable_project_error(
                    &path,
                    "is a link to something that does not exist".to_owned(),
                );
                return Some(error.suggest("Correct the link, or remove it."));
            }
            Err(error) => {
                let error =
                    unusable_project_error(&path, format!("can't be read: {}", reason(&error)));
                return Some(
                    error.suggest("Name a directory that you may read, or change its permissions."),
                );
            }
        }
    }
    None
}

/// Returns the canonical path of the directory of `--workdir`. Fails if it does not exist.
fn existing_folder(folder: &Path) -> Result<PathBuf, CliError> {
    folder
        .canonicalize()
        .ok()
        .filter(|path| path.is_dir())
        .ok_or_else(|| {
            CliError::configuration(format!(
                "The directory `{}` does not exist.",
                folder.display()
            ))
            .suggest("Pass `--workdir` an existing directory.")
        })
}

/// Returns the error of variables that can't be read.
pub(crate) fn unusable_variables(problem: &Diagnostic) -> CliError {
    CliError {
        suggestion: problem.suggestion.clone(),
        diagnostics: as_json(std::slice::from_ref(problem)).into(),
        ..CliError::new(
            CommandExit::Configuration,
            problem.code,
            problem.message.clone(),
        )
    }
}

pub(crate) fn invalid_project_error(diagnostics: &[Diagnostic]) -> CliError {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    let message = match errors {
        1 => "The project has an error.".to_owned(),
        n => format!("The project has {n} errors."),
    };
    let mut error = CliError::new(CommandExit::Validation, Code::VALIDATION_ERROR, message)
        .suggest("Fix the errors above, then run `gdn validate`.");
    error.diagnostics = as_json(diagnostics).into();
    error
}

/// Converts diagnostics to JSON.
pub(crate) fn as_json(diagnostics: &[Diagnostic]) -> Vec<Value> {
    let value = |diagnostic| {
        serde_json::to_value(diagnostic).expect("a diagnostic contains only strings and numbers")
    };
    diagnostics.iter().map(value).collect()
}

/// Reason for a failed start.
pub(crate) struct SwarmStartFailure {
    pub(crate) error: CliError,
    /// True if another process holds the workspace, or held it at that moment.
    pub(crate) is_held: bool,
}

impl SwarmStartFailure {
    /// Converts the error of a start. Prints its diagnostics if there are several.
    fn of(error: StartError, output: &CommandOutput) -> Self {
        let is_held_error = |error: &StartError| {
            matches!(
                error,
                StartError::Workspace(OpenWorkspaceError::Locked(LockError::Held { .. }))
            )
        };
        let is_held = is_held_error(&error);
        let error = match error {
            StartError::Diagnostics(diagnostics) => report_not_startable(&diagnostics, output),
            other => CliError {
                suggestion: other.suggestion(),
                ..CliError::failure(other.code(), other.to_string())
            },
        };
        SwarmStartFailure { error, is_held }
    }
}

impl From<CliError> for SwarmStartFailure {
    fn from(error: CliError) -> Self {
        SwarmStartFailure {
            error,
            is_held: false,
        }
    }
}

/// Returns the error for a valid project that cannot start. Prints the problems if there are
/// several.
pub(crate) fn report_not_startable(diagnostics: &[Diagnostic], output: &CommandOutput) -> CliError {
    // A single problem becomes the error itself; for several, the error only has their number.
    let shown_diagnostics = match diagnostics {
        [_] => Ok(()),
        several => output.explain(render::short(several).trim_end_matches('\n')),
    };
    shown_diagnostics
        .err()
        .unwrap_or_else(|| not_startable_error(diagnostics))
}

/// Returns the error for problems that prevent a start. Missing variables and swarms are
/// configuration errors; everything else is a project error.
fn not_startable_error(diagnostics: &[Diagnostic]) -> CliError {
    let is_of_environment =
        |diagnostic: &Diagnostic| matches!(diagnostic.code, Code::ENV_MISSING | Code::NO_SWARM);
    let exit = if diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .all(is_of_environment)
    {
        CommandExit::Configuration
    } else {
        CommandExit::Validation
    };
    let mut error = match diagnostics {
        [problem] => CliError {
            suggestion: problem.suggestion.clone(),
            ..CliError::new(exit, problem.code, message_with_position(problem))
        },
        problems => CliError::new(
            exit,
            Code::CONFIG_ERROR,
            format!(
                "{} problems prevent the swarm from starting.",
                problems.len()
            ),
        ),
    };
    error.diagnostics = as_json(diagnostics).into();
    error
}

/// Returns the message with its file position.
fn message_with_position(diagnostic: &Diagnostic) -> String {
    match (&diagnostic.file, diagnostic.position) {
        (Some(file), Some(at)) => {
            format!(
                "{} ({file}:{}:{}).",
                diagnostic.message.trim_end_matches('.'),
                at.line,
                at.column
            )
        }
        _ => diagnostic.message.clone(),
    }
}
