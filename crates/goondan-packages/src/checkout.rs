//! A published swarm that is run as it is: unpacked under the state root, in a folder of its content.

use std::fs;
use std::path::PathBuf;

use goondan_spec::contents::contents_without;
use goondan_spec::{Code, OsFiles};
use semver::Version;

use crate::cache::{Cache, open};
use crate::error::{PackageError, Result};
use crate::install::{Options, install};
use crate::manifest::Manifest;
use crate::sources::{Candidate, Reach, Source};

/// What a run adds to the folder of a package: what the package depends on.
const ADDED: &str = ".goondan";

/// A package that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The folder of the project. It has the same path as long as the package has the same content.
    pub folder: PathBuf,
    /// Where exactly it came from.
    pub resolved: String,
}

/// What a person finds at a source who names no version.
///
/// # Errors
/// It has none, or can't be reached.
pub async fn newest(source: &Source, name: &str, reach: &Reach) -> Result<Candidate> {
    let mut candidates = source.candidates(name, reach).await?;
    candidates.sort_by(|a, b| b.version.cmp(&a.version));
    // Nobody means one that is still tried out without saying so.
    let stable = candidates.iter().position(|one| {
        one.version
            .as_ref()
            .is_none_or(|version| version.pre.is_empty())
    });
    match candidates.is_empty() {
        false => Ok(candidates.swap_remove(stable.unwrap_or(0))),
        true => Err(
            PackageError::source(format!("{source} has no version of a package."))
                .suggest("check the address; publish one with `gdn package publish`"),
        ),
    }
}

/// What a source has, as far as a person wants to know who adds it to a project.
#[derive(Debug, Clone)]
pub struct Found {
    /// The name that the package gives itself.
    pub name: String,
    /// Its version.
    pub version: Version,
}

/// Looks at the newest package of a source.
///
/// # Errors
/// It can't be had, or does not say its version.
pub async fn look(source: &Source, name: &str, reach: &Reach, cache: &Cache) -> Result<Found> {
    let fetched = newest(source, name, reach).await?.fetch(reach).await?;
    let opened = open(&fetched.archive, &cache.work())?;
    cache.put(&opened.contents, &fetched.archive)?;
    let Manifest { name, version, .. } = opened.manifest.clone();
    let version = version.ok_or_else(|| {
        PackageError::source(format!(
            "The package `{name}` from {source} has no `spec.version`."
        ))
        .suggest("add one to its Package document")
    })?;
    Ok(Found { name, version })
}

/// Fetches the package at `source`, the newest version where none is named, with what it depends on.
///
/// # Errors
/// It can't be had, or was changed after it was unpacked.
pub async fn checkout(source: &str, reach: &Reach, cache: &Cache) -> Result<Checkout> {
    let source = Source::parse(source, reach)?;
    let fetched = newest(&source, "", reach).await?.fetch(reach).await?;
    let opened = open(&fetched.archive, &cache.work())?;
    let folder = cache
        .runs()
        .join(&opened.manifest.name)
        .join(&opened.contents);
    match folder.is_dir() {
        true => {
            let there = contents_without(&OsFiles, &folder, &[ADDED]);
            if there.ok().as_ref() != Some(&opened.contents) {
                let message = format!(
                    "The files of {source} in {} were changed.",
                    folder.display()
                );
                return Err(PackageError::new(Code::PACKAGE_INTEGRITY, message).suggest(
                    "keep what you need of it and remove the folder: then it is fetched anew",
                ));
            }
        }
        false => {
            let parent = folder.parent().unwrap_or(&folder);
            fs::create_dir_all(parent)
                .map_err(|error| PackageError::io("created", parent, &error))?;
            // Who comes second finds the same content.
            if let Err(error) = fs::rename(opened.path(), &folder)
                && !folder.is_dir()
            {
                return Err(PackageError::io("written", &folder, &error));
            }
        }
    }
    if !opened.manifest.dependencies.is_empty() {
        // It came from elsewhere, so it names nothing of this machine.
        let foreign = Reach {
            folder: None,
            ..reach.clone()
        };
        install(
            &folder,
            &foreign,
            cache,
            &Options {
                frozen: true,
                ..Options::default()
            },
        )
        .await?;
    }
    Ok(Checkout {
        folder,
        resolved: fetched.resolved,
    })
}
