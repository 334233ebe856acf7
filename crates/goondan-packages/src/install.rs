//! Installs packages in a project: the lock file, and the directories that it describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use goondan_spec::content_hash::contents;
use goondan_spec::installed_packages::{INSTALLED_DIR, installed_folder};
use goondan_spec::lock::{LOCK_FILE, LockedPackage, PackageLock};
use goondan_spec::{Code, OsFiles, regular_file};
use semver::Version;

use crate::cache::{PackageCache, open};
use crate::dependency_resolution::{UpdateSelection, fetch_locked, resolve};
use crate::error::{PackageError, Result};
use crate::manifest::PackageManifest;
use crate::sources::FetchSettings;

/// Options of an installation.
#[derive(Debug, Clone, Default)]
pub struct InstallOptions {
    /// Installs exactly the lock file, and does not write it.
    pub frozen: bool,
    /// Uses only the cache.
    pub offline: bool,
    /// The packages to update.
    pub update: UpdateSelection,
}

/// The result of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallResult {
    /// Versions of all packages by name.
    pub packages: BTreeMap<String, String>,
    /// Names of packages with changed files.
    pub changed: Vec<String>,
    /// Names of removed packages.
    pub removed: Vec<String>,
    /// True if the lock file changed.
    pub lock_changed: bool,
}

/// Installs the dependencies in the Package document of the project in `root`.
///
/// # Errors
///
/// Fails if a package cannot be fetched, or differs from the lock file. Installed packages remain.
pub async fn install(
    root: &Path,
    settings: &FetchSettings,
    cache: &PackageCache,
    options: &InstallOptions,
) -> Result<InstallResult> {
    let packages_dir = root.join(INSTALLED_DIR);
    prepare_directory(root, &packages_dir)?;
    let _alone = lock_project(&packages_dir).await?;
    let manifest = PackageManifest::read(root)?;
    let before = read_lock(root)?;
    let lock = match covering_lock(&before, &manifest, options) {
        Some(lock) => lock,
        None if options.frozen || options.offline => {
            return Err(PackageError::new(
                Code::PACKAGE_LOCK_OUTDATED,
                format!(
                    "`{LOCK_FILE}` does not match the Package document, so nothing was installed."
                ),
            )
            .suggest(
                "run `gdn package install` without `--frozen` and `--offline`, and keep the \
                lock file in git",
            ));
        }
        None => resolve(&manifest, settings, &before, &options.update, cache).await?,
    };
    let mut outcome = InstallResult {
        lock_changed: lock != before,
        ..InstallResult::default()
    };
    for (key, locked) in &lock.packages {
        let name = key.rsplit_once('@').map_or(key.as_str(), |(name, _)| name);
        goondan_spec::check_name(name, goondan_spec::Kind::Package).map_err(|why| {
            PackageError::new(
                Code::PACKAGE_LOCK_OUTDATED,
                format!("`{LOCK_FILE}` contains the invalid package name `{name}`: {why}."),
            )
        })?;
        outcome
            .packages
            .insert(name.to_owned(), locked.version.clone());
        if update_package(root, name, locked, settings, cache, options.offline).await? {
            outcome.changed.push(name.to_owned());
        }
    }
    outcome.removed = remove_others(&packages_dir, &outcome.packages)?;
    if outcome.lock_changed && !options.frozen {
        write_lock(root, &lock)?;
    }
    Ok(outcome)
}

/// Limit of a lock file in bytes.
const MAX_LOCK_BYTES: u64 = 16 * 1024 * 1024;

/// Reads the lock file of the project in `root`; an empty one if it does not exist.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn read_lock(root: &Path) -> Result<PackageLock> {
    let path = root.join(LOCK_FILE);
    let text = match regular_file::read_text(&path, MAX_LOCK_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(PackageLock::new(BTreeMap::new()));
        }
        Err(error) => return Err(PackageError::io("read", &path, &error)),
    };
    PackageLock::parse(&text)
        .ok()
        .filter(PackageLock::is_known)
        .ok_or_else(|| {
            PackageError::new(
                Code::PACKAGE_LOCK_OUTDATED,
                format!(
                    "{} is not a lock file that this version of gdn can read.",
                    path.display()
                ),
            )
            .suggest("restore it from git, or remove it and run `gdn package install`")
        })
}

/// Returns the needed part of `lock` if it covers all dependencies.
fn covering_lock(
    lock: &PackageLock,
    manifest: &PackageManifest,
    options: &InstallOptions,
) -> Option<PackageLock> {
    if options.update != UpdateSelection::Nothing {
        return None;
    }
    let mut needed: BTreeMap<String, LockedPackage> = BTreeMap::new();
    let mut queue: Vec<(String, String)> = Vec::new();
    for dependency in &manifest.dependencies {
        let locked = lock.find(&dependency.name)?;
        let version = Version::parse(&locked.version).ok()?;
        // A local directory may have changed, and an installation must use its current contents.
        let is_folder = locked.integrity.is_none() && locked.resolved.starts_with("file:");
        if !dependency.wanted.matches(&version) || locked.source != dependency.source {
            return None;
        }
        if is_folder && !options.frozen && !options.offline {
            return None;
        }
        queue.push((dependency.name.clone(), locked.version.clone()));
    }
    while let Some((name, version)) = queue.pop() {
        let locked = lock
            .find(&name)
            .filter(|locked| locked.version == version && locked.contents.is_some())?;
        if needed
            .insert(format!("{name}@{version}"), locked.clone())
            .is_none()
        {
            queue.extend(locked.dependencies.clone());
        }
    }
    Some(PackageLock::new(needed))
}

