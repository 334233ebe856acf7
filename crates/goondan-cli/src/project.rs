//! The project that a command works on: found, loaded, and where asked for started.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use goondan::event::SwarmEvent;
use goondan::inside::render;
use goondan::ports::approval::Approver;
use goondan::spec::{Bundle, Code, Diagnostic, ResourceId, Sources, reason};
use goondan::telemetry::Settings;
use goondan::{LockError, OpenWorkspaceError, Project, StartError, StateRoot, Swarm, models};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::commands::run::Asked;
use crate::commands::{quoted, sandbox_exec, tool_host};
use crate::complete;
use crate::elsewhere;
use crate::exit::{CliError, Exit};
use crate::output::{Output, style};
use crate::store::StoreArgs;
use crate::trust::Trust;

/// How a swarm is started; the same words in every command that starts one.
#[derive(Debug, Clone, Args)]
pub(crate) struct StartArgs {
    /// Run this Swarm [default: the only one, or the one named `default`]
    #[arg(short, long, value_name = "NAME", add = complete::swarms())]
    pub(crate) swarm: Option<String>,
    /// Read variables from this file before .env.local and .env
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Let all tools work in this folder, whatever `workdir` the agents have
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Answer every approval question with yes
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Trust the project for this run
    #[arg(long)]
    pub(crate) trust: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// With a database, run at most N turns at a time on this node; 0 leaves them to other nodes while there are any
    #[arg(long, value_name = "N")]
    pub(crate) node_turns: Option<usize>,
    /// Build tools and extensions first, as `gdn build` does
    #[arg(long)]
    pub(crate) build: bool,
}

impl StartArgs {
    /// What they say about trust.
    pub(crate) fn trust(&self, state_root: &StateRoot) -> Trust {
        Trust::new(state_root, self.trust)
    }
}

/// Loads the project at `path`, whatever is wrong in it. Fails only where there is no project at all.
pub(crate) fn load(path: &Path) -> Result<Project, CliError> {
    require(path)?;
    Ok(goondan::load(path))
}

/// Loads a project that is about to be used: warnings are shown, errors end the command.
pub(crate) fn load_valid(
    path: &Path,
    output: &Output,
) -> Result<(PathBuf, Arc<Bundle>, Sources), CliError> {
    valid(load(path)?, output)
}

/// As [`load_valid`], of a project that is about to be run: one that nobody trusts must want nothing.
pub(crate) fn load_trusted(
    path: &Path,
    trust: &Trust,
    output: &Output,
) -> Result<(PathBuf, Arc<Bundle>, Sources), CliError> {
    let project = load(path)?;
    if project.bundle.is_some() {
        trust.require(&project, output)?;
    }
    valid(project, output)
}

fn valid(project: Project, output: &Output) -> Result<(PathBuf, Arc<Bundle>, Sources), CliError> {
    let Project {
        root,
        bundle,
        diagnostics,
        sources,
        ..
    } = project;
    match bundle {
        Some(bundle) => {
            warn(&diagnostics, &sources, output)?;
            Ok((root, bundle, sources))
        }
        None => {
            output.explain(pretty(&diagnostics, &sources).trim_end_matches('\n'))?;
            Err(invalid(&diagnostics))
        }
    }
}

/// The project at `path` with its swarm of that name, or the one that is run where none is named.
pub(crate) fn chosen_swarm(
    path: &Path,
    name: Option<&str>,
    output: &Output,
) -> Result<(Arc<Bundle>, ResourceId), CliError> {
    let (_, bundle, _) = load_valid(path, output)?;
    let swarm = bundle.choose_swarm(name).map(|swarm| swarm.id.clone());
    let swarm = swarm.map_err(|problem| not_startable(std::slice::from_ref(&problem)))?;
    Ok((bundle, swarm))
}

/// Shows problems with the lines that they are about.
fn warn(diagnostics: &[Diagnostic], sources: &Sources, output: &Output) -> Result<(), CliError> {
    if diagnostics.is_empty() {
        return Ok(());
    }
    output.note(pretty(diagnostics, sources).trim_end_matches('\n'))
}

fn pretty(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    render::pretty(diagnostics, sources, Output::stderr_has_colour())
}

/// A swarm that is about to start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The project folder, or its goondan.yaml.
    pub(crate) project: &'a Path,
    /// How it is started.
    pub(crate) args: &'a StartArgs,
    /// The file that takes down what models are asked and answer.
    pub(crate) record: Option<&'a Path>,
    /// Who is asked what a policy asks.
    pub(crate) asked: Asked,
    /// Whether it reloads when the project changes.
    pub(crate) watch: bool,
    /// Whether it waits for a workspace that another node holds, however long.
    pub(crate) waits: bool,
}

/// A project that is about to be run.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) bundle: Arc<Bundle>,
    sources: Sources,
    pub(crate) trust: Trust,
}

