//! Files that can contain keys, such as `.env`, and their other names. A program in a sandbox can
//! give such a file another name with a hard link, so files are also compared by their identity.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Files and directories from which this process reads variables or secrets, whatever their name is:
/// absolute paths as they were given, and the same without links.
static DECLARED: RwLock<BTreeSet<PathBuf>> = RwLock::new(BTreeSet::new());

/// Declares that this process reads variables or secrets from a file, or from the files of a
/// directory. From then on, they count as files with keys in this process. Accesses the file system.
pub fn declare(path: &Path) {
    let given = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = given.canonicalize().ok();
    let mut declared = DECLARED.write().unwrap_or_else(PoisonError::into_inner);
    declared.extend(real.into_iter().chain([given]));
}

/// Returns true for the path of a [declared](declare) file, and for a path in a declared directory.
/// Ignores case, like some file systems.
pub fn is_declared(path: &Path) -> bool {
    let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
    let lowercase = |path: &Path| PathBuf::from(path.to_string_lossy().to_lowercase());
    // Most processes declare no file.
    !declared.is_empty() && {
        let path = lowercase(path);
        declared
            .iter()
            .any(|place| path.starts_with(lowercase(place)))
    }
}

/// Returns true for the name of a file or directory with keys. `name` is in lower case.
pub fn is_secret_name(name: &str) -> bool {
    name.starts_with(".env")
}

/// Returns true if a component of `path` is the name of a file or directory with keys.
pub fn has_secret_name(path: &Path) -> bool {
    path.components()
        .any(|part| is_secret_name(&part.as_os_str().to_string_lossy().to_lowercase()))
}

/// Files with keys below some directories. They are searched at the first comparison with a file
/// that has several hard links.
#[derive(Debug)]
pub struct SecretFiles {
    bases: Vec<PathBuf>,
    #[cfg(unix)]
    found: std::sync::OnceLock<by_identity::FoundFiles>,
}

impl SecretFiles {
    /// Returns the files below `bases`.
    pub fn below<B: AsRef<Path>>(bases: impl IntoIterator<Item = B>) -> SecretFiles {
        let bases = bases.into_iter().map(|base| base.as_ref().to_owned());
        SecretFiles {
            bases: bases.collect(),
            #[cfg(unix)]
            found: std::sync::OnceLock::new(),
        }
    }

    /// Returns true if a file can contain keys, because of its path or of another name. Accesses the
    /// file system.
    pub fn contains(&self, path: &Path, metadata: &Metadata) -> bool {
        self.contains_name(path) || self.contains_link(metadata)
    }

    /// Returns true if a file can contain keys because of its path.
    pub fn contains_name(&self, path: &Path) -> bool {
        let mut bases = self.bases.iter();
        let below = bases.find_map(|base| path.strip_prefix(base).ok());
        let name = path.file_name().map(Path::new);
        below.or(name).is_some_and(has_secret_name) || is_declared(path)
    }

    /// Returns true if a file has several hard links and can be one of the files with keys. This is
    /// also true if the directories have too many entries to find out. Accesses the file system.
    #[cfg(unix)]
    pub fn contains_link(&self, metadata: &Metadata) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        metadata.is_file()
            && metadata.nlink() > 1
            && self
                .found
                .get_or_init(|| by_identity::FoundFiles::below(&self.bases))
                .may_contain(metadata)
    }

    /// Returns false: the system reports no identity of files.
    #[cfg(not(unix))]
    pub fn contains_link(&self, _: &Metadata) -> bool {
        false
    }
}

#[cfg(unix)]
mod by_identity {
    use std::collections::{BTreeSet, VecDeque};
    use std::fs::Metadata;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;
    use std::sync::PoisonError;

    use super::{DECLARED, has_secret_name};

    /// Limit of searched entries.
    pub(super) const MAX_SEARCHED_ENTRIES: usize = 200_000;

    /// Directories in which no file with keys of a project is searched.
    const SKIPPED_DIRECTORIES: [&str; 6] = [
        ".git",
        ".venv",
        "__pycache__",
        "node_modules",
        "target",
        "venv",
    ];

    /// Identities of files with keys.
    #[derive(Debug, Default)]
    pub(super) struct FoundFiles {
        /// Devices and numbers of the files.
        identities: BTreeSet<(u64, u64)>,
        /// The directories have more entries than the limit.
        is_incomplete: bool,
    }

