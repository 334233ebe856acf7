//! Published swarms that run without a project: they are unpacked below the state root, in a
//! directory named by their contents.

use std::fs;
use std::path::PathBuf;

use goondan_spec::content_hash::contents_without;
use goondan_spec::{Code, OsFiles};
use semver::Version;

use crate::cache::{PackageCache, open};
use crate::error::{PackageError, Result};
use crate::install::{InstallOptions, install};
use crate::manifest::PackageManifest;
use crate::sources::{CandidateVersion, FetchSettings, PackageSource};

/// Directory that a run adds to the package: its dependencies.
const DEPENDENCIES_DIR: &str = ".goondan";

/// A package that can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageCheckout {
    /// Directory of the project. Its path is stable for equal contents.
    pub folder: PathBuf,
    /// Exact source of the package.
    pub resolved: String,
}

/// Returns the default version of a source.
///
/// # Errors
///
/// Fails if the source is unreachable or has no version.
pub async fn newest(
    source: &PackageSource,
    name: &str,
    settings: &FetchSettings,
) -> Result<CandidateVersion> {
    let mut candidates = source.candidates(name, settings).await?;
    candidates.sort_by(|a, b| b.version.cmp(&a.version));
    // Prefer the newest stable version: prereleases must be requested explicitly.
    let stable = candidates.iter().position(|candidate| {
        candidate
            .version
            .as_ref()
            .is_none_or(|version| version.pre.is_empty())
    });
    if candidates.is_empty() {
        Err(
            PackageError::source(format!("{source} has no package versions."))
                .suggest("check the URL, or publish a package with `gdn package publish`"),
        )
    } else {
        Ok(candidates.swap_remove(stable.unwrap_or(0)))
    }
}

/// The properties of a package that is added to a project.
#[derive(Debug, Clone)]
pub struct InspectedPackage {
    /// The package's own name.
    pub name: String,
    pub version: Version,
}

/// Reads the newest package of a source.
///
/// # Errors
///
/// Fails if the package cannot be fetched, or has no version.
pub async fn inspect_newest(
    source: &PackageSource,
    name: &str,
    settings: &FetchSettings,
    cache: &PackageCache,
) -> Result<InspectedPackage> {
    let fetched = newest(source, name, settings)
        .await?
        .fetch(settings)
        .await?;
    let opened = open(&fetched.archive, &cache.work())?;
    cache.put(&opened.contents, &fetched.archive)?;
    let PackageManifest { name, version, .. } = opened.manifest.clone();
    let version = version.ok_or_else(|| {
        PackageError::source(format!(
            "The package `{name}` from {source} has no `spec.version`."
        ))
        .suggest("add `spec.version` to its Package document")
    })?;
    Ok(InspectedPackage { name, version })
}

/// Fetches the package at `source` with its dependencies. The default version is the newest one.
///
/// # Errors
///
/// Fails if a package cannot be fetched, or was modified after unpacking.
pub async fn checkout(
    source: &str,
    settings: &FetchSettings,
    cache: &PackageCache,
) -> Result<PackageCheckout> {
    let source = PackageSource::parse(source, settings)?;
    let fetched = newest(&source, "", settings).await?.fetch(settings).await?;
    let opened = open(&fetched.archive, &cache.work())?;
    let folder = cache
        .runs()
        .join(&opened.manifest.name)
        .join(&opened.contents);
    if folder.is_dir() {
        let existing_hash = contents_without(&OsFiles, &folder, &[DEPENDENCIES_DIR]);
        if existing_hash.ok().as_ref() != Some(&opened.contents) {
            let message = format!(
                "The files of {source} in {} were modified.",
                folder.display()
            );
            return Err(PackageError::new(Code::PACKAGE_INTEGRITY, message).suggest(
                "save your changes and remove the directory; the next run fetches the \
                    package again",
            ));
        }
    } else {
        let parent = folder.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(|error| PackageError::io("created", parent, &error))?;
        // A concurrent process has created the same contents.
        if let Err(error) = fs::rename(opened.path(), &folder)
            && !folder.is_dir()
        {
            return Err(PackageError::io("written", &folder, &error));
        }
    }
    if !opened.manifest.dependencies.is_empty() {
        // The package is foreign, so it must not refer to local files.
        let foreign = FetchSettings {
            folder: None,
            ..settings.clone()
        };
        install(
            &folder,
            &foreign,
            cache,
            &InstallOptions {
                frozen: true,
                ..InstallOptions::default()
            },
        )
        .await?;
    }
    Ok(PackageCheckout {
        folder,
        resolved: fetched.resolved,
    })
}
