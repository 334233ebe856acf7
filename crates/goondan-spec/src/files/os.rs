//! File access to the files of this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{FileAccess, FileKind};
use crate::regular_file;

/// File access through `std::fs`.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFiles;

impl FileAccess for OsFiles {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        fs::metadata(path).map(|metadata| FileKind::from(metadata.file_type()))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        regular_file::read_start(path, limit.saturating_add(1))
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            names.push(match entry.file_name().into_string() {
                Ok(name) => {
                    let kind = entry.file_type().map_or(FileKind::Other, FileKind::from);
                    (name, kind)
                }
                Err(name) => (
                    name.to_string_lossy().into_owned(),
                    FileKind::NonUnicodeName,
                ),
            });
        }
        Ok(names)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn metadata(&self, path: &Path) -> Option<fs::Metadata> {
        fs::metadata(path).ok()
    }
}

impl From<fs::FileType> for FileKind {
    fn from(found: fs::FileType) -> Self {
        if found.is_file() {
            FileKind::File
        } else if found.is_dir() {
            FileKind::Directory
        } else {
            FileKind::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_one_byte_after_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(OsFiles.read(&path, 4).unwrap(), b"01234");
        assert_eq!(OsFiles.kind(&path).unwrap(), FileKind::File);
        assert_eq!(
            OsFiles.list_directory(directory.path()).unwrap(),
            [("a".to_owned(), FileKind::File)]
        );
    }
}
