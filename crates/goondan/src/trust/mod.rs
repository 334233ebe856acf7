//! List of trusted project directories, stored in the state root and never in a project.

pub mod effective_permissions;
pub mod requested_capabilities;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use goondan_core::file_lock::{FileLock, LOCK_TIMEOUT};
use goondan_core::private_files;
use serde::{Deserialize, Serialize};

use crate::workspace::StateRoot;
use crate::workspace::identity::canonical;

/// File name in the state root.
const TRUST_FILE: &str = "trust.json";

/// Trusted directory, including its subdirectories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedDirectory {
    /// Path without symbolic links.
    #[serde(with = "goondan_core::path_json")]
    pub path: PathBuf,
    /// Start of the trust.
    pub since: DateTime<Utc>,
}

/// Trusted content of an installed package, valid in every project. Changed content counts as
/// another package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrustedPackage {
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// Digest of the package files, `sha256-…`.
    pub contents: String,
}

/// List of trusted directories and packages.
#[derive(Debug, Clone)]
pub struct TrustList {
    folder: PathBuf,
}

/// Content of the trust list file.
#[derive(Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustListContent {
    folders: Vec<TrustedDirectory>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    packages: Vec<TrustedPackage>,
}

impl TrustList {
    /// Returns the list of a state root.
    pub fn of(state_root: &StateRoot) -> Self {
        TrustList {
            folder: state_root.0.clone(),
        }
    }

    /// Returns the path of the list.
    pub fn path(&self) -> PathBuf {
        self.folder.join(TRUST_FILE)
    }

    /// Returns the trusted directories, sorted by path. An unreadable list is an error, because it
    /// would otherwise look empty.
    pub fn folders(&self) -> io::Result<Vec<TrustedDirectory>> {
        Ok(self.read()?.folders)
    }

    /// Returns the trusted packages, sorted by name.
    pub fn packages(&self) -> io::Result<Vec<TrustedPackage>> {
        Ok(self.read()?.packages)
    }

