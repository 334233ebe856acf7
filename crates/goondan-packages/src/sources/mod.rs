//! Where packages come from. Each source says which versions it has, and hands out the archive of one.

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

/// The registry of Goondan, where nobody names another one.
pub const DEFAULT_REGISTRY: &str = "https://goondan-registry.yechanny.workers.dev";

/// A source, as a Package document or a command names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A repository of an OCI registry.
    Oci(oci::Reference),
    /// A folder or an archive.
    File(PathBuf),
    /// A git repository.
    Git(git::Reference),
    /// A registry of Goondan.
    Registry(Url),
}

/// One version that a source has.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// None where only the package itself says.
    pub version: Option<Version>,
    pin: Pin,
}

/// What exactly is fetched.
#[derive(Debug, Clone)]
pub enum Pin {
    /// A manifest by its tag or digest.
    Oci(oci::Reference),
    /// A folder or an archive.
    File(PathBuf),
    /// A commit.
    Git(git::Reference),
    /// The archive of a registry, with what it states of it.
    Archive(Url, Option<String>),
}

/// What was fetched.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The `.tgz`.
    pub archive: Vec<u8>,
    /// Where exactly it came from, for the lock file.
    pub resolved: String,
    /// Whether the source itself has an archive: then its bytes stay the same.
    pub is_archive: bool,
}

/// What is needed to reach sources.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The folder that the paths of `file:` start from; none where a package came from elsewhere, which may name no file of
    /// this machine.
    pub folder: Option<PathBuf>,
    /// Who asks.
    pub credentials: Credentials,
    /// The registry for packages without a source.
    pub registry: String,
}

impl Source {
    /// Reads a source. Paths start from `reach.folder`.
    ///
    /// # Errors
    /// It has no form that we know, or may not be named there.
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

    /// The registry for packages without a source.
    ///
    /// # Errors
    /// Its address is wrong.
    pub fn of_registry(reach: &Reach) -> Result<Source> {
        http::parse(&reach.registry).map(Source::Registry)
    }

    /// Whether what it names is different on another machine.
    fn is_of_this_machine(&self) -> bool {
        match self {
            Source::File(_) => true,
            Source::Oci(reference) => reference.is_local(),
            Source::Git(reference) => reference.is_local(),
            Source::Registry(url) => http::is_local(url),
        }
    }

    /// The versions of the package called `name`.
    ///
    /// # Errors
    /// It can't be reached, or does not have the package.
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
    /// Fetches it.
    ///
    /// # Errors
    /// It can't be had, or is no package.
    pub async fn fetch(&self, reach: &Reach) -> Result<Fetched> {
        self.pin.fetch(reach).await
    }
}

impl Pin {
    /// Reads what a lock file says, where paths start from `reach.folder`.
    ///
    /// # Errors
    /// It has no form that we write.
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

    /// Fetches it.
    ///
    /// # Errors
    /// It can't be had, or is no package.
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