/// Creates the directory for packages. Fails on a symbolic link, which would redirect the
/// installation.
fn prepare_directory(root: &Path, directory: &Path) -> Result<()> {
    let mut path = root.to_owned();
    for part in Path::new(INSTALLED_DIR) {
        path.push(part);
        make_folder(&path)?;
    }
    let ignore = directory.join(".gitignore");
    if !ignore.exists() {
        fs::write(&ignore, "*\n").map_err(|error| PackageError::io("written", &ignore, &error))?;
    }
    Ok(())
}

/// Creates a directory unless it exists. Fails if the path is a file or a link.
fn make_folder(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => {
            let message = format!(
                "{} is not a directory, so nothing is installed there.",
                path.display()
            );
            Err(PackageError::new(Code::PATH_ESCAPE, message).suggest("remove it"))
        }
        Err(_) => fs::create_dir(path).map_err(|error| PackageError::io("created", path, &error)),
    }
}

/// Waits until no other process installs in the project.
async fn lock_project(directory: &Path) -> Result<File> {
    let path = directory.join(".lock");
    let wait = move || -> io::Result<File> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)?;
        file.lock()?;
        Ok(file)
    };
    let locked = tokio::task::spawn_blocking(wait)
        .await
        .map_err(io::Error::from)
        .and_then(|locked| locked);
    locked.map_err(|error| PackageError::io("locked", directory, &error))
}

/// Updates the directory of a package to the lock file; returns false if it is current.
async fn update_package(
    root: &Path,
    name: &str,
    locked: &LockedPackage,
    settings: &FetchSettings,
    cache: &PackageCache,
    offline: bool,
) -> Result<bool> {
    let folder = root.join(installed_folder(name));
    let expected_hash = locked.contents.as_deref();
    let is_folder = fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir());
    if is_folder && contents(&OsFiles, &folder).ok().as_deref() == expected_hash {
        return Ok(false);
    }
    let archive = fetch_locked(name, locked, settings, cache, offline).await?;
    install_archive(&archive, &folder, expected_hash, &root.join(INSTALLED_DIR))?;
    Ok(true)
}

/// Unpacks `archive` in `packages_dir` and then renames the result to `folder`, so that no process
/// sees a partial package.
pub(crate) fn install_archive(
    archive: &[u8],
    folder: &Path,
    expected_hash: Option<&str>,
    packages_dir: &Path,
) -> Result<()> {
    let opened = open(archive, packages_dir)?;
    if expected_hash != Some(opened.contents.as_str()) {
        let message = format!(
            "The unpacked files of {} do not match the lock file.",
            folder.display()
        );
        return Err(PackageError::new(Code::PACKAGE_INTEGRITY, message)
            .suggest("run `gdn package install` again"));
    }
    if let Some(parent) = folder.parent().filter(|parent| *parent != packages_dir) {
        make_folder(parent)?;
    }
    let old_files = opened.path().with_file_name("old");
    let moved = match fs::symlink_metadata(folder) {
        Ok(_) => fs::rename(folder, &old_files),
        Err(_) => Ok(()),
    };
    moved
        .and_then(|()| fs::rename(opened.path(), folder))
        .map_err(|error| PackageError::io("written", folder, &error))
}

/// Removes the directories of packages that are not in `needed`.
fn remove_others(directory: &Path, needed: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for (name, path) in list_installed(directory)? {
        if !needed.contains_key(&name) {
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            let done = if is_folder {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            done.map_err(|error| PackageError::io("removed", &path, &error))?;
            removed.push(name);
        }
    }
    let scopes: BTreeSet<&str> = needed
        .keys()
        .filter_map(|name| Some(name.split_once('/')?.0))
        .collect();
    for name in names(directory)?
        .into_iter()
        .filter(|name| name.starts_with('@') && !scopes.contains(name.as_str()))
    {
        // The directory is empty, unless a user added files.
        let _ = fs::remove_dir(directory.join(name));
    }
    Ok(removed)
}

/// Lists the entries below `directory` by package name.
fn list_installed(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut packages = Vec::new();
    for name in names(directory)? {
        let path = directory.join(&name);
        if name.starts_with('@')
            && fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir())
        {
            let inner = names(&path)?.into_iter();
            packages.extend(inner.map(|inner| (format!("{name}/{inner}"), path.join(inner))));
        } else {
            packages.push((name, path))
        }
    }
    Ok(packages)
}

/// Lists the names in a directory, without internal ones, which begin with a dot.
fn names(folder: &Path) -> Result<Vec<String>> {
    let read = fs::read_dir(folder).map_err(|error| PackageError::io("read", folder, &error))?;
    let mut names: Vec<String> = read
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

/// Replaces the lock file of a project atomically.
fn write_lock(root: &Path, lock: &PackageLock) -> Result<()> {
    let path = root.join(LOCK_FILE);
    let write = || {
        let mut draft = tempfile::NamedTempFile::new_in(root)?;
        draft.write_all(lock.render().as_bytes())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // The lock file is an ordinary project file, so other users may read it.
            draft
                .as_file()
                .set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        draft.persist(&path).map(drop).map_err(|error| error.error)
    };
    write().map_err(|error| PackageError::io("written", &path, &error))
}