    /// Reads the list; empty if the file does not exist.
    fn read(&self) -> io::Result<TrustListContent> {
        match fs::read(self.path()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(TrustListContent::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Adds packages with their current content.
    pub fn add_packages(&self, added: &[TrustedPackage]) -> io::Result<()> {
        self.change(|content| {
            for package in added {
                if !content.packages.contains(package) {
                    content.packages.push(package.clone());
                }
            }
        })
    }

    /// Removes all packages with the name `name`. Returns false if there is none.
    pub fn remove_package(&self, name: &str) -> io::Result<bool> {
        self.change(|content| {
            let before = content.packages.len();
            content.packages.retain(|trusted| trusted.name != name);
            content.packages.len() < before
        })
    }

    /// Returns the entry that covers the project in `root`: its directory or a parent. A list
    /// inside the project is ignored, because the project could supply it.
    pub fn trusts(&self, root: &Path) -> io::Result<Option<TrustedDirectory>> {
        let root = canonical(root);
        if self.is_inside(&root) {
            return Ok(None);
        }
        Ok(self
            .folders()?
            .into_iter()
            .find(|trusted| root.starts_with(&trusted.path)))
    }

    /// Returns true if the list is inside this directory and therefore not valid for it.
    pub fn is_inside(&self, root: &Path) -> bool {
        canonical(&self.folder).starts_with(canonical(root))
    }

    /// Adds a directory, which must exist.
    pub fn add(&self, folder: &Path) -> io::Result<TrustedDirectory> {
        let added = TrustedDirectory {
            path: folder.canonicalize()?,
            since: Utc::now(),
        };
        self.change(|content| {
            let known = content
                .folders
                .iter()
                .find(|trusted| trusted.path == added.path);
            if let Some(trusted) = known {
                return trusted.clone();
            }
            content.folders.push(added.clone());
            added
        })
    }

    /// Removes a directory, which need not exist. Returns false if it was not in the list.
    pub fn remove(&self, folder: &Path) -> io::Result<bool> {
        let folder = canonical(folder);
        self.change(|content| {
            let before = content.folders.len();
            content.folders.retain(|trusted| trusted.path != folder);
            content.folders.len() < before
        })
    }

    /// Changes the list under a lock, so that changes of other processes remain. Writes it only if
    /// `change` changes it.
    fn change<T>(&self, change: impl FnOnce(&mut TrustListContent) -> T) -> io::Result<T> {
        let _lock = FileLock::of_file(&self.path(), LOCK_TIMEOUT)?;
        let before = self.read()?;
        let mut content = before.clone();
        let value = change(&mut content);
        if content != before {
            self.write(content)?;
        }
        Ok(value)
    }

    /// Replaces the list atomically.
    fn write(&self, mut content: TrustListContent) -> io::Result<()> {
        content.folders.sort_by(|a, b| a.path.cmp(&b.path));
        content.packages.sort_by(|a, b| {
            (&a.name, &a.version, &a.contents).cmp(&(&b.name, &b.version, &b.contents))
        });
        private_files::replace_durably(&self.path(), &serde_json::to_vec_pretty(&content)?)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust_list() -> (tempfile::TempDir, TrustList) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("src/a")).unwrap();
        fs::create_dir_all(directory.path().join("src-of-others")).unwrap();
        let list = TrustList::of(&StateRoot(directory.path().join("state")));
        (directory, list)
    }

    #[test]
    fn trust_in_a_directory_covers_subdirectories_and_not_siblings() {
        let (directory, list) = trust_list();
        let trusts = |path: &str| list.trusts(&directory.path().join(path)).unwrap().is_some();
        assert!(!trusts("src/a"));
        list.add(&directory.path().join("src")).unwrap();
        list.add(&directory.path().join("src")).unwrap();
        assert!(
            trusts("src/a")
                && trusts("src")
                && !trusts("src-of-others")
                && !trusts("src/../src-of-others")
        );
        assert_eq!(list.folders().unwrap().len(), 1);
        assert!(
            list.remove(&directory.path().join("src")).unwrap()
                && !list.remove(&directory.path().join("src")).unwrap()
        );
        assert!(!trusts("src/a"));
    }

    #[test]
    #[cfg(unix)]
    fn trust_follows_link_targets_and_the_trust_list_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, list) = trust_list();
        std::os::unix::fs::symlink(
            directory.path().join("src-of-others"),
            directory.path().join("src/link"),
        )
        .unwrap();
        list.add(&directory.path().join("src")).unwrap();
        assert_eq!(
            list.trusts(&directory.path().join("src/link")).unwrap(),
            None
        );
        assert_eq!(
            fs::metadata(list.path()).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_trust_list_inside_the_project_is_ignored() {
        let (directory, list) = trust_list();
        list.add(directory.path()).unwrap();
        assert_eq!(list.trusts(directory.path()).unwrap(), None);
        assert!(
            list.trusts(&directory.path().join("src"))
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn a_package_is_trusted_by_its_content() {
        let (directory, list) = trust_list();
        let package = |contents: &str| TrustedPackage {
            name: "@a/b".into(),
            version: "1.0.0".into(),
            contents: contents.into(),
        };
        list.add(&directory.path().join("src")).unwrap();
        list.add_packages(&[package("sha256-1")]).unwrap();
        list.add_packages(&[package("sha256-1")]).unwrap();
        let known = list.packages().unwrap();
        assert!(known == [package("sha256-1")] && !known.contains(&package("sha256-2")));
        assert_eq!(list.folders().unwrap().len(), 1);
        assert!(list.remove_package("@a/b").unwrap() && !list.remove_package("@a/b").unwrap());
    }

    #[test]
    fn an_invalid_trust_list_is_an_error() {
        let (directory, list) = trust_list();
        list.add(&directory.path().join("src")).unwrap();
        fs::write(list.path(), "{}").unwrap();
        assert!(
            list.trusts(&directory.path().join("src")).is_err()
                && list.add(directory.path()).is_err()
        );
    }
}
