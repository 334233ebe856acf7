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
    }
}
