//! Hashes of file contents, for approvals that cover the content of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use goondan_spec::regular_file;
use sha2::{Digest as _, Sha256};

use crate::code_directory::{CodeDirectory, MAX_CODE_ENTRIES, MAX_ENTRIES, is_left_out};
use crate::ids::hex;

/// Size limit of a hashed file, in bytes.
pub const MAX_HASHED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Size limit of a file in a directory of code whose content is hashed, in bytes.
const MAX_CODE_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Time after which a further change of a file gets another time of change.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// Maximum number of waits for a file that is written all the time.
const MAX_SETTLE_ATTEMPTS: usize = 5;

/// Maximum number of entries of a whole directory with an identity.
const MAX_WHOLE_ENTRIES: usize = 500_000;

/// Returns the SHA-256 hash of a file as hexadecimal digits; `None` if the file is unreadable or too
/// large.
pub fn content_hash(path: &Path) -> Option<String> {
    let file = regular_file::open(path).ok()?;
    if file.metadata().ok()?.len() > MAX_HASHED_FILE_BYTES {
        return None;
    }
    let mut file = file.take(MAX_HASHED_FILE_BYTES + 1);
    let mut hash = Sha256::new();
    let mut length = 0;
    let mut piece = vec![0; 64 * 1024];
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
    if metadata.len() > MAX_HASHED_FILE_BYTES {
        Some(size_and_change(&metadata))
    } else {
        content_hash(path)
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

/// Returns a hash of all paths and contents of the code in a directory. For large files, and for a
/// directory with many files, sizes and times of change represent the contents.
fn directory_hash(path: &Path) -> Option<String> {
    let files = CodeDirectory::read_up_to(path, MAX_CODE_ENTRIES)?.files;
    let has_many_files = files.len() > MAX_ENTRIES;
    let is_large = |file: &Path| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.len() > MAX_CODE_FILE_BYTES)
    };
    let identity = |file: &Path| {
        if has_many_files || is_large(file) {
            settled_metadata(|| file.metadata())
                .map_or_else(String::new, |metadata| size_and_change(&metadata))
        } else {
            content_identity(file)
        }
    };
    hash_of(files.iter().map(|file| (file, identity(file))), path)
}

/// Prefix of an identity of all files in a directory. An identity of only the code has no prefix.
const WHOLE_PREFIX: &str = "all files: ";

/// Returns the identity of all files in a directory and below it: their paths, sizes and times of
/// change. `None` if there are more than 500,000 entries. Accesses the file system.
pub fn whole_identity(path: &Path) -> Option<String> {
    let mut files = BTreeMap::new();
    let mut count = 0;
    let mut todo = vec![path.to_owned()];
    let mut visited = BTreeSet::new();
    while let Some(folder) = todo.pop() {
        if !visited.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
            continue;
        }
        let Ok(entries) = folder.read_dir() else {
            files.insert(folder, "unreadable".to_owned());
            continue;
        };
        for entry in entries {
            let path = entry.ok()?.path();
            count += 1;
            if count > MAX_WHOLE_ENTRIES {
                return None;
            }
            if path.is_dir() && !is_left_out(&path) {
                todo.push(path.clone());
            }
            // A link counts with its own metadata and with those of its target.
            let is_file = |metadata: &Metadata| !metadata.is_dir();
            let own_metadata = settled_metadata(|| path.symlink_metadata()).filter(is_file);
            let target = settled_metadata(|| path.metadata()).filter(is_file);
            let identities = own_metadata.iter().chain(&target).map(size_and_change);
            files.insert(path, identities.collect::<Vec<_>>().join(" "));
        }
    }
    Some(format!(
        "{WHOLE_PREFIX}{}",
        hash_of(files.into_iter(), path)?
    ))
}

/// Returns true if a path has this identity, which comes from [`whole_identity`] or another function
/// of this module. Accesses the file system.
pub fn has_identity(path: &Path, identity: &str) -> bool {
    if identity.starts_with(WHOLE_PREFIX) {
        whole_identity(path).is_some_and(|now| now == identity)
    } else {
        content_identity(path) == identity
    }
}

/// Hashes files below `folder` with their identities.
fn hash_of<P: AsRef<Path>>(
    files: impl Iterator<Item = (P, String)>,
    folder: &Path,
) -> Option<String> {
    let mut hash = Sha256::new();
    for (file, identity) in files {
        let name = file.as_ref().strip_prefix(folder).ok()?;
        for bytes in [name.as_os_str().as_encoded_bytes(), identity.as_bytes()] {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
    }
    Some(hex(&hash.finalize()))
}

/// Returns the metadata of a file. First waits until the last change is so old that a further
/// change gets another time, because file systems store times in steps of several milliseconds.
fn settled_metadata(read: impl Fn() -> std::io::Result<Metadata>) -> Option<Metadata> {
    for _ in 0..MAX_SETTLE_ATTEMPTS {
        let metadata = read().ok()?;
        match time_since_change(&metadata) {
            Some(age) if age < SETTLE_TIME => std::thread::sleep(SETTLE_TIME - age),
            _ => return Some(metadata),
        }
    }
    read().ok()
}

/// Returns the time since the last change; `None` if it is in the future.
#[cfg(unix)]
fn time_since_change(metadata: &Metadata) -> Option<Duration> {
    use std::os::unix::fs::MetadataExt as _;
    let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
    let change = seconds + Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).ok()?);
    (std::time::UNIX_EPOCH + change).elapsed().ok()
}

#[cfg(not(unix))]
fn time_since_change(metadata: &Metadata) -> Option<Duration> {
    metadata.modified().ok()?.elapsed().ok()
}

fn size_and_change(metadata: &Metadata) -> String {
    format!("{} bytes, {}", metadata.len(), last_change(metadata))
}

#[cfg(unix)]
fn last_change(metadata: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    format!("file {device}:{inode}, changed {seconds}.{nanoseconds:09}")
}

#[cfg(not(unix))]
fn last_change(metadata: &Metadata) -> String {
    format!("changed {:?}", metadata.modified().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_file_contents_have_different_hashes() {
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
    fn the_identity_of_a_directory_covers_only_its_code() {
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
    fn the_whole_identity_of_a_directory_covers_all_files() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
            whole_identity(dir.path()).unwrap()
        };
        let mut identities = vec![
            write("notes.txt", "data"),
            write("notes.txt", "more"),
            write(".git/config", "x"),
            write("a/b/c.log", "x"),
        ];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("notes.txt", dir.path().join("link")).unwrap();
            identities.push(whole_identity(dir.path()).unwrap());
        }
        for (number, identity) in identities.iter().enumerate() {
            assert!(!identities[..number].contains(identity), "{number}");
        }
        let last = identities.pop().unwrap();
        assert!(has_identity(dir.path(), &last));
        assert!(!has_identity(dir.path(), &identities[0]));
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
