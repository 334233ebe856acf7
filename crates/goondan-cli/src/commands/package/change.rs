//! `gdn package init`, `add` and `remove`: edits of the Package document.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use goondan::StateRoot;
use goondan::inside::manifest_edit::{Wanted, package_name, with_dependency, without_dependency};
use goondan::spec::check_name;
use goondan::spec::{Code, Kind};
use goondan_packages::{Cache, Options, Reach, Source, look};

use super::install::{folder, install_in, tell};
use crate::exit::{CliError, Exit};
use crate::output::Output;
use crate::packages::{cache, reach, refused};
use crate::place::{ProjectOption, ProjectPath};
use crate::reading;
use goondan::spec::reason;

/// Arguments of `gdn package init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// The name of the package, `name` or `@scope/name` [default: the name of the folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Arguments of `gdn package add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// What to add: `oci://host/name`, `git+https://…#tag`, a folder or an archive, or `@scope/name@^1.0` of the registry
    #[arg(value_name = "PACKAGE", required = true)]
    packages: Vec<String>,
    /// Want exactly the version that is there now
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    project: ProjectOption,
    /// The registry for packages without a source [env: GOONDAN_REGISTRY]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
}

/// Arguments of `gdn package remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The packages to remove
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    project: ProjectOption,
}

pub(super) fn init(args: &InitArgs, output: &Output) -> Result<(), CliError> {
    let root = match args.project.known(output)? {
        Some(project) => folder(&project),
        None => PathBuf::from("."),
    };
    let path = manifest_path(&root);
    let text = if path.exists() {
        read(&path)?
    } else {
        String::new()
    };
    if let Some(name) = package_name(&text) {
        if let Some(wanted) = args.name.as_ref().filter(|wanted| **wanted != name) {
            return Err(CliError::usage(format!(
                "The project is the package {name} already, and not `{wanted}`."
            ))
            .suggest(format!(
                "Change `metadata.name` of its Package in {}, if you mean that.",
                path.display()
            )));
        }
        return output.line(&format!("The project is a package already: {name}."));
    }
    let name = args.name.clone().unwrap_or_else(|| name_of(&root));
    if let Err(why) = check_name(&name, Kind::Package) {
        return Err(
            CliError::usage(format!("`{name}` is not the name of a package: {why}."))
                .suggest("Choose one such as `@acme/tools` with `--name`."),
        );
    }
    let name_in_yaml = serde_json::Value::from(name.as_str());
    let head = format!(
        "apiVersion: goondan.ai/v1\nkind: Package\nmetadata:\n  name: {name_in_yaml}\nspec:\n  version: \"0.1.0\"\n"
    );
    let rest = if text.trim().is_empty() || text.starts_with("---") {
        text
    } else {
        format!("---\n{text}")
    };
    fs::write(&path, head + &rest)?;
    output.line(&format!(
        "The project in {} is the package {name} now.",
        root.display()
    ))
}

pub(super) async fn add(
    args: &AddArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let path = manifest_path(&root);
    let before = read(&path)?;
    let manifest = goondan_packages::Manifest::read(&root).ok();
    state_root.prepare_or_warn();
    let (reach, cache) = (
        reach(Some(&root), manifest.as_ref(), args.registry.as_deref()),
        cache(state_root),
    );
    let mut text = before.clone();
    for package in &args.packages {
        let (name, version, source) = wanted(package, args.exact, &root, &reach, &cache).await?;
        let wanted = Wanted {
            name: &name,
            version: &version,
            source: source.as_deref(),
        };
        text =
            with_dependency(&text, &name_of(&root), wanted).ok_or_else(|| by_hand(&path, &name))?;
    }
    change(
        &root,
        &path,
        &before,
        &text,
        args.registry.as_deref(),
        state_root,
        output,
    )
    .await
}

pub(super) async fn remove(
    args: &RemoveArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let root = folder(&args.project.find(output)?);
    let path = manifest_path(&root);
    let before = read(&path)?;
    let manifest = goondan_packages::Manifest::read(&root).map_err(refused)?;
    let mut text = before.clone();
    for name in &args.names {
        if !manifest.dependencies.iter().any(|one| one.name == *name) {
            return Err(CliError::configuration(format!(
                "The project does not depend on `{name}` itself."
            ))
            .suggest("See what it depends on with `gdn package list`."));
        }
        text = without_dependency(&text, name).ok_or_else(|| by_hand(&path, name))?;
    }
    change(&root, &path, &before, &text, None, state_root, output).await
}

