//! `gdn package install` and `gdn package update`.

use std::path::Path;

use clap::Args;
use goondan::StateRoot;
use goondan_packages::{Manifest, Options, Outcome, Update, install};
use serde_json::json;

use crate::exit::CliError;
use crate::output::{Output, style};
use crate::packages::{cache, reach, refused};
use crate::place::{ProjectOption, ProjectPath};

/// Arguments of `gdn package install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Install what the lock file says, and fail where the project asks for something else
    #[arg(long, visible_alias = "frozen-lockfile")]
    frozen: bool,
    /// Use the cache alone
    #[arg(long)]
    offline: bool,
    /// The registry for packages without a source [env: GOONDAN_REGISTRY]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

/// Arguments of `gdn package update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The packages to update [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    project: ProjectOption,
    /// The registry for packages without a source [env: GOONDAN_REGISTRY]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

pub(super) async fn run(
    args: &InstallArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let options = Options {
        frozen: args.frozen,
        offline: args.offline,
        update: Update::Nothing,
    };
    let outcome = install_in(&root, args.registry.as_deref(), &options, state_root).await?;
    tell(&outcome, output)
}

pub(super) async fn update(
    args: &UpdateArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let update = if args.names.is_empty() {
        Update::All
    } else {
        Update::Of(args.names.clone())
    };
    let manifest = Manifest::read(&root).map_err(refused)?;
    let lock = goondan_packages::install::read_lock(&root).map_err(refused)?;
    for name in &args.names {
        if lock.find(name).is_none() && !manifest.dependencies.iter().any(|one| one.name == *name) {
            return Err(CliError::configuration(format!(
                "The project does not depend on `{name}`."
            ))
            .suggest("See what it depends on with `gdn package list`."));
        }
    }
    let options = Options {
        update,
        ..Options::default()
    };
    let outcome = install_in(&root, args.registry.as_deref(), &options, state_root).await?;
    tell(&outcome, output)
}

/// Installs what the project in `root` asks for.
pub(super) async fn install_in(
    root: &Path,
    registry: Option<&str>,
    options: &Options,
    state_root: &StateRoot,
) -> Result<Outcome, CliError> {
    state_root.prepare_or_warn();
    let manifest = Manifest::read(root).map_err(|error| no_manifest(root, error))?;
    let reach = reach(Some(root), Some(&manifest), registry);
    install(root, &reach, &cache(state_root), options)
        .await
        .map_err(refused)
}

/// The error of a project that is no package, or whose files can't be understood at all.
fn no_manifest(root: &Path, error: goondan_packages::PackageError) -> CliError {
    // Where it is the YAML that is wrong, its own words say what to do.
    let is_broken = |problem: &goondan::spec::Diagnostic| {
        problem.is_error() && problem.code == goondan::spec::Code::PARSE_ERROR
    };
    if goondan::load(root).diagnostics.iter().any(is_broken) {
        return refused(error).suggest("Correct the YAML; `gdn validate` shows where it is wrong.");
    }
    refused(error)
        .suggest("Only a package has dependencies: `gdn package init` makes the project one.")
}

/// Says what was installed.
pub(super) fn tell(outcome: &Outcome, output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.json_pretty(&json!({
            "packages": outcome.packages,
            "changed": outcome.changed,
            "removed": outcome.removed,
            "lockChanged": outcome.lock_changed,
        }));
    }
    let good = style::GOOD;
    for name in &outcome.changed {
        let version = outcome.packages.get(name).map_or("", String::as_str);
        output.line(&format!("{good}Installed{good:#} {name} {version}"))?;
    }
    for name in &outcome.removed {
        output.line(&format!("Removed {name}"))?;
    }
    if outcome.changed.is_empty() && outcome.removed.is_empty() {
        output.line(&match outcome.packages.len() {
            0 => "The project depends on no package.".to_owned(),
            1 => "The package is installed already.".to_owned(),
            count => format!("All {count} packages are installed already."),
        })?;
    }
    if !outcome.changed.is_empty() {
        output.note(
            "Nothing of a package was run. What it wants to run, `gdn run` asks about, and `gdn trust` allows.",
        )?;
    }
    Ok(())
}

/// The folder of a project that may be named by its goondan.yaml.
pub(super) fn folder(project: &Path) -> std::path::PathBuf {
    match project.is_file() {
        true => project
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
            .to_owned(),
        false => project.to_owned(),
    }
}
