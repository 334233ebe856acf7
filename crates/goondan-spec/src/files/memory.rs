//! In-memory files for tests that can also simulate read errors.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use super::{FileAccess, FileKind};

/// Maximum number of followed links, as on Linux. A longer chain counts as a cycle.
const MAX_FOLLOWED_LINKS: usize = 40;

/// In-memory file tree. Directories exist as soon as they contain something.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles {
    entries: BTreeMap<PathBuf, MemoryEntry>,
}

#[derive(Debug, Clone)]
enum MemoryEntry {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
    Unreadable(ErrorKind),
    Device,
}

impl MemoryFiles {
    /// Creates an empty tree.
    pub fn new() -> Self {
        MemoryFiles::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.with_entry(path, MemoryEntry::File(content.into()))
    }

    /// Adds an empty directory.
    #[must_use]
    pub fn directory(self, path: impl AsRef<Path>) -> Self {
        self.with_entry(path, MemoryEntry::Directory)
    }

    /// Adds a symbolic link. A relative `target` starts from the link's directory.
    #[must_use]
    pub fn link(self, path: impl AsRef<Path>, target: impl Into<PathBuf>) -> Self {
        self.with_entry(path, MemoryEntry::Link(target.into()))
    }

    /// Adds a file that is listed but fails to be read with `error`.
    #[must_use]
    pub fn unreadable(self, path: impl AsRef<Path>, error: ErrorKind) -> Self {
        self.with_entry(path, MemoryEntry::Unreadable(error))
    }

    /// Adds an entry that is neither a file nor a directory.
    #[must_use]
    pub fn device(self, path: impl AsRef<Path>) -> Self {
        self.with_entry(path, MemoryEntry::Device)
    }

    /// Adds an entry at a path.
    fn with_entry(mut self, path: impl AsRef<Path>, entry: MemoryEntry) -> Self {
        self.entries.insert(normalize_path(path.as_ref()), entry);
        self
    }

    /// Resolves links in every part of `path`.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut done = PathBuf::new();
        let mut todo: Vec<PathBuf> = parts(&normalize_path(path));
        let mut links = 0;
        while let Some(part) = todo.pop() {
            done.push(part);
            if let Some(MemoryEntry::Link(target)) = self.entries.get(&done) {
                links += 1;
                if links > MAX_FOLLOWED_LINKS {
                    return Err(io::Error::other("too many levels of symbolic links"));
                }
                done.pop();
                let target = normalize_path(&done.join(target));
                done = PathBuf::new();
                todo.extend(parts(&target));
            }
        }
        Ok(done)
    }

    /// Returns the entry at a path; `None` for a directory that only other paths imply. Fails if
    /// nothing is there.
    fn lookup(&self, path: &Path) -> io::Result<Option<&MemoryEntry>> {
        let path = self.resolve(path)?;
        match self.entries.get(&path) {
            Some(entry) => Ok(Some(entry)),
            None if self.entries.keys().any(|key| key.starts_with(&path)) => Ok(None),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl FileAccess for MemoryFiles {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        Ok(self.lookup(path)?.map_or(FileKind::Directory, kind_of))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        match self.lookup(path)? {
            Some(MemoryEntry::File(content)) => {
                let end = usize::try_from(limit)
                    .unwrap_or(usize::MAX)
                    .saturating_add(1)
                    .min(content.len());
                Ok(content[..end].to_vec())
            }
            Some(MemoryEntry::Unreadable(error)) => Err((*error).into()),
            _ => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        if self.kind(path)? != FileKind::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        let folder = self.resolve(path)?;
        let mut names = BTreeMap::new();
        for (key, entry) in &self.entries {
            let Ok(below) = key.strip_prefix(&folder) else {
                continue;
            };
            let mut parts = below.components();
            let Some(first) = parts.next() else { continue };
            let kind = if parts.next().is_some() {
                FileKind::Directory
            } else {
                kind_of(entry)
            };
            names.insert(first.as_os_str().to_string_lossy().into_owned(), kind);
        }
        Ok(names.into_iter().collect())
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.lookup(path)?;
        self.resolve(path)
    }
}

/// Returns the kind of an entry without following links.
fn kind_of(entry: &MemoryEntry) -> FileKind {
    match entry {
        MemoryEntry::File(_) | MemoryEntry::Unreadable(_) => FileKind::File,
        MemoryEntry::Directory => FileKind::Directory,
        MemoryEntry::Link(_) | MemoryEntry::Device => FileKind::Other,
    }
}

/// Removes `.` and `..`.
fn normalize_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Returns the parts of a path in reverse order.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components()
        .rev()
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_and_link_loops_are_errors() {
        let files = MemoryFiles::new()
            .file("/p/a", "x")
            .link("/p/b", "a")
            .link("/p/c", "d")
            .link("/p/d", "c");
        assert_eq!(files.read(Path::new("/p/b"), 10).unwrap(), b"x");
        assert_eq!(
            files.canonicalize(Path::new("/p/./b")).unwrap(),
            Path::new("/p/a")
        );
        assert!(files.kind(Path::new("/p/c")).is_err());
        assert_eq!(files.list_directory(Path::new("/p")).unwrap().len(), 4);
    }
}