/// Writes the manifest and installs; where that fails, the manifest is as it was.
async fn change(
    root: &Path,
    path: &Path,
    before: &str,
    after: &str,
    registry: Option<&str>,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    fs::write(path, after)?;
    match install_in(root, registry, &Options::default(), state_root).await {
        Ok(outcome) => tell(&outcome, output),
        Err(error) => {
            fs::write(path, before)?;
            Err(error)
        }
    }
}

/// The name, the range and the source of what a person wants to add.
async fn wanted(
    package: &str,
    exact: bool,
    root: &Path,
    reach: &Reach,
    cache: &Cache,
) -> Result<(String, String, Option<String>), CliError> {
    let source = source_of(package, root)?;
    if let Some(source) = &source {
        let parsed = Source::parse(source, reach).map_err(refused)?;
        let found = look(&parsed, "", reach, cache).await.map_err(refused)?;
        // The tag of a version is one of many, and that version is meant; any other tag is a source of its own.
        let is_version = source.ends_with(&format!(":{}", found.version));
        let all = match &parsed {
            Source::Oci(reference) if is_version => {
                Some(format!("oci://{}", reference.without_tag()))
            }
            _ => None,
        };
        let exact = exact || all.is_some();
        return Ok((
            found.name,
            range(&found.version.to_string(), exact),
            all.or(Some(source.clone())),
        ));
    }
    let (name, stated) = match package.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&package[..at], Some(&package[at + 1..])),
        None => (package, None),
    };
    if let Err(why) = check_name(name, Kind::Package) {
        return Err(CliError::usage(format!(
            "`{package}` is neither a source nor the name of a package: {why}."
        ))
        .suggest("Write `oci://host/name`, a path such as `../tools`, or `@scope/name`."));
    }
    if let Some(stated) = stated {
        return Ok((name.to_owned(), stated.to_owned(), None));
    }
    let registry = Source::of_registry(reach).map_err(refused)?;
    let found = look(&registry, name, reach, cache).await.map_err(refused)?;
    Ok((
        name.to_owned(),
        range(&found.version.to_string(), exact),
        None,
    ))
}

/// The source that an argument names; none where it is the name of a package.
fn source_of(package: &str, root: &Path) -> Result<Option<String>, CliError> {
    if package.contains("://") {
        return Ok(Some(package.to_owned()));
    }
    let written = package.strip_prefix("file:");
    let path = Path::new(written.unwrap_or(package));
    let is_path = package.starts_with('.') || path.is_absolute() || package.ends_with(".tgz");
    if written.is_none() && !is_path {
        return Ok(None);
    }
    let (target, root) = (path.canonicalize(), root.canonicalize()?);
    let target = target.map_err(|error| {
        reading::unreadable(&format!("The package at `{}`", path.display()), &error)
    })?;
    Ok(Some(format!("file:{}", seen_from(&root, &target))))
}

/// `target` as a path that starts from `root`; both are without links.
fn seen_from(root: &Path, target: &Path) -> String {
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

fn range(version: &str, exact: bool) -> String {
    format!("{}{version}", if exact { "=" } else { "^" })
}

/// A name for the package in `root`, after its folder.
fn name_of(root: &Path) -> String {
    let folder = root
        .canonicalize()
        .ok()
        .and_then(|root| Some(root.file_name()?.to_string_lossy().to_lowercase()));
    let usual = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = folder
        .unwrap_or_default()
        .chars()
        .map(usual)
        .take(60)
        .collect();
    let name = name.trim_matches('-').to_owned();
    if check_name(&name, Kind::Package).is_ok() {
        name
    } else {
        "package".to_owned()
    }
}

fn manifest_path(root: &Path) -> PathBuf {
    goondan::manifest_in(root).unwrap_or_else(|| root.join("goondan.yaml"))
}

fn read(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|error| {
        CliError::configuration(format!(
            "{} cannot be read: {error}.",
            path.display(),
            error = reason(&error)
        ))
    })
}

fn by_hand(path: &Path, name: &str) -> CliError {
    let message = format!(
        "`spec.dependencies` in {} is written in a way that gdn does not change.",
        path.display()
    );
    CliError::new(Exit::Failure, Code::CONFIG_ERROR, message).suggest(format!(
        "Change the entry of `{name}` by hand, then run `gdn package install`."
    ))
}
