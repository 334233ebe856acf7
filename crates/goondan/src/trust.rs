//! Which project folders somebody trusts: a list under the state root, never in a project.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use goondan_core::private;
use serde::{Deserialize, Serialize};

use crate::identity::canonical;
use crate::workspace::StateRoot;

/// Its name under the state root.
const FILE: &str = "trust.json";

/// A folder that somebody trusts, with all that is below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// Without symbolic links.
    pub path: PathBuf,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// An installed package whose content somebody trusts, wherever it is used. With another content it is another package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrustedPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `sha256-…` of its files.
    pub contents: String,
}

/// The folders that somebody trusts.
#[derive(Debug, Clone)]
pub struct TrustList {
    folder: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    folders: Vec<Trusted>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    packages: Vec<TrustedPackage>,
}

impl TrustList {
    /// That of a state root.
    pub fn of(state_root: &StateRoot) -> Self {
        TrustList {
            folder: state_root.0.clone(),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// All of them, sorted by path. A list that can't be read is an error: silence would look like nothing is trusted.
    pub fn folders(&self) -> io::Result<Vec<Trusted>> {
        Ok(self.read()?.folders)
    }

    /// The packages whose content is trusted, sorted by name.
    pub fn packages(&self) -> io::Result<Vec<TrustedPackage>> {
        Ok(self.read()?.packages)
    }

    fn read(&self) -> io::Result<Content> {
        match fs::read(self.path()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::default()),
            Err(error) => Err(error),
        }
    }

    /// Adds packages with the content that they have now.
    pub fn add_packages(&self, added: &[TrustedPackage]) -> io::Result<()> {
        let mut content = self.read()?;
        if added
            .iter()
            .all(|package| content.packages.contains(package))
        {
            return Ok(());
        }
        content.packages.retain(|known| !added.contains(known));
        content.packages.extend(added.iter().cloned());
        self.write(content)
    }

    /// Takes all packages called `name` off the list; false where there is none.
    pub fn remove_package(&self, name: &str) -> io::Result<bool> {
        let mut content = self.read()?;
        let before = content.packages.len();
        content.packages.retain(|known| known.name != name);
        let is_less = content.packages.len() < before;
        if is_less {
            self.write(content)?;
        }
        Ok(is_less)
    }

    /// The folder by which the project in `root` is trusted: its own, or one above. A list that lies in the project came with
    /// it, and is not believed.
    pub fn trusts(&self, root: &Path) -> io::Result<Option<Trusted>> {
        let root = canonical(root);
        if self.lies_in(&root) {
            return Ok(None);
        }
        Ok(self
            .folders()?
            .into_iter()
            .find(|trusted| root.starts_with(&trusted.path)))
    }

    /// Whether the list lies in that folder, so that it can't speak for it.
    pub fn lies_in(&self, root: &Path) -> bool {
        canonical(&self.folder).starts_with(canonical(root))
    }

    /// Adds a folder, which must exist.
    pub fn add(&self, folder: &Path) -> io::Result<Trusted> {
        let added = Trusted {
            path: folder.canonicalize()?,
            since: Utc::now(),
        };
        let mut content = self.read()?;
        if let Some(known) = content
            .folders
            .iter()
            .find(|known| known.path == added.path)
        {
            return Ok(known.clone());
        }
        content.folders.push(added.clone());
        self.write(content)?;
        Ok(added)
    }

    /// Takes a folder off the list, which need not exist any more; false where it was not on it.
    pub fn remove(&self, folder: &Path) -> io::Result<bool> {
        let (folder, mut content) = (canonical(folder), self.read()?);
        let before = content.folders.len();
        content.folders.retain(|known| known.path != folder);
        let is_less = content.folders.len() < before;
        if is_less {
            self.write(content)?;
        }
        Ok(is_less)
    }

    /// Replaces the list as a whole.
    fn write(&self, mut content: Content) -> io::Result<()> {
        content.folders.sort_by(|a, b| a.path.cmp(&b.path));
        content.packages.sort_by(|a, b| {
            (&a.name, &a.version, &a.contents).cmp(&(&b.name, &b.version, &b.contents))
        });
        fs::create_dir_all(&self.folder)?;
        private::replace_durably(&self.path(), &serde_json::to_vec_pretty(&content)?).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, TrustList) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("src/a")).unwrap();
        fs::create_dir_all(place.path().join("src-of-others")).unwrap();
        let list = TrustList::of(&StateRoot(place.path().join("state")));
        (place, list)
    }

    #[test]
    fn a_folder_speaks_for_what_is_below_it_and_for_nothing_beside_it() {
        let (place, list) = place();
        let trusts = |path: &str| list.trusts(&place.path().join(path)).unwrap().is_some();
        assert!(!trusts("src/a"));
        list.add(&place.path().join("src")).unwrap();
        list.add(&place.path().join("src")).unwrap();
        assert!(
            trusts("src/a")
                && trusts("src")
                && !trusts("src-of-others")
                && !trusts("src/../src-of-others")
        );
        assert_eq!(list.folders().unwrap().len(), 1);
        assert!(
            list.remove(&place.path().join("src")).unwrap()
                && !list.remove(&place.path().join("src")).unwrap()
        );
        assert!(!trusts("src/a"));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_trusted_as_what_it_leads_to_and_the_list_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (place, list) = place();
        std::os::unix::fs::symlink(
            place.path().join("src-of-others"),
            place.path().join("src/link"),
        )
        .unwrap();
        list.add(&place.path().join("src")).unwrap();
        assert_eq!(list.trusts(&place.path().join("src/link")).unwrap(), None);
        assert_eq!(
            fs::metadata(list.path()).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_list_that_came_with_the_project_is_not_believed() {
        let (place, list) = place();
        list.add(place.path()).unwrap();
        assert_eq!(list.trusts(place.path()).unwrap(), None);
        assert!(list.trusts(&place.path().join("src")).unwrap().is_some());
    }

    #[test]
    fn a_package_is_trusted_by_its_content() {
        let (place, list) = place();
        let package = |contents: &str| TrustedPackage {
            name: "@a/b".into(),
            version: "1.0.0".into(),
            contents: contents.into(),
        };
        list.add(&place.path().join("src")).unwrap();
        list.add_packages(&[package("sha256-1")]).unwrap();
        list.add_packages(&[package("sha256-1")]).unwrap();
        let known = list.packages().unwrap();
        assert!(known == [package("sha256-1")] && !known.contains(&package("sha256-2")));
        assert_eq!(list.folders().unwrap().len(), 1);
        assert!(list.remove_package("@a/b").unwrap() && !list.remove_package("@a/b").unwrap());
    }

    #[test]
    fn a_broken_list_is_an_error() {
        let (place, list) = place();
        list.add(&place.path().join("src")).unwrap();
        fs::write(list.path(), "{}").unwrap();
        assert!(list.trusts(&place.path().join("src")).is_err() && list.add(place.path()).is_err());
    }
}
