//! What commands need to work with packages: where they come from, who asks, and how errors look.

use std::path::Path;

use goondan::StateRoot;
use goondan::spec::Code;
use goondan_packages::sources::DEFAULT_REGISTRY;
use goondan_packages::{Cache, Checkout, Credentials, Manifest, PackageError, Reach, checkout};

use crate::exit::{CliError, Exit};
use crate::output::Output;

/// How the address of a published swarm begins, where a project is named.
const PUBLISHED: [&str; 4] = ["oci://", "git+https://", "git+ssh://", "git+file://"];
/// The registry for packages without a source.
const REGISTRY: &str = "GOONDAN_REGISTRY";

/// The address of a published swarm, where `project` is one and no folder.
pub(crate) fn published(project: &Path) -> Option<&str> {
    let text = project.to_str()?;
    PUBLISHED
        .iter()
        .any(|scheme| text.starts_with(scheme))
        .then_some(text)
}

/// Fetches a published swarm.
pub(crate) async fn fetch(
    address: &str,
    state_root: &StateRoot,
    output: &Output,
) -> Result<Checkout, CliError> {
    state_root.prepare_or_warn();
    let here = std::env::current_dir()?;
    let found = checkout(address, &reach(Some(&here), None, None), &cache(state_root))
        .await
        .map_err(refused)?;
    output.note(&format!(
        "Running {} from {}.",
        found.resolved,
        found.folder.display()
    ))?;
    Ok(found)
}

/// The cache of packages.
pub(crate) fn cache(state_root: &StateRoot) -> Cache {
    Cache::of(&state_root.0)
}

/// How sources are reached from the project in `root`; `stated` is a registry on the command line.
pub(crate) fn reach(
    root: Option<&Path>,
    manifest: Option<&Manifest>,
    stated: Option<&str>,
) -> Reach {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let of_project = manifest.and_then(|manifest| manifest.registry.clone());
    let registry = stated
        .map(str::to_owned)
        .or_else(|| variable(REGISTRY))
        .or(of_project);
    Reach {
        folder: root.map(Path::to_owned),
        credentials: Credentials::find(&variable),
        registry: registry.unwrap_or_else(|| DEFAULT_REGISTRY.to_owned()),
    }
}

/// The error of a command.
pub(crate) fn refused(error: PackageError) -> CliError {
    let exit = match error.code {
        Code::PACKAGE_AUTH => Exit::Authentication,
        Code::PACKAGE_SOURCE => Exit::Network,
        Code::CONFIG_ERROR | Code::PACKAGE_LOCK_OUTDATED => Exit::Configuration,
        Code::SCHEMA_INVALID | Code::CYCLE | Code::PACKAGE_VERSION_CONFLICT => Exit::Validation,
        _ => Exit::Failure,
    };
    let refused = CliError::new(exit, error.code, error.message);
    match error.suggestion {
        Some(suggestion) => refused.suggest(sentence(&suggestion)),
        None => refused,
    }
}

/// What to do, as a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}
