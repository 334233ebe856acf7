//! `gdn package install` and `gdn package update`.

use std::path::Path;

use clap::Args;
use goondan::StateRoot;
use goondan_packages::{InstallOptions, InstallResult, PackageManifest, UpdateSelection, install};
use serde_json::json;

use crate::exit::CliError;
use crate::output::{CommandOutput, style};
use crate::packages::{access_settings, cache, package_error};
use crate::project_path::{ProjectPathArg, ProjectPathOption};

/// Arguments of `gdn package install`.
#[derive(Debug, Args)]
pub(crate) struct PackageInstallArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Install only the lock file's versions; fail if the project requires others
    #[arg(long, visible_alias = "frozen-lockfile")]
    frozen: bool,
    /// Use only the cache
    #[arg(long)]
    offline: bool,
    /// The registry for packages without a source [env: GOONDAN_REGISTRY]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

/// Arguments of `gdn package update`.
#[derive(Debug, Args)]
pub(crate) struct PackageUpdateArgs {
    /// The packages to update [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    project: ProjectPathOption,
    /// The registry for packages without a source [env: GOONDAN_REGISTRY]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

/// Installs the dependencies of the project.
pub(super) async fn run(
    args: &PackageInstallArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let options = InstallOptions {
        frozen: args.frozen,
        offline: args.offline,
        update: UpdateSelection::Nothing,
    };
    let outcome = install_in(&root, args.registry.as_deref(), &options, state_root).await?;
    print_outcome(&outcome, output)
}

/// Installs the newest versions that the ranges allow, of the named packages or of all.
pub(super) async fn update(
    args: &PackageUpdateArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let update = if args.names.is_empty() {
        UpdateSelection::All
    } else {
        UpdateSelection::Of(args.names.clone())
    };
    let manifest = PackageManifest::read(&root).map_err(package_error)?;
    let lock = goondan_packages::install::read_lock(&root).map_err(package_error)?;
    for name in &args.names {
        if lock.find(name).is_none()
            && !manifest
                .dependencies
                .iter()
                .any(|dependency| dependency.name == *name)
        {
            return Err(CliError::configuration(format!(
                "The project does not depend on `{name}`."
            ))
            .suggest("List the dependencies with `gdn package list`."));
        }
    }
    let options = InstallOptions {
        update,
        ..InstallOptions::default()
    };
    let outcome = install_in(&root, args.registry.as_deref(), &options, state_root).await?;
    print_outcome(&outcome, output)
}

/// Installs the dependencies of the project in `root`.
pub(super) async fn install_in(
    root: &Path,
    registry: Option<&str>,
    options: &InstallOptions,
    state_root: &StateRoot,
) -> Result<InstallResult, CliError> {
    state_root.prepare_or_warn();
    let manifest = PackageManifest::read(root).map_err(|error| no_manifest_error(root, error))?;
    let fetch_settings = access_settings(Some(root), Some(&manifest), registry);
    install(root, &fetch_settings, &cache(state_root), options)
        .await
        .map_err(package_error)
}

/// Error of a project that is not a package, or whose YAML can't be parsed.
fn no_manifest_error(root: &Path, error: goondan_packages::PackageError) -> CliError {
    // For invalid YAML, `gdn package init` would be the wrong advice.
    let is_broken = |problem: &goondan::spec::Diagnostic| {
        problem.is_error() && problem.code == goondan::spec::Code::PARSE_ERROR
    };
    if goondan::load(root).diagnostics.iter().any(is_broken) {
        return package_error(error).suggest("Correct the YAML; `gdn validate` shows the errors.");
    }
    package_error(error).suggest(
        "Only packages have dependencies. Turn the project into a package with `gdn \
            package init`.",
    )
}

/// Prints the installed and removed packages.
pub(super) fn print_outcome(
    outcome: &InstallResult,
    output: &CommandOutput,
) -> Result<(), CliError> {
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
            0 => "The project has no dependencies.".to_owned(),
            1 => "The package is already installed.".to_owned(),
            count => format!("All {count} packages are already installed."),
        })?;
    }
    if !outcome.changed.is_empty() {
        output.note(
            "No code of a package was run. `gdn run` asks before it runs package code; `gdn \
                trust` allows the code.",
        )?;
    }
    Ok(())
}

/// Returns the directory of a project. `project` may also be its goondan.yaml.
pub(super) fn folder(project: &Path) -> std::path::PathBuf {
    if project.is_file() {
        project
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
            .to_owned()
    } else {
        project.to_owned()
    }
}
