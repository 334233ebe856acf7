//! Hashes of file contents, for approvals that cover the content of files.

use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::ids::hex;

/// Size limit of a hashed file, in bytes.
pub const MAX_HASHED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the SHA-256 hash of a file as hexadecimal digits; `None` if the file is unreadable or too
/// large.
pub fn content_hash(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path)
        .ok()?
        .take(MAX_HASHED_FILE_BYTES + 1);
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

/// Returns the content hash of a file. If the file has none, returns its size and the time of its
/// last change, which a program cannot set.
pub fn content_identity(path: &Path) -> String {
    content_hash(path).unwrap_or_else(|| {
        path.metadata().map_or_else(
            |_| "no such file".to_owned(),
            |metadata| format!("{} bytes, {}", metadata.len(), last_change(&metadata)),
        )
    })
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
