//! Packages in a project: the lock file, and the folders that are as it says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use goondan_spec::contents::contents;
use goondan_spec::installed::{INSTALLED, installed_folder};
use goondan_spec::lock::{LOCK_FILE, Lock, Locked};
use goondan_spec::{Code, OsFiles};
use semver::Version;

use crate::cache::{Cache, open};
use crate::error::{PackageError, Result};
use crate::manifest::Manifest;
use crate::resolve::{Update, fetch_locked, resolve};
use crate::sources::Reach;

/// How packages are installed.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Nothing but what the lock file says; it is not written.
    pub frozen: bool,
    /// Nothing but what the cache has.
    pub offline: bool,
    /// What is chosen anew.
    pub update: Update,
}

/// What an installation has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All packages, by name, with their versions.
    pub packages: BTreeMap<String, String>,
    /// Those whose files are other ones than before.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
    /// Whether the lock file is another one than before.
    pub lock_changed: bool,
}

/// Installs what the Package document of the project in `root` asks for.
///
/// # Errors
/// A package can't be had or is not what was locked; what was installed before stays.
pub async fn install(
    root: &Path,
    reach: &Reach,
    cache: &Cache,
    options: &Options,
) -> Result<Outcome> {
    let place = root.join(INSTALLED);
    prepare(root, &place)?;
    let _alone = alone(&place).await?;
    let manifest = Manifest::read(root)?;
    let before = read_lock(root)?;
    let lock = match covering(&before, &manifest, options) {
        Some(lock) => lock,
        None if options.frozen || options.offline => {
            return Err(PackageError::new(
                Code::PACKAGE_LOCK_OUTDATED,
                format!("`{LOCK_FILE}` does not say what the Package document asks for, so nothing was installed."),
            )
            .suggest("run `gdn package install` without `--frozen` and `--offline`, and keep the lock file in git"));
        }
        None => resolve(&manifest, reach, &before, &options.update, cache).await?,
    };
    let mut outcome = Outcome {
        lock_changed: lock != before,
        ..Outcome::default()
    };
    for (key, locked) in &lock.packages {
        let name = key.rsplit_once('@').map_or(key.as_str(), |(name, _)| name);
        goondan_spec::check_name(name, goondan_spec::Kind::Package).map_err(|why| {
            PackageError::new(
                Code::PACKAGE_LOCK_OUTDATED,
                format!("`{LOCK_FILE}` has `{name}`: {why}."),
            )
        })?;
        outcome
            .packages
            .insert(name.to_owned(), locked.version.clone());
        if place_package(root, name, locked, reach, cache, options.offline).await? {
            outcome.changed.push(name.to_owned());
        }
    }
    outcome.removed = remove_others(&place, &outcome.packages)?;
    if outcome.lock_changed && !options.frozen {
        write_lock(root, &lock)?;
    }
    Ok(outcome)
}

/// The lock file of the project in `root`; an empty one where there is none.
///
/// # Errors
/// It can't be read.
pub fn read_lock(root: &Path) -> Result<Lock> {
    let path = root.join(LOCK_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Lock::new(BTreeMap::new()));
        }
        Err(error) => return Err(PackageError::io("read", &path, &error)),
    };
    Lock::parse(&text)
        .ok()
        .filter(Lock::is_known)
        .ok_or_else(|| {
            PackageError::new(
                Code::PACKAGE_LOCK_OUTDATED,
                format!("{} is not a lock file that this gdn reads.", path.display()),
            )
            .suggest("restore it from git, or remove it and run `gdn package install`")
        })
}

