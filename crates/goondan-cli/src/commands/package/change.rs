//! `gdn package init`, `add` and `remove`: edits of the Package document.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use goondan::StateRoot;
use goondan::internal::file_lock::FileLock;
use goondan::internal::manifest_edit::{
    DependencySpec, package_name, with_dependency, with_first_document, without_dependency,
};
use goondan::internal::nofollow_fs;
use goondan::internal::regular_file;
use goondan::spec::check_name;
use goondan::spec::{Code, Kind};
use goondan_packages::{
    FetchSettings, InstallOptions, PackageCache, PackageSource, inspect_newest,
};

use super::install::{folder, install_in, print_outcome};
use crate::exit::{CliError, CommandExit};
use crate::input_files::{self, MAX_PROJECT_FILE_BYTES};
use crate::output::CommandOutput;
use crate::packages::{access_settings, cache, package_error};
use crate::project_path::{ProjectPathArg, ProjectPathOption};
use goondan::spec::reason;

/// Arguments of `gdn package init`.
#[derive(Debug, Args)]
pub(crate) struct PackageInitArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// The name of the package, `name` or `@scope/name` [default: the directory's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Arguments of `gdn package add`.
#[derive(Debug, Args)]
pub(crate) struct PackageAddArgs {
    /// Packages to add: `oci://host/name`, `git+https://…#tag`, a directory or an archive, or
    /// `@scope/name@^1.0` of the registry
    #[arg(value_name = "PACKAGE", required = true)]
    packages: Vec<String>,
    /// Pin the resolved version instead of a ^range
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    project: ProjectPathOption,
    /// The registry for packages without a source [env: GOONDAN_REGISTRY]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

/// Arguments of `gdn package remove`.
#[derive(Debug, Args)]
pub(crate) struct PackageRemoveArgs {
    /// The packages to remove
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    project: ProjectPathOption,
}

/// Adds a Package document to the project's manifest. Fails if the project is a package of another
/// name.
pub(super) fn init(args: &PackageInitArgs, output: &CommandOutput) -> Result<(), CliError> {
    let root = match args.project.find_optional(output)? {
        Some(project) => folder(&project),
        None => PathBuf::from("."),
    };
    let _lock = lock(&root)?;
    let path = manifest_path(&root);
    let text = if path.exists() {
        read(&path)?
    } else {
        String::new()
    };
    if let Some(name) = package_name(&text) {
        if let Some(stated_name) = args
            .name
            .as_ref()
            .filter(|stated_name| **stated_name != name)
        {
            return Err(CliError::usage(format!(
                "The project is already the package {name}, not `{stated_name}`."
            ))
            .suggest(format!(
                "To rename the package, change `metadata.name` of its Package in {}.",
                path.display()
            )));
        }
        return output.line(&format!("The project is already a package: {name}."));
    }
    let name = args.name.clone().unwrap_or_else(|| package_name_of(&root));
    if let Err(problem) = check_name(&name, Kind::Package) {
        return Err(
            CliError::usage(format!("`{name}` is not a valid package name: {problem}."))
                .suggest("Choose a name such as `@acme/tools` with `--name`."),
        );
    }
    let name_in_yaml = serde_json::Value::from(name.as_str());
    let head = format!(
        "apiVersion: goondan.ai/v1\nkind: Package\nmetadata:\n  name: {name_in_yaml}\nspec:\n  \
        version: \"0.1.0\"\n"
    );
    nofollow_fs::write_inside(
        &root,
        &path,
        with_first_document(&head, &text).as_bytes(),
        false,
    )?;
    output.line(&format!(
        "The project in {} is now the package {name}.",
        root.display()
    ))
}

/// Adds packages to the dependencies and installs them.
pub(super) async fn add(
    args: &PackageAddArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let _lock = lock(&root)?;
    let path = manifest_path(&root);
    let manifest_text = read(&path)?;
    let manifest = goondan_packages::PackageManifest::read(&root).ok();
    state_root.prepare_or_warn();
    let (fetch_settings, cache) = (
        access_settings(Some(&root), manifest.as_ref(), args.registry.as_deref()),
        cache(state_root),
    );
    let mut text = manifest_text.clone();
    for package in &args.packages {
        let (name, version, source) =
            resolve_dependency(package, args.exact, &root, &fetch_settings, &cache).await?;
        let dependency = DependencySpec {
            name: &name,
            version: &version,
            source: source.as_deref(),
        };
        text = with_dependency(&text, &package_name_of(&root), dependency)
            .ok_or_else(|| dependencies_not_editable_error(&path, &name))?;
    }
    change_manifest(
        &root,
        &path,
        &manifest_text,
        &text,
        args.registry.as_deref(),
        state_root,
        output,
    )
    .await
}

/// Removes packages from the dependencies and installs the rest.
pub(super) async fn remove(
    args: &PackageRemoveArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let _lock = lock(&root)?;
    let path = manifest_path(&root);
    let manifest_text = read(&path)?;
    let manifest = goondan_packages::PackageManifest::read(&root).map_err(package_error)?;
    let mut text = manifest_text.clone();
    for name in &args.names {
        if !manifest
            .dependencies
            .iter()
            .any(|dependency| dependency.name == *name)
        {
            return Err(CliError::configuration(format!(
                "The project does not depend directly on `{name}`."
            ))
            .suggest("List the dependencies with `gdn package list`."));
        }
        text = without_dependency(&text, name)
            .ok_or_else(|| dependencies_not_editable_error(&path, name))?;
    }
    change_manifest(
        &root,
        &path,
        &manifest_text,
        &text,
        None,
        state_root,
        output,
    )
    .await
}

/// Writes the manifest and installs. If that fails, restores the manifest.
async fn change_manifest(
    root: &Path,
    path: &Path,
    before: &str,
    after: &str,
    registry: Option<&str>,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    nofollow_fs::write_inside(root, path, after.as_bytes(), false)?;
    match install_in(root, registry, &InstallOptions::default(), state_root).await {
        Ok(outcome) => print_outcome(&outcome, output),
        Err(error) => {
            nofollow_fs::write_inside(root, path, before.as_bytes(), false)?;
            Err(error)
        }
    }
}

/// Returns the name, range and source of a package to add.
async fn resolve_dependency(
    package: &str,
    exact: bool,
    root: &Path,
    fetch_settings: &FetchSettings,
    cache: &PackageCache,
) -> Result<(String, String, Option<String>), CliError> {
    let source = source_of(package, root)?;
    if let Some(source) = &source {
        let parsed = PackageSource::parse(source, fetch_settings).map_err(package_error)?;
        let newest = inspect_newest(&parsed, "", fetch_settings, cache)
            .await
            .map_err(package_error)?;
        // A version tag selects exactly that version and is dropped. Any other tag stays in the
        // source.
        let is_version = source.ends_with(&format!(":{}", newest.version));
        let exact_source = match &parsed {
            PackageSource::Oci(reference) if is_version => {
                Some(format!("oci://{}", reference.without_tag()))
            }
            _ => None,
        };
        let exact = exact || exact_source.is_some();
        return Ok((
            newest.name,
            version_range(&newest.version.to_string(), exact),
            exact_source.or(Some(source.clone())),
        ));
    }
    let (name, range) = match package.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&package[..at], Some(&package[at + 1..])),
        None => (package, None),
    };
    if let Err(problem) = check_name(name, Kind::Package) {
        return Err(CliError::usage(format!(
            "`{package}` is not a package source or a valid package name: {problem}."
        ))
        .suggest("Write `oci://host/name`, a path such as `../tools`, or `@scope/name`."));
    }
    if let Some(range) = range {
        return Ok((name.to_owned(), range.to_owned(), None));
    }
    let registry = PackageSource::of_registry(fetch_settings).map_err(package_error)?;
    let newest = inspect_newest(&registry, name, fetch_settings, cache)
        .await
        .map_err(package_error)?;
    Ok((
        name.to_owned(),
        version_range(&newest.version.to_string(), exact),
        None,
    ))
}

