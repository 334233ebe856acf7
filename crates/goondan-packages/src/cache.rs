//! The archives that were fetched, under the state root, by what they unpack to. A cache: whoever takes something from it
//! looks at it as at anything else that comes from outside.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use goondan_spec::contents::contents;
use goondan_spec::{Code, OsFiles};
use tempfile::TempDir;

use crate::archive::unpack;
use crate::error::{PackageError, Result};
use crate::integrity;
use crate::manifest::Manifest;

/// Its folder under the state root.
const FOLDER: &str = "packages";

/// The archives under a state root.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// A package that was unpacked, until it is dropped.
#[derive(Debug)]
pub struct Opened {
    folder: TempDir,
    /// What it says of itself.
    pub manifest: Manifest,
    /// `sha256-…` of its files.
    pub contents: String,
}

impl Opened {
    /// Where its files are.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("files")
    }
}

/// Unpacks `archive` into a new folder below `place`, and looks at what came out.
///
/// # Errors
/// The archive is refused, or holds no package.
pub fn open(archive: &[u8], place: &Path) -> Result<Opened> {
    fs::create_dir_all(place).map_err(|error| PackageError::io("created", place, &error))?;
    let folder = tempfile::Builder::new()
        .prefix(".new-")
        .tempdir_in(place)
        .map_err(|error| PackageError::io("written", place, &error))?;
    let files = folder.path().join("files");
    fs::create_dir(&files).map_err(|error| PackageError::io("created", &files, &error))?;
    unpack(archive, &files)?;
    let manifest = Manifest::read(&files).map_err(|error| {
        // Where it was unpacked is nobody's business.
        let why = error.message.replace(&format!("{}{}", files.display(), std::path::MAIN_SEPARATOR), "");
        let why = why.replace(&files.display().to_string(), "it");
        PackageError::archive(format!("This is not a package: {why}"))
            .suggest("a package has a `goondan.yaml` that begins with a Package document; `gdn package init` adds one")
    })?;
    let contents = contents(&OsFiles, &files).map_err(|error| {
        PackageError::archive(format!("The archive cannot be installed: {error}."))
    })?;
    Ok(Opened {
        folder,
        manifest,
        contents,
    })
}

impl Cache {
    /// That of a state root.
    pub fn of(state_root: &Path) -> Self {
        Cache {
            folder: state_root.join(FOLDER),
        }
    }

    /// The folder in which packages are unpacked before anybody sees them.
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// The folder of packages that are run as they are.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Where the archive lies that unpacks to `contents`.
    pub fn path(&self, contents: &str) -> PathBuf {
        let name: String = contents
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        self.folder.join("archives").join(format!("{name}.tgz"))
    }

    /// Keeps an archive. Others may do the same at the same time.
    ///
    /// # Errors
    /// It can't be written.
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

    /// The archive that unpacks to `contents`, unpacked; none where there is none. One that was changed is removed.
    ///
    /// # Errors
    /// It was changed.
    pub fn open(
        &self,
        contents: &str,
        stated: Option<&str>,
        whose: &str,
    ) -> Result<Option<(Vec<u8>, Opened)>> {
        let path = self.path(contents);
        let Ok(archive) = fs::read(&path) else {
            return Ok(None);
        };
        let check = || {
            stated.map_or(Ok(()), |stated| integrity::check(&archive, stated, whose))?;
            let opened = open(&archive, &self.work())?;
            match opened.contents == contents {
                true => Ok(opened),
                false => Err(PackageError::archive("it unpacks to something else")),
            }
        };
        match check() {
            Ok(opened) => Ok(Some((archive, opened))),
            Err(error) => {
                // What can't be removed is found again.
                let _ = fs::remove_file(&path);
                let message = format!(
                    "The cached archive of {whose} was changed, and is removed: {}",
                    error.message
                );
                Err(PackageError::new(Code::PACKAGE_INTEGRITY, message)
                    .suggest("run `gdn package install` again: the package is fetched anew"))
            }
        }
    }
}
