//! Open documents as an overlay over the files on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gen_lsp_types::Uri;
use goondan_spec::FileAccess;
use goondan_spec::files::FileKind;

/// Open document with the editor's content.
#[derive(Debug, Clone)]
pub(crate) struct OpenDocument {
    /// URI as the editor spells it.
    pub(crate) uri: Uri,
    pub(crate) version: Option<i32>,
    pub(crate) text: Arc<str>,
}

/// Open documents by path, with symbolic links resolved.
pub(crate) type OpenDocuments = BTreeMap<PathBuf, OpenDocument>;

/// File access in which open documents replace the files on disk.
pub(crate) struct DocumentOverlay<'o> {
    pub(crate) disk: &'o dyn FileAccess,
    pub(crate) open: &'o OpenDocuments,
}

impl DocumentOverlay<'_> {
    /// Returns the text of a file as the editor shows it, without a byte order mark.
    pub(crate) fn text(&self, path: &Path) -> Option<Arc<str>> {
        if let Some(document) = self.open.get(path) {
            return Some(Arc::clone(&document.text));
        }
        let bytes = self.disk.read(path, u64::from(u32::MAX)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.strip_prefix('\u{feff}').unwrap_or(&text).into())
    }

    /// Returns the open document at `path`; `None` if the editor has not opened it.
    fn find_open(&self, path: &Path) -> Option<&OpenDocument> {
        self.open
            .get(path)
            .or_else(|| self.open.get(&normalize_path(path)))
    }

    /// Returns the paths of open documents below a directory, relative to it.
    fn open_paths_below<'p>(&'p self, folder: &'p Path) -> impl Iterator<Item = &'p Path> {
        let from = self.open.range(folder.to_owned()..);
        from.map_while(move |(path, _)| path.strip_prefix(folder).ok())
            .filter(|rest| !rest.as_os_str().is_empty())
    }
}

impl FileAccess for DocumentOverlay<'_> {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        if self.find_open(path).is_some() {
            return Ok(FileKind::File);
        }
        match self.disk.kind(path) {
            Err(_)
                if self
                    .open_paths_below(&normalize_path(path))
                    .next()
                    .is_some() =>
            {
                Ok(FileKind::Directory)
            }
            known => known,
        }
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let Some(document) = self.find_open(path) else {
            return self.disk.read(path, limit);
        };
        let bytes = document.text.as_bytes();
        let end = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_add(1)
            .min(bytes.len());
        Ok(bytes[..end].to_vec())
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let folder = normalize_path(path);
        let mut new: Vec<(String, FileKind)> = Vec::new();
        for rest in self.open_paths_below(&folder) {
            let mut parts = rest.components();
            let Some(name) = parts.next().and_then(|name| name.as_os_str().to_str()) else {
                continue;
            };
            new.push((
                name.to_owned(),
                if parts.next().is_some() {
                    FileKind::Directory
                } else {
                    FileKind::File
                },
            ));
        }
        let mut names = match self.disk.list_directory(path) {
            Ok(names) => names,
            Err(_) if !new.is_empty() => Vec::new(),
            Err(error) => return Err(error),
        };
        if !new.is_empty() {
            let known: BTreeSet<String> = names.iter().map(|(name, _)| name.clone()).collect();
            new.dedup();
            names.extend(new.into_iter().filter(|(name, _)| !known.contains(name)));
        }
        Ok(names)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        match self.disk.canonicalize(path) {
            Err(_) if self.kind(path).is_ok() => Ok(normalize_path(path)),
            known => known,
        }
    }

    fn metadata(&self, path: &Path) -> Option<Metadata> {
        self.disk.metadata(path)
    }
}

/// Resolves dots, and symbolic links of the existing part of `path`.
pub(crate) fn resolve_links(disk: &dyn FileAccess, path: &Path) -> PathBuf {
    let path = normalize_path(path);
    let known = path
        .ancestors()
        .find_map(|above| Some((above, disk.canonicalize(above).ok()?)));
    match known {
        Some((above, real)) => path
            .strip_prefix(above)
            .map_or_else(|_| path.clone(), |rest| join(&real, rest)),
        None => path,
    }
}

/// Joins two paths, but without a trailing separator if `rest` is empty.
fn join(folder: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        folder.to_owned()
    } else {
        folder.join(rest)
    }
}

/// Resolves `.` and `..` in a path without accessing the file system.
fn normalize_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use goondan_spec::MemoryFiles;

    use super::*;

    #[test]
    fn open_documents_override_files_on_disk() {
        let disk = MemoryFiles::new()
            .file("/p/a.yaml", "old")
            .file("/p/b.yaml", "b");
        let document = |text: &str| OpenDocument {
            uri: Uri(String::new()),
            version: None,
            text: text.into(),
        };
        let open: OpenDocuments = [
            ("/p/a.yaml", "new"),
            ("/p/new/c.yaml", "c"),
            ("/pp.yaml", "x"),
        ]
        .into_iter()
        .map(|(path, text)| (PathBuf::from(path), document(text)))
        .collect();
        let files = DocumentOverlay {
            disk: &disk,
            open: &open,
        };
        assert_eq!(files.read(Path::new("/p/./a.yaml"), 1).unwrap(), b"ne");
        assert_eq!(files.text(Path::new("/p/b.yaml")).as_deref(), Some("b"));
        let mut names = files.list_directory(Path::new("/p")).unwrap();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let kinds = [
            ("a.yaml", FileKind::File),
            ("b.yaml", FileKind::File),
            ("new", FileKind::Directory),
        ];
        assert_eq!(names, kinds.map(|(name, kind)| (name.to_owned(), kind)));
        assert_eq!(
            files.kind(Path::new("/p/new")).unwrap(),
            FileKind::Directory
        );
        assert_eq!(files.list_directory(Path::new("/p/new")).unwrap().len(), 1);
        assert_eq!(
            files.canonicalize(Path::new("/p/new/c.yaml")).unwrap(),
            Path::new("/p/new/c.yaml")
        );
        assert!(files.kind(Path::new("/p/none")).is_err());
    }
}