/// Returns the source that an argument names; `None` for a package name.
fn source_of(package: &str, root: &Path) -> Result<Option<String>, CliError> {
    if package.contains("://") {
        return Ok(Some(package.to_owned()));
    }
    let file_path = package.strip_prefix("file:");
    let path = Path::new(file_path.unwrap_or(package));
    let is_path = package.starts_with('.') || path.is_absolute() || package.ends_with(".tgz");
    if file_path.is_none() && !is_path {
        return Ok(None);
    }
    let (target, root) = (path.canonicalize(), root.canonicalize()?);
    let target = target.map_err(|error| {
        input_files::unreadable_input_error(&format!("The package at `{}`", path.display()), &error)
    })?;
    Ok(Some(format!("file:{}", relative_path(&root, &target))))
}

/// Returns `target` relative to `root`. Both must be canonical.
fn relative_path(root: &Path, target: &Path) -> String {
    let shared = root
        .components()
        .zip(target.components())
        .take_while(|(a, b)| a == b)
        .count();
    if shared == 0 {
        return target.display().to_string();
    }
    let up = root.components().skip(shared).map(|_| "..".to_owned());
    let down = target
        .components()
        .skip(shared)
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    match parts.first().map(String::as_str) {
        Some("..") => parts.join("/"),
        _ => format!("./{}", parts.join("/")),
    }
}

