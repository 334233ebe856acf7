//! Packages on this machine: a directory or an archive.

use std::path::Path;

use super::FetchedArchive;
use crate::archive::{MAX_ARCHIVE_BYTES, pack};
use crate::error::{PackageError, Result};

/// Packs the directory at `path`, or reads the archive there. The lock file gets the path relative
/// to `from`.
pub(super) async fn fetch(path: &Path, from: &Path) -> Result<FetchedArchive> {
    let (path, from) = (path.to_owned(), from.to_owned());
    let work = tokio::task::spawn_blocking(move || read(&path, &from));
    work.await
        .map_err(|panic| PackageError::source(panic.to_string()))?
}

/// Packs a local directory or reads a local archive. `from` is the directory of the manifest.
fn read(path: &Path, from: &Path) -> Result<FetchedArchive> {
    let metadata = path.metadata().map_err(|error| {
        PackageError::source(format!(
            "There is no package at {}: {error}.",
            path.display()
        ))
        .suggest("check the path; it is relative to the directory of goondan.yaml")
    })?;
    let seen = path
        .strip_prefix(from)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/");
    let resolved = format!("file:{seen}");
    if metadata.is_dir() {
        return Ok(FetchedArchive {
            archive: pack(path)?.archive,
            resolved,
            is_archive: false,
        });
    }
    if metadata.len() > MAX_ARCHIVE_BYTES as u64 {
        let message = format!(
            "{} is larger than {} MiB.",
            path.display(),
            MAX_ARCHIVE_BYTES / 1024 / 1024
        );
        return Err(PackageError::archive(message));
    }
    let archive = std::fs::read(path).map_err(|error| PackageError::io("read", path, &error))?;
    Ok(FetchedArchive {
        archive,
        resolved,
        is_archive: true,
    })
}
