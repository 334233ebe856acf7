//! Hashes of file contents, for approvals that cover the content of files.

use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::code_directory::CodeDirectory;
use crate::ids::hex;

/// Size limit of a hashed file, in bytes.
pub const MAX_HASHED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the SHA-256 hash of a file as hexadecimal digits; `None` if the file is unreadable or too
/// large.
pub fn content_hash(path: &Path) -> Option<String> {
    let file = std::fs::File::open(path).ok()?;
    if file.metadata().ok()?.len() > MAX_HASHED_FILE_BYTES {
        return None;
    }
    let mut file = file.take(MAX_HASHED_FILE_BYTES + 1);
    let (mut hash, mut length, mut piece) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => {
                return Some(hex(&hash.finalize()));
            }
            read => {
                length += read as u64;
                if length > MAX_HASHED_FILE_BYTES {
                    return None;
                }
                hash.update(&piece[..read]);
            }
        }
    }
}

/// Returns the identity of the content of a file, or of the code in a directory. A file above the
/// size limit is identified by its size and the time of its last change. `None` if the path cannot be
/// read, or the directory has too many entries.
pub fn readable_content_identity(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok()?;
    if metadata.is_dir() {
        return directory_hash(path);
    }
    match metadata.len() > MAX_HASHED_FILE_BYTES {
        true => Some(size_and_change(&metadata)),
        false => content_hash(path),
    }
}

/// Returns the identity of the content of a file, or of the code in a directory. If the content
/// cannot be read, returns the size and the time of the last change, which a program cannot set.
pub fn content_identity(path: &Path) -> String {
    readable_content_identity(path).unwrap_or_else(|| {
        path.metadata().map_or_else(
            |_| "no such file".to_owned(),
            |metadata| size_and_change(&metadata),
        )
    })
}

/// Returns a hash of the code in a directory: of all paths and contents.
fn directory_hash(path: &Path) -> Option<String> {
    let mut hash = Sha256::new();
    for file in CodeDirectory::read(path)?.files {
        let name = file.strip_prefix(path).ok()?.to_string_lossy().into_owned();
        for text in [name, content_identity(&file)] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    }
    Some(hex(&hash.finalize()))
}

fn size_and_change(metadata: &std::fs::Metadata) -> String {
    format!("{} bytes, {}", metadata.len(), last_change(metadata))
}

#[cfg(unix)]
fn last_change(metadata: &std::fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    format!("file {device}:{inode}, changed {seconds}.{nanoseconds:09}")
}

#[cfg(not(unix))]
fn last_change(metadata: &std::fs::Metadata) -> String {
    format!("changed {:?}", metadata.modified().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_has_another_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.sh");
        assert_eq!(content_hash(&path), None);
        std::fs::write(&path, "echo a").unwrap();
        let first = content_hash(&path);
        std::fs::write(&path, "echo b").unwrap();
        assert!(first.is_some() && first != content_hash(&path));
        std::fs::write(&path, "echo a").unwrap();
        assert_eq!(first, content_hash(&path));
    }

    #[test]
    fn a_directory_has_the_identity_of_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
            readable_content_identity(dir.path()).unwrap()
        };
        let first = write("lib/start.py", "good");
        assert_eq!(first, write("notes.txt", "data"));
        let changed = [
            write("lib/start.py", "evil"),
            write("lib/new.py", "new"),
            write("program", "no suffix"),
            write("package.json", "{}"),
        ];
        for (number, identity) in changed.iter().enumerate() {
            assert!(*identity != first && !changed[..number].contains(identity));
        }
    }

    #[test]
    fn a_file_above_the_limit_has_no_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(MAX_HASHED_FILE_BYTES + 1)
            .unwrap();
        assert_eq!(content_hash(&path), None);
        let first = content_identity(&path);
        assert!(first.contains("changed"), "{first}");
        let mut file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(MAX_HASHED_FILE_BYTES + 2).unwrap();
        std::io::Write::write_all(&mut file, b"x").unwrap();
        assert_ne!(first, content_identity(&path));
    }
}
