//! The cache of fetched archives below the state root, by the hash of their contents. Cached
//! archives are validated like newly fetched ones.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use goondan_spec::content_hash::contents;
use goondan_spec::{Code, OsFiles};
use tempfile::TempDir;

use crate::archive::unpack;
use crate::error::{PackageError, Result};
use crate::integrity;
use crate::manifest::PackageManifest;

const CACHE_DIR: &str = "packages";

/// The cache below a state root.
#[derive(Debug, Clone)]
pub struct PackageCache {
    folder: PathBuf,
}

/// An unpacked package. Dropping it deletes the files.
#[derive(Debug)]
pub struct UnpackedPackage {
    folder: TempDir,
    pub manifest: PackageManifest,
    /// Hash of the files, in the form `sha256-…`.
    pub contents: String,
}

impl UnpackedPackage {
    /// Returns the directory of the files.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("files")
    }
}

/// Unpacks `archive` into a new directory below `directory`, and reads the manifest.
///
/// # Errors
///
/// Fails if the archive is refused, or contains no package.
pub fn open(archive: &[u8], directory: &Path) -> Result<UnpackedPackage> {
    fs::create_dir_all(directory)
        .map_err(|error| PackageError::io("created", directory, &error))?;
    let folder = tempfile::Builder::new()
        .prefix(".new-")
        .tempdir_in(directory)
        .map_err(|error| PackageError::io("written", directory, &error))?;
    let files = folder.path().join("files");
    fs::create_dir(&files).map_err(|error| PackageError::io("created", &files, &error))?;
    unpack(archive, &files)?;
    let manifest = PackageManifest::read(&files).map_err(|error| {
        // Remove the temporary path from the message.
        let reason = error.message.replace(
            &format!("{}{}", files.display(), std::path::MAIN_SEPARATOR),
            "",
        );
        let reason = reason.replace(&files.display().to_string(), "it");
        PackageError::archive(format!("This is not a package: {reason}")).suggest(
            "a package has a `goondan.yaml` that begins with a Package document; `gdn \
                package init` adds one",
        )
    })?;
    let contents = contents(&OsFiles, &files).map_err(|error| {
        PackageError::archive(format!("The archive cannot be installed: {error}."))
    })?;
    Ok(UnpackedPackage {
        folder,
        manifest,
        contents,
    })
}

impl PackageCache {
    /// Returns the cache below `state_root`.
    pub fn of(state_root: &Path) -> Self {
        PackageCache {
            folder: state_root.join(CACHE_DIR),
        }
    }

    /// Returns the directory in which packages are unpacked temporarily.
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Returns the directory of packages that run without a project.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Returns the path of the archive with these contents.
    pub fn path(&self, contents: &str) -> PathBuf {
        let name: String = contents
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        self.folder.join("archives").join(format!("{name}.tgz"))
    }

    /// Stores an archive. Other processes may do so concurrently.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn put(&self, contents: &str, archive: &[u8]) -> Result<()> {
        let path = self.path(contents);
        let folder = path.parent().unwrap_or(&self.folder);
        let write = || {
            fs::create_dir_all(folder)?;
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            draft.write_all(archive)?;
            draft.as_file().sync_all()?;
            draft.persist(&path).map(drop).map_err(|error| error.error)
        };
        write().map_err(|error| PackageError::io("written", &path, &error))
    }

    /// Unpacks the archive with these contents; `None` if it is not cached. A modified archive is
    /// deleted.
    ///
    /// # Errors
    ///
    /// Fails if the archive was modified.
    pub fn open(
        &self,
        contents: &str,
        stated: Option<&str>,
        whose: &str,
    ) -> Result<Option<(Vec<u8>, UnpackedPackage)>> {
        let path = self.path(contents);
        let Ok(archive) = fs::read(&path) else {
            return Ok(None);
        };
        let check = || {
            stated.map_or(Ok(()), |stated| {
                integrity::check_archive(&archive, stated, whose)
            })?;
            let opened = open(&archive, &self.work())?;
            if opened.contents == contents {
                Ok(opened)
            } else {
                Err(PackageError::archive(
                    "its unpacked files differ from the lock file",
                ))
            }
        };
        match check() {
            Ok(opened) => Ok(Some((archive, opened))),
            Err(error) => {
                // If the file cannot be deleted, the next call detects it again.
                let _ = fs::remove_file(&path);
                let message = format!(
                    "The cached archive of {whose} was modified, so gdn removed it: {}",
                    error.message
                );
                Err(PackageError::new(Code::PACKAGE_INTEGRITY, message)
                    .suggest("run `gdn package install` again to fetch the package again"))
            }
        }
    }
}