/// Loads the project, which must be valid and trusted.
pub(crate) fn prepare(
    launch: &Launch<'_>,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Prepared, CliError> {
    let trust = launch.args.trust(state_root);
    let (root, bundle, sources) = load_trusted(launch.project, &trust, output)?;
    // Read once here as well, because an unusable file is a matter of configuration, not of the project.
    goondan::environment(&root, launch.args.env_file.as_deref())
        .map_err(|problem| unusable_variables(&problem))?;
    Ok(Prepared {
        bundle,
        sources,
        trust,
    })
}

/// Starts the swarm of the project. The events begin with those of turns that an earlier run left. A node that works for another
/// one until it leads leaves once `leave` is cancelled.
pub(crate) async fn start(
    Prepared {
        bundle,
        sources,
        trust,
    }: Prepared,
    Launch {
        args,
        record,
        waits,
        ..
    }: Launch<'_>,
    approver: Arc<dyn Approver>,
    leave: &CancellationToken,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), NotRun> {
    tell_elsewhere(&bundle, args.swarm.as_deref(), state_root, output)?;
    let mut builder = Swarm::builder(bundle)
        .state_root(&state_root.0)
        .approver(approver)
        .redactor(crate::app::redactor().clone())
        .reload_check(trust.reload_check())
        .reloads_at_hangup(cfg!(unix));
    if let Some(settings) = Settings::read(|name| std::env::var(name).ok()) {
        builder = builder.telemetry(settings);
    }
    if let Some(file) = &args.env_file {
        builder = builder.env_file(file);
    }
    if let Some(host) = tool_host::command() {
        builder = builder.tool_host(host);
    }
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
            Some(most) => database.turns(most),
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
            models::record(Arc::new(models::Providers::default()), file).map_err(|error| {
                let message = format!("`{}` can't be written: {}.", file.display(), reason(&error));
                CliError::configuration(message)
                    .suggest("Record to a file in a folder that exists and that you may write to.")
            })?;
        builder = builder.models(recorder);
    }
    let (swarm, events) = builder
        .start_watched()
        .await
        .map_err(|error| NotRun::of(error, output))?;
    warn(&swarm.warnings(), &sources, output)?;
    Ok((swarm, events))
}

/// Tells of state that lies elsewhere, as long as the project has none of its own.
fn tell_elsewhere(
    bundle: &Bundle,
    swarm: Option<&str>,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    // Without a swarm nothing starts, and that is told then.
    let Ok(swarm) = bundle.choose_swarm(swarm) else {
        return Ok(());
    };
    if state_root.workspace_of(bundle, swarm).dir.exists() {
        return Ok(());
    }
    let yellow = style::WARNING;
    for [what, remedy] in elsewhere::words(state_root, bundle, swarm) {
        output.note(&format!("{yellow}warning{yellow:#}: {what}\n  {remedy}"))?;
    }
    Ok(())
}

/// Checks that there is something to load at `path`.
pub(crate) fn require(path: &Path) -> Result<(), CliError> {
    let shown = path.display();
    let about = std::fs::metadata(path).map_err(|error| not_there(path, &error))?;
    if about.is_file() {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        return match goondan::project::MANIFESTS.contains(&name) {
            true => Ok(()),
            false => Err(no_project(format!(
                "`{shown}` is neither a project folder nor a goondan.yaml."
            ))),
        };
    }
    if !about.is_dir() {
        return Err(no_project(format!(
            "`{shown}` is neither a file nor a folder."
        )));
    }
    if goondan::manifest_in(path).is_some() {
        return Ok(());
    }
    if let Some(error) = odd_manifest(path) {
        return Err(error);
    }
    let (place, command) = match path == Path::new(".") {
        true => ("this folder".to_owned(), "gdn init".to_owned()),
        false => (format!("`{shown}`"), creating(path)),
    };
    Err(
        CliError::configuration(format!("There is no goondan.yaml in {place}.")).suggest(format!(
            "Create a project with `{command}`, or name the folder that holds one."
        )),
    )
}

/// The command that makes a project there.
fn creating(path: &Path) -> String {
    format!("gdn init {}", quoted(&path.to_string_lossy()))
}

fn no_project(message: String) -> CliError {
    CliError::configuration(message).suggest("Name the folder that holds goondan.yaml.")
}

/// The error of a path that leads to nothing that can be looked at.
fn not_there(path: &Path, error: &io::Error) -> CliError {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => no_project(format!(
            "`{shown}` is a link to something that does not exist."
        )),
        io::ErrorKind::NotFound => CliError::configuration(format!("`{shown}` does not exist."))
            .suggest(format!("Create a project there with `{}`.", creating(path))),
        _ => no_project(format!("`{shown}` can't be opened: {}.", reason(error))),
    }
}

