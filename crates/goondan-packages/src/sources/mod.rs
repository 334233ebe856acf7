//! Sources of packages. Each source lists its versions and returns their archives.

pub mod git;
pub mod local;
pub mod oci;
pub mod registry;

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;
use url::Url;

use crate::credentials::Credentials;
use crate::error::{PackageError, Result};
use crate::http;

/// The default registry.
pub const DEFAULT_REGISTRY: &str = "https://goondan-registry.yechanny.workers.dev";

/// A source in a Package document or on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Oci(oci::Reference),
    /// A directory or an archive.
    File(PathBuf),
    Git(git::Reference),
    /// A Goondan registry.
    Registry(Url),
}

/// One version of a source.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// `None` if only the package itself states it.
    pub version: Option<Version>,
    pin: Pin,
}

/// The exact location of an archive.
#[derive(Debug, Clone)]
pub enum Pin {
    Oci(oci::Reference),
    /// A directory or an archive.
    File(PathBuf),
    /// A commit.
    Git(git::Reference),
    /// The URL of an archive, with the stated hash.
    Archive(Url, Option<String>),
}

/// A fetched package.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The `.tgz` file.
    pub archive: Vec<u8>,
    /// The exact location for the lock file.
    pub resolved: String,
    /// True if the source stores an archive, so that its bytes are stable.
    pub is_archive: bool,
}

/// The settings for fetching packages.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The base directory of `file:` paths. `None` for dependencies of fetched packages, which must
    /// not refer to local files.
    pub folder: Option<PathBuf>,
    pub credentials: Credentials,
    /// URL of the default registry.
    pub registry: String,
}

impl Source {
    /// Parses a source. Paths are relative to `reach.folder`.
    ///
    /// # Errors
    ///
    /// Fails if the form is unknown, or the source is not permitted.
    pub fn parse(text: &str, reach: &Reach) -> Result<Source> {
        let source = if let Some(rest) = text.strip_prefix("oci://") {
            Source::Oci(oci::Reference::parse(rest)?)
        } else if let Some(path) = text.strip_prefix("file:") {
            let from = reach.folder.as_deref().ok_or_else(|| foreign(text))?;
            Source::File(from.join(path.strip_prefix("//").unwrap_or(path)))
        } else if text.starts_with("git+") {
            Source::Git(git::Reference::parse(text)?)
        } else if let Some(address) = text.strip_prefix("registry+") {
            Source::Registry(http::parse(address)?)
        } else {
            return Err(PackageError::source(format!("`{text}` does not say where a package is."))
                .suggest("write `oci://host/name`, `file:../folder` or `git+https://host/repository#tag`"));
        };
        match reach.folder.is_none() && source.is_of_this_machine() {
            true => Err(foreign(text)),
            false => Ok(source),
        }
    }

    /// Returns the default registry.
    ///
    /// # Errors
    ///
    /// Fails if its URL is invalid.
    pub fn of_registry(reach: &Reach) -> Result<Source> {
        http::parse(&reach.registry).map(Source::Registry)
    }

    /// Returns true if the source depends on the machine.
    fn is_of_this_machine(&self) -> bool {
        match self {
            Source::File(_) => true,
            Source::Oci(reference) => reference.is_local(),
            Source::Git(reference) => reference.is_local(),
            Source::Registry(url) => http::is_local(url),
        }
    }

    /// Returns the versions of the package `name`.
    ///
    /// # Errors
    ///
    /// Fails if the source is unreachable, or lacks the package.
    pub async fn candidates(&self, name: &str, reach: &Reach) -> Result<Vec<Candidate>> {
        match self {
            Source::Oci(reference) => oci::candidates(reference, &reach.credentials).await,
            Source::File(path) => Ok(vec![Candidate {
                version: None,
                pin: Pin::File(path.clone()),
            }]),
            Source::Git(reference) => git::candidates(reference).await,
            Source::Registry(url) => registry::candidates(url, name, &reach.credentials).await,
        }
    }
}

impl Candidate {
    /// Fetches the package.
    ///
    /// # Errors
    ///
    /// Fails if the package cannot be fetched, or is invalid.
    pub async fn fetch(&self, reach: &Reach) -> Result<Fetched> {
        self.pin.fetch(reach).await
    }
}

impl Pin {
    /// Parses a location in a lock file. Paths are relative to `reach.folder`.
    ///
    /// # Errors
    ///
    /// Fails if the form is unknown.
    pub fn parse(resolved: &str, reach: &Reach) -> Result<Pin> {
        if resolved.starts_with("https://") || resolved.starts_with("http://") {
            let url = http::parse(resolved)?;
            return match reach.folder.is_none() && http::is_local(&url) {
                true => Err(foreign(resolved)),
                false => Ok(Pin::Archive(url, None)),
            };
        }
        match Source::parse(resolved, reach)? {
            Source::Oci(reference) => Ok(Pin::Oci(reference)),
            Source::File(path) => Ok(Pin::File(path)),
            Source::Git(reference) => Ok(Pin::Git(reference)),
            Source::Registry(_) => {
                Err(PackageError::source(format!("`{resolved}` is no archive.")))
            }
        }
    }

    /// Fetches the package.
    ///
    /// # Errors
    ///
    /// Fails if the package cannot be fetched, or is invalid.
    pub async fn fetch(&self, reach: &Reach) -> Result<Fetched> {
        match self {
            Pin::Oci(reference) => oci::fetch(reference, &reach.credentials).await,
            Pin::File(path) => {
                local::fetch(path, reach.folder.as_deref().unwrap_or(Path::new("."))).await
            }
            Pin::Git(reference) => git::fetch(reference).await,
            Pin::Archive(url, integrity) => registry::fetch(url, integrity.as_deref(), reach).await,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Oci(reference) => write!(f, "oci://{reference}"),
            Source::File(path) => write!(f, "file:{}", path.display()),
            Source::Git(reference) => reference.fmt(f),
            Source::Registry(url) => write!(f, "registry+{}", url.as_str().trim_end_matches('/')),
        }
    }
}

fn foreign(text: &str) -> PackageError {
    PackageError::source(format!(
        "A package from elsewhere names `{text}`, which is something of this machine."
    ))
    .suggest("only your own project may name such a source: add the dependency there")
}
