//! Sources of packages. Each source lists its versions and returns their archives.

pub mod git;
pub mod local;
pub mod oci;
pub mod registry;

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;
use url::Url;

use crate::credentials::RegistryCredentials;
use crate::error::{PackageError, Result};
use crate::http;

/// The default registry.
pub const DEFAULT_REGISTRY: &str = "https://goondan-registry.yechanny.workers.dev";

/// A source in a Package document or on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageSource {
    Oci(oci::OciReference),
    /// A directory or an archive.
    File(PathBuf),
    Git(git::GitReference),
    /// A Goondan registry.
    Registry(Url),
}

/// One version of a source.
#[derive(Debug, Clone)]
pub struct CandidateVersion {
    /// `None` if only the package itself states it.
    pub version: Option<Version>,
    pin: ExactLocation,
}

/// The exact location of an archive.
#[derive(Debug, Clone)]
pub enum ExactLocation {
    Oci(oci::OciReference),
    /// A directory or an archive.
    File(PathBuf),
    /// A commit.
    Git(git::GitReference),
    /// The URL of an archive, with the stated hash.
    Archive(Url, Option<String>),
}

/// A fetched package.
#[derive(Debug, Clone)]
pub struct FetchedArchive {
    /// The `.tgz` file.
    pub archive: Vec<u8>,
    /// The exact location for the lock file.
    pub resolved: String,
    /// True if the source stores an archive, so that its bytes are stable.
    pub is_archive: bool,
}

/// The settings for fetching packages.
#[derive(Debug, Clone)]
pub struct FetchSettings {
    /// The base directory of `file:` paths. `None` for dependencies of fetched packages, which must
    /// not refer to local files.
    pub folder: Option<PathBuf>,
    pub credentials: RegistryCredentials,
    /// URL of the default registry.
    pub registry: String,
}

impl PackageSource {
    /// Parses a source. Paths are relative to `settings.folder`.
    ///
    /// # Errors
    ///
    /// Fails if the form is unknown, or the source is not permitted.
    pub fn parse(text: &str, settings: &FetchSettings) -> Result<PackageSource> {
        let source = if let Some(rest) = text.strip_prefix("oci://") {
            PackageSource::Oci(oci::OciReference::parse(rest)?)
        } else if let Some(path) = text.strip_prefix("file:") {
            let from = settings
                .folder
                .as_deref()
                .ok_or_else(|| local_source_error(text))?;
            PackageSource::File(from.join(path.strip_prefix("//").unwrap_or(path)))
        } else if text.starts_with("git+") {
            PackageSource::Git(git::GitReference::parse(text)?)
        } else if let Some(address) = text.strip_prefix("registry+") {
            PackageSource::Registry(http::parse(address)?)
        } else {
            return Err(
                PackageError::source(format!("`{text}` is not a package source.")).suggest(
                    "write `oci://host/name`, `file:../folder` or \
                    `git+https://host/repository#tag`",
                ),
            );
        };
        if settings.folder.is_none() && source.is_internal() {
            Err(local_source_error(text))
        } else {
            Ok(source)
        }
    }

    /// Returns the default registry.
    ///
    /// # Errors
    ///
    /// Fails if its URL is invalid.
    pub fn of_registry(settings: &FetchSettings) -> Result<PackageSource> {
        http::parse(&settings.registry).map(PackageSource::Registry)
    }

    /// Returns true if the source depends on the machine or its network.
    fn is_internal(&self) -> bool {
        match self {
            PackageSource::File(_) => true,
            PackageSource::Oci(reference) => reference.is_internal(),
            PackageSource::Git(reference) => reference.is_internal(),
            PackageSource::Registry(url) => http::is_internal(url),
        }
    }

    /// Returns the versions of the package `name`.
    ///
    /// # Errors
    ///
    /// Fails if the source is unreachable, or lacks the package.
    pub async fn candidates(
        &self,
        name: &str,
        settings: &FetchSettings,
    ) -> Result<Vec<CandidateVersion>> {
        match self {
            PackageSource::Oci(reference) => {
                oci::candidates(reference, &settings.credentials).await
            }
            PackageSource::File(path) => Ok(vec![CandidateVersion {
                version: None,
                pin: ExactLocation::File(path.clone()),
            }]),
            PackageSource::Git(reference) => git::candidates(reference).await,
            PackageSource::Registry(url) => {
                registry::candidates(url, name, &settings.credentials).await
            }
        }
    }
}

impl CandidateVersion {
    /// Fetches the package.
    ///
    /// # Errors
    ///
    /// Fails if the package cannot be fetched, or is invalid.
    pub async fn fetch(&self, settings: &FetchSettings) -> Result<FetchedArchive> {
        self.pin.fetch(settings).await
    }
}

impl ExactLocation {
    /// Parses a location in a lock file. Paths are relative to `settings.folder`.
    ///
    /// # Errors
    ///
    /// Fails if the form is unknown.
    pub fn parse(resolved: &str, settings: &FetchSettings) -> Result<ExactLocation> {
        if resolved.starts_with("https://") || resolved.starts_with("http://") {
            let url = http::parse(resolved)?;
            return if settings.folder.is_none() && http::is_internal(&url) {
                Err(local_source_error(resolved))
            } else {
                Ok(ExactLocation::Archive(url, None))
            };
        }
        match PackageSource::parse(resolved, settings)? {
            PackageSource::Oci(reference) => Ok(ExactLocation::Oci(reference)),
            PackageSource::File(path) => Ok(ExactLocation::File(path)),
            PackageSource::Git(reference) => Ok(ExactLocation::Git(reference)),
            PackageSource::Registry(_) => Err(PackageError::source(format!(
                "`{resolved}` is not the URL of an archive."
            ))),
        }
    }

    /// Fetches the package.
    ///
    /// # Errors
    ///
    /// Fails if the package cannot be fetched, or is invalid.
    pub async fn fetch(&self, settings: &FetchSettings) -> Result<FetchedArchive> {
        match self {
            ExactLocation::Oci(reference) => oci::fetch(reference, &settings.credentials).await,
            ExactLocation::File(path) => {
                local::fetch(path, settings.folder.as_deref().unwrap_or(Path::new("."))).await
            }
            ExactLocation::Git(reference) => git::fetch(reference).await,
            ExactLocation::Archive(url, integrity) => {
                registry::fetch(url, integrity.as_deref(), settings).await
            }
        }
    }
}

impl fmt::Display for PackageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackageSource::Oci(reference) => write!(f, "oci://{reference}"),
            PackageSource::File(path) => write!(f, "file:{}", path.display()),
            PackageSource::Git(reference) => reference.fmt(f),
            PackageSource::Registry(url) => {
                write!(f, "registry+{}", url.as_str().trim_end_matches('/'))
            }
        }
    }
}

/// Creates the error for a downloaded package that depends on a local directory.
fn local_source_error(text: &str) -> PackageError {
    PackageError::source(format!(
        "A downloaded package depends on `{text}`, which is a source on this machine or \
         in its network."
    ))
    .suggest("only your own project may use local sources: add the dependency to your project")
}