/// Returns the range that allows only this version (`exact`), or all compatible versions.
fn version_range(version: &str, exact: bool) -> String {
    format!("{}{version}", if exact { "=" } else { "^" })
}

/// Derives a package name from the directory name; `package` if the name has no usable character.
fn package_name_of(root: &Path) -> String {
    let folder = root
        .canonicalize()
        .ok()
        .and_then(|root| Some(root.file_name()?.to_string_lossy().to_lowercase()));
    let replace_special = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = folder
        .unwrap_or_default()
        .chars()
        .map(replace_special)
        .take(60)
        .collect();
    let name = name.trim_matches('-').to_owned();
    if check_name(&name, Kind::Package).is_ok() {
        name
    } else {
        "package".to_owned()
    }
}

/// Returns the path of the project's manifest, existing or new.
fn manifest_path(root: &Path) -> PathBuf {
    goondan::manifest_in(root).unwrap_or_else(|| root.join("goondan.yaml"))
}

/// Locks the project until its manifest is written, because several commands may change it at the
/// same time. A command may wait for the downloads of another one. A directory that can't be opened
/// is not locked: the caller then fails to read or write the manifest.
fn lock(root: &Path) -> Result<Option<FileLock>, CliError> {
    match FileLock::of_directory(root, PROJECT_LOCK_TIMEOUT) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(CliError::configuration(
            format!("The project can't be changed: {}.", reason(&error)),
        )
        .suggest("Wait until other `gdn package` commands in this project have ended.")),
        result => Ok(result.ok()),
    }
}

/// Maximum time to wait for another command that changes the manifest.
const PROJECT_LOCK_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Reads the manifest.
fn read(path: &Path) -> Result<String, CliError> {
    regular_file::read_text(path, MAX_PROJECT_FILE_BYTES).map_err(|error| {
        CliError::configuration(format!(
            "{} cannot be read: {error}.",
            path.display(),
            error = reason(&error)
        ))
    })
}

/// Returns the error of dependencies in a form that gdn can't edit.
fn dependencies_not_editable_error(path: &Path, name: &str) -> CliError {
    let message = format!(
        "gdn can't edit `spec.dependencies` in {}, because of the way it is written.",
        path.display()
    );
    CliError::new(CommandExit::Failure, Code::CONFIG_ERROR, message).suggest(format!(
        "Edit the entry of `{name}` manually, then run `gdn package install`."
    ))
}