    impl FoundFiles {
        /// Returns the files with the name of a file with keys below `bases`, and the declared files.
        pub(super) fn below(bases: &[PathBuf]) -> FoundFiles {
            let mut found_files = FoundFiles::default();
            let mut count = 0;
            let mut todo: VecDeque<(PathBuf, bool)> =
                bases.iter().map(|base| (base.clone(), false)).collect();
            let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
            for place in declared.iter() {
                match place.metadata() {
                    Ok(metadata) if metadata.is_dir() => todo.push_front((place.clone(), true)),
                    Ok(metadata) => {
                        let identity = (metadata.dev(), metadata.ino());
                        found_files.identities.insert(identity);
                    }
                    Err(_) => {}
                }
            }
            drop(declared);
            while let Some((folder, is_secret)) = todo.pop_front() {
                for entry in folder.read_dir().into_iter().flatten().flatten() {
                    count += 1;
                    if count > MAX_SEARCHED_ENTRIES {
                        found_files.is_incomplete = true;
                        return found_files;
                    }
                    let name = entry.file_name();
                    let is_secret = is_secret || has_secret_name(name.as_ref());
                    let kind = entry.file_type();
                    let is_folder = kind.as_ref().is_ok_and(|kind| kind.is_dir());
                    let is_skipped =
                        || SKIPPED_DIRECTORIES.contains(&&*name.to_string_lossy().to_lowercase());
                    if is_folder && !is_skipped() {
                        todo.push_back((entry.path(), is_secret));
                    } else if is_secret
                        && kind.is_ok_and(|kind| kind.is_file())
                        && let Ok(metadata) = entry.metadata()
                    {
                        found_files
                            .identities
                            .insert((metadata.dev(), metadata.ino()));
                    }
                }
            }
            found_files
        }

        /// Returns true if the files include this file, or if that is unknown.
        pub(super) fn may_contain(&self, metadata: &Metadata) -> bool {
            self.is_incomplete || self.identities.contains(&(metadata.dev(), metadata.ino()))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn hard_links_to_secret_files_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        for directory_name in ["a", ".env.d/b"] {
            fs::create_dir_all(base.join(directory_name)).unwrap();
        }
        for (name, link) in [
            ("a/.ENV.local", Some("key.txt")),
            (".env.d/b/file", Some("a/deep")),
            ("notes.txt", Some("other.txt")),
            ("plain.txt", None),
        ] {
            fs::write(base.join(name), name).unwrap();
            if let Some(link) = link {
                fs::hard_link(base.join(name), base.join(link)).unwrap();
            }
        }
        let files = SecretFiles::below([base]);
        for (name, by_link, by_name) in [
            ("key.txt", true, false),
            ("a/deep", true, false),
            ("a/.ENV.local", true, true),
            (".env.d/b/file", true, true),
            ("notes.txt", false, false),
            ("other.txt", false, false),
            ("plain.txt", false, false),
        ] {
            let metadata = base.join(name).metadata().unwrap();
            assert_eq!(files.contains_link(&metadata), by_link, "{name}");
            let is_secret = files.contains(&base.join(name), &metadata);
            assert_eq!(is_secret, by_link || by_name, "{name}");
        }
    }

    #[test]
    fn declared_files_are_secret_files_under_all_names() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for directory_name in ["conf", "Keys/slack", "src"] {
            fs::create_dir_all(base.join(directory_name)).unwrap();
        }
        for name in ["conf/prod.env", "Keys/slack/token", "src/main.rs"] {
            fs::write(base.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("conf/prod.env", base.join("linked.env")).unwrap();
        fs::hard_link(base.join("conf/prod.env"), base.join("src/a.txt")).unwrap();
        fs::hard_link(base.join("Keys/slack/token"), base.join("src/b.txt")).unwrap();
        declare(&base.join("linked.env"));
        declare(&base.join("Keys"));
        let files = SecretFiles::below([&base]);
        for (name, expected) in [
            ("conf/prod.env", true),
            ("CONF/Prod.env", true),
            ("linked.env", true),
            ("Keys/slack/token", true),
            ("Keys/new", true),
            ("src/a.txt", true),
            ("src/b.txt", true),
            ("src/main.rs", false),
            ("conf/other.env", false),
            ("Keys2", false),
        ] {
            let path = base.join(name);
            let by_link = |metadata| files.contains_link(&metadata);
            let is_secret = files.contains_name(&path) || path.metadata().is_ok_and(by_link);
            assert_eq!(is_secret, expected, "{name}");
        }
    }
}