/// The error of a folder in which something has the name of a goondan.yaml and is none, or that can't be looked into.
pub(crate) fn odd_manifest(folder: &Path) -> Option<CliError> {
    let odd = |path: &Path, what: String| {
        let shown = path.strip_prefix(".").unwrap_or(path).display();
        CliError::configuration(format!("`{shown}` {what}."))
    };
    for path in goondan::project::MANIFESTS.map(|name| folder.join(name)) {
        match std::fs::metadata(&path) {
            Ok(about) if about.is_dir() => {
                let error = odd(&path, "is a folder, and not a file".to_owned());
                return Some(error.suggest("Rename it, then create a project with `gdn init`."));
            }
            Ok(_) => {
                let error = odd(&path, "is not a regular file".to_owned());
                return Some(error.suggest("Remove it, then create a project with `gdn init`."));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let error = odd(
                    &path,
                    "is a link to something that does not exist".to_owned(),
                );
                return Some(error.suggest("Correct the link, or remove it."));
            }
            Err(error) => {
                let error = odd(&path, format!("can't be read: {}", reason(&error)));
                return Some(error.suggest(
                    "Name a folder that you may read, or let its owner change its mode.",
                ));
            }
        }
    }
    None
}

fn existing_folder(folder: &Path) -> Result<PathBuf, CliError> {
    folder
        .canonicalize()
        .ok()
        .filter(|path| path.is_dir())
        .ok_or_else(|| {
            CliError::configuration(format!("The folder `{}` does not exist.", folder.display()))
                .suggest("`--workdir` takes a folder that is there already.")
        })
}

/// The error of an environment file that can't be used.
fn unusable_variables(problem: &Diagnostic) -> CliError {
    let error = CliError::configuration(problem.message.clone());
    CliError {
        suggestion: problem.suggestion.clone(),
        diagnostics: as_json(std::slice::from_ref(problem)).into(),
        ..error
    }
}

/// The error of a project with errors in it.
pub(crate) fn invalid(diagnostics: &[Diagnostic]) -> CliError {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    let message = match errors {
        1 => "The project has an error.".to_owned(),
        n => format!("The project has {n} errors."),
    };
    let mut error = CliError::new(Exit::Validation, Code::VALIDATION_ERROR, message)
        .suggest("Correct the YAML where the lines above point, then run `gdn validate`.");
    error.diagnostics = as_json(diagnostics).into();
    error
}

/// Diagnostics for programs.
pub(crate) fn as_json(diagnostics: &[Diagnostic]) -> Vec<Value> {
    let value = |diagnostic| {
        serde_json::to_value(diagnostic).expect("a diagnostic holds strings and numbers alone")
    };
    diagnostics.iter().map(value).collect()
}

/// Why a swarm did not start.
pub(crate) struct NotRun {
    pub(crate) error: CliError,
    /// Whether another process holds the workspace, or held it at that moment.
    pub(crate) is_held: bool,
}

impl NotRun {
    fn of(error: StartError, output: &Output) -> Self {
        let held = |error: &StartError| {
            matches!(
                error,
                StartError::Workspace(OpenWorkspaceError::Locked(LockError::Held { .. }))
            )
        };
        let is_held = held(&error);
        let error = match error {
            StartError::Diagnostics(diagnostics) => not_startable_shown(&diagnostics, output),
            other => CliError {
                suggestion: other.suggestion(),
                ..CliError::failure(other.code(), other.to_string())
            },
        };
        NotRun { error, is_held }
    }
}

impl From<CliError> for NotRun {
    fn from(error: CliError) -> Self {
        NotRun {
            error,
            is_held: false,
        }
    }
}

/// The error of a valid project that can't run as it is. Lists the problems where there are several.
pub(crate) fn not_startable_shown(diagnostics: &[Diagnostic], output: &Output) -> CliError {
    // A single problem is the error itself; of several, the error can only be the sum.
    let listed = match diagnostics {
        [_] => Ok(()),
        several => output.explain(render::short(several).trim_end_matches('\n')),
    };
    listed.err().unwrap_or_else(|| not_startable(diagnostics))
}

/// What the machine lacks is a matter of configuration; everything else is wrong in the project.
fn not_startable(diagnostics: &[Diagnostic]) -> CliError {
    let of_the_machine =
        |diagnostic: &Diagnostic| matches!(diagnostic.code, Code::ENV_MISSING | Code::NO_SWARM);
    let exit = match diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .all(of_the_machine)
    {
        true => Exit::Configuration,
        false => Exit::Validation,
    };
    let mut error = match diagnostics {
        [one] => CliError {
            suggestion: one.suggestion.clone(),
            ..CliError::new(exit, one.code, placed(one))
        },
        several => CliError::new(
            exit,
            Code::CONFIG_ERROR,
            format!("{} problems keep the swarm from starting.", several.len()),
        ),
    };
    error.diagnostics = as_json(diagnostics).into();
    error
}

/// The message, with the place that it is about.
fn placed(diagnostic: &Diagnostic) -> String {
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
