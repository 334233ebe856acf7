//! Packages on this machine: a directory or an archive.

use std::path::Path;

use goondan_spec::regular_file;

use super::FetchedArchive;
use crate::archive::{MAX_ARCHIVE_BYTES, pack};
use crate::error::{PackageError, Result};

/// Packs the package directory at `path`, or reads the archive there. The location for the lock
/// file (`resolved`) is relative to `manifest_dir`, the directory of the manifest.
pub(super) async fn fetch(path: &Path, manifest_dir: &Path) -> Result<FetchedArchive> {
    let (path, manifest_dir) = (path.to_owned(), manifest_dir.to_owned());
    let work = tokio::task::spawn_blocking(move || fetch_blocking(&path, &manifest_dir));
    work.await
        .map_err(|panic| PackageError::source(panic.to_string()))?
}

/// Fetches a package like [`fetch`], on the current thread.
fn fetch_blocking(path: &Path, manifest_dir: &Path) -> Result<FetchedArchive> {
    let metadata = path.metadata().map_err(|error| {
        PackageError::source(format!(
            "There is no package at {}: {error}.",
            path.display()
        ))
        .suggest("check the path; it is relative to the directory of goondan.yaml")
    })?;
    let relative_path = path
        .strip_prefix(manifest_dir)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/");
    let resolved = format!("file:{relative_path}");
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
    let archive = regular_file::read(path, MAX_ARCHIVE_BYTES as u64)
        .map_err(|error| PackageError::io("read", path, &error))?;
    Ok(FetchedArchive {
        archive,
        resolved,
        is_archive: true,
    })
}
