//! Package sources, credentials and errors, as commands use them.

use std::path::Path;

use goondan::StateRoot;
use goondan::spec::Code;
use goondan_packages::sources::DEFAULT_REGISTRY;
use goondan_packages::{
    FetchSettings, PackageCache, PackageCheckout, PackageError, PackageManifest,
    RegistryCredentials, checkout,
};

use crate::exit::{CliError, CommandExit};
use crate::output::CommandOutput;

/// URL prefixes of published swarms in project arguments.
const PUBLISHED_URL_PREFIXES: [&str; 4] = ["oci://", "git+https://", "git+ssh://", "git+file://"];
/// Variable with the registry for packages without a source.
const REGISTRY_VARIABLE: &str = "GOONDAN_REGISTRY";

/// Returns the URL of a published swarm, or `None` if `project` is a path.
pub(crate) fn published_url(project: &Path) -> Option<&str> {
    let text = project.to_str()?;
    PUBLISHED_URL_PREFIXES
        .iter()
        .any(|scheme| text.starts_with(scheme))
        .then_some(text)
}

/// Downloads the package at `address`, or takes it from the cache, and prints its source.
pub(crate) async fn fetch(
    address: &str,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<PackageCheckout, CliError> {
    state_root.prepare_or_warn();
    let current_dir = std::env::current_dir()?;
    let checked_out = checkout(
        address,
        &access_settings(Some(&current_dir), None, None),
        &cache(state_root),
    )
    .await
    .map_err(package_error)?;
    output.note(&format!(
        "Running {} from {}.",
        checked_out.resolved,
        checked_out.folder.display()
    ))?;
    Ok(checked_out)
}

/// Returns the package cache of the state root.
pub(crate) fn cache(state_root: &StateRoot) -> PackageCache {
    PackageCache::of(&state_root.0)
}

/// Returns the access settings for package sources. `stated_registry` is a registry from the
/// command line.
pub(crate) fn access_settings(
    root: Option<&Path>,
    manifest: Option<&PackageManifest>,
    stated_registry: Option<&str>,
) -> FetchSettings {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let project_registry = manifest.and_then(|manifest| manifest.registry.clone());
    let registry = stated_registry
        .map(str::to_owned)
        .or_else(|| variable(REGISTRY_VARIABLE))
        .or(project_registry);
    FetchSettings {
        folder: root.map(Path::to_owned),
        credentials: RegistryCredentials::find(&variable),
        registry: registry.unwrap_or_else(|| DEFAULT_REGISTRY.to_owned()),
    }
}

/// Converts a package error into a command error.
pub(crate) fn package_error(error: PackageError) -> CliError {
    let exit = match error.code {
        Code::PACKAGE_AUTH => CommandExit::Authentication,
        Code::PACKAGE_SOURCE => CommandExit::Network,
        Code::CONFIG_ERROR | Code::PACKAGE_LOCK_OUTDATED => CommandExit::Configuration,
        Code::SCHEMA_INVALID | Code::CYCLE | Code::PACKAGE_VERSION_CONFLICT => {
            CommandExit::Validation
        }
        _ => CommandExit::Failure,
    };
    let base_error = CliError::new(exit, error.code, error.message);
    match error.suggestion {
        Some(suggestion) => base_error.suggest(sentence(&suggestion)),
        None => base_error,
    }
}

/// Formats a suggestion as a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}