/// What of `lock` the project needs, where that is all that it needs.
fn covering(lock: &Lock, manifest: &Manifest, options: &Options) -> Option<Lock> {
    if options.update != Update::Nothing {
        return None;
    }
    let mut needed: BTreeMap<String, Locked> = BTreeMap::new();
    let mut queue: Vec<(String, String)> = Vec::new();
    for dependency in &manifest.dependencies {
        let locked = lock.find(&dependency.name)?;
        let version = Version::parse(&locked.version).ok()?;
        // A folder may have changed since, and whoever installs wants to have what is in it.
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
    Some(Lock::new(needed))
}

/// Makes the folder for packages. A link in its place would lead what is installed elsewhere.
fn prepare(root: &Path, place: &Path) -> Result<()> {
    let mut path = root.to_owned();
    for part in Path::new(INSTALLED) {
        path.push(part);
        make_folder(&path)?;
    }
    let ignore = place.join(".gitignore");
    if !ignore.exists() {
        fs::write(&ignore, "*\n").map_err(|error| PackageError::io("written", &ignore, &error))?;
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => {
            let message = format!(
                "{} is not a folder, so nothing is installed there.",
                path.display()
            );
            Err(PackageError::new(Code::PATH_ESCAPE, message).suggest("remove it"))
        }
        Err(_) => fs::create_dir(path).map_err(|error| PackageError::io("created", path, &error)),
    }
}

/// Waits until nobody else installs in the project.
async fn alone(place: &Path) -> Result<File> {
    let path = place.join(".lock");
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
    locked.map_err(|error| PackageError::io("locked", place, &error))
}

/// Makes the folder of a package what the lock file says; false where it is already.
async fn place_package(
    root: &Path,
    name: &str,
    locked: &Locked,
    reach: &Reach,
    cache: &Cache,
    offline: bool,
) -> Result<bool> {
    let folder = root.join(installed_folder(name));
    let wanted = locked.contents.as_deref();
    let is_folder = fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir());
    if is_folder && contents(&OsFiles, &folder).ok().as_deref() == wanted {
        return Ok(false);
    }
    let archive = fetch_locked(name, locked, reach, cache, offline).await?;
    put(&archive, &folder, wanted, &root.join(INSTALLED))?;
    Ok(true)
}

/// Unpacks `archive` beside `folder` and puts it in its place: nobody sees half a package.
pub(crate) fn put(archive: &[u8], folder: &Path, wanted: Option<&str>, place: &Path) -> Result<()> {
    let opened = open(archive, place)?;
    if wanted != Some(opened.contents.as_str()) {
        let message = format!(
            "What {} unpacks to is not what the lock file states.",
            folder.display()
        );
        return Err(PackageError::new(Code::PACKAGE_INTEGRITY, message)
            .suggest("run `gdn package install` again"));
    }
    if let Some(parent) = folder.parent().filter(|parent| *parent != place) {
        make_folder(parent)?;
    }
    let old = opened.path().with_file_name("old");
    let moved = match fs::symlink_metadata(folder) {
        Ok(_) => fs::rename(folder, &old),
        Err(_) => Ok(()),
    };
    moved
        .and_then(|()| fs::rename(opened.path(), folder))
        .map_err(|error| PackageError::io("written", folder, &error))
}

/// Removes the folders of packages that are not among `kept`.
fn remove_others(place: &Path, kept: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for (name, path) in installed(place)? {
        if !kept.contains_key(&name) {
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
    let scopes: BTreeSet<&str> = kept
        .keys()
        .filter_map(|name| Some(name.split_once('/')?.0))
        .collect();
    for name in names(place)?
        .into_iter()
        .filter(|name| name.starts_with('@') && !scopes.contains(name.as_str()))
    {
        // Empty by now, unless somebody put something there.
        let _ = fs::remove_dir(place.join(name));
    }
    Ok(removed)
}

/// What stands below `place`, by the name of the package that it would be.
fn installed(place: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for name in names(place)? {
        let path = place.join(&name);
        match name.starts_with('@')
            && fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir())
        {
            true => {
                let inner = names(&path)?.into_iter();
                found.extend(inner.map(|inner| (format!("{name}/{inner}"), path.join(inner))));
            }
            false => found.push((name, path)),
        }
    }
    Ok(found)
}

/// The names in a folder but for our own, which begin with a dot.
fn names(folder: &Path) -> Result<Vec<String>> {
    let read = fs::read_dir(folder).map_err(|error| PackageError::io("read", folder, &error))?;
    let mut names: Vec<String> = read
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

fn write_lock(root: &Path, lock: &Lock) -> Result<()> {
    let path = root.join(LOCK_FILE);
    let write = || {
        let mut draft = tempfile::NamedTempFile::new_in(root)?;
        draft.write_all(lock.render().as_bytes())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // It is a file of the project like any other, and not its owner's alone.
            draft
                .as_file()
                .set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        draft.persist(&path).map(drop).map_err(|error| error.error)
    };
    write().map_err(|error| PackageError::io("written", &path, &error))
}
