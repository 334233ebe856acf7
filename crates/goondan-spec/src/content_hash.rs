//! Content hash of an installed package, over the names and bytes of its files.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::files::{FileAccess, FileKind};

/// Maximum number of files and directories in a package.
pub const MAX_PACKAGE_ENTRIES: usize = 10_000;
/// Maximum unpacked size of a package, in bytes.
pub const MAX_PACKAGE_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum directory depth of a package.
pub const MAX_PACKAGE_DEPTH: usize = 32;

/// Hashes all files below `root` and returns `sha256-` with hex digits. The hash does not depend on
/// listing order, times, owners and modes.
///
/// # Errors
/// Fails if an entry can't be read or is neither a file nor a directory, or if a limit is exceeded.
pub fn contents(files: &dyn FileAccess, root: &Path) -> io::Result<String> {
    contents_without(files, root, &[])
}

/// Works like [`contents`] without the names `left_out` at the top level.
///
/// # Errors
/// Fails like [`contents`].
pub fn contents_without(
    files: &dyn FileAccess,
    root: &Path,
    left_out: &[&str],
) -> io::Result<String> {
    let mut walk = ContentsWalk {
        files,
        left_out,
        found: Vec::new(),
        entries: 0,
        bytes: 0,
    };
    walk.hash_directory(root, "", 0)?;
    walk.found.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, hash) in &walk.found {
        // A zero byte cannot occur in a name, so it separates names from hashes unambiguously.
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(hash);
    }
    Ok(format!("sha256-{}", hex(&hasher.finalize())))
}

/// Formats bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

struct ContentsWalk<'f> {
    files: &'f dyn FileAccess,
    left_out: &'f [&'f str],
    found: Vec<(String, Vec<u8>)>,
    entries: usize,
    bytes: u64,
}

impl ContentsWalk<'_> {
    /// Hashes the files below a directory. Fails if the package exceeds a limit, or if an entry is
    /// neither a file nor a directory.
    fn hash_directory(&mut self, path: &Path, relative: &str, depth: usize) -> io::Result<()> {
        if depth > MAX_PACKAGE_DEPTH {
            return Err(io::Error::other(format!(
                "its directories are nested more than {MAX_PACKAGE_DEPTH} levels deep"
            )));
        }
        for (name, kind) in self.files.list_directory(path)? {
            // A name that is not Unicode cannot occur in YAML, so the package cannot use the entry.
            if kind == FileKind::NonUnicodeName {
                continue;
            }
            if relative.is_empty() && self.left_out.contains(&name.as_str()) {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_PACKAGE_ENTRIES {
                return Err(io::Error::other(format!(
                    "it has more than {MAX_PACKAGE_ENTRIES} files"
                )));
            }
            let relative_path = if relative.is_empty() {
                name.clone()
            } else {
                format!("{relative}/{name}")
            };
            match kind {
                FileKind::Directory => {
                    self.hash_directory(&path.join(&name), &relative_path, depth + 1)?
                }
                FileKind::File => self.file(&path.join(&name), relative_path)?,
                FileKind::Other | FileKind::NonUnicodeName => {
                    return Err(io::Error::other(format!(
                        "`{relative_path}` is neither a file nor a directory"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Hashes a file. Fails if the package becomes too large.
    fn file(&mut self, path: &Path, relative: String) -> io::Result<()> {
        let remaining_bytes = MAX_PACKAGE_BYTES - self.bytes;
        let bytes = self.files.read(path, remaining_bytes)?;
        if bytes.len() as u64 > remaining_bytes {
            return Err(io::Error::other(format!(
                "it is larger than {} MiB",
                MAX_PACKAGE_BYTES / 1024 / 1024
            )));
        }
        self.bytes += bytes.len() as u64;
        self.found.push((relative, Sha256::digest(&bytes).to_vec()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    fn hash_of(files: &MemoryFiles) -> String {
        contents(files, Path::new("/p")).unwrap()
    }

    #[test]
    fn the_hash_depends_on_file_names_and_contents() {
        let base = || MemoryFiles::new().file("/p/a", "one").file("/p/b/c", "two");
        let known = hash_of(&base());
        assert_eq!(
            known,
            hash_of(&MemoryFiles::new().file("/p/b/c", "two").file("/p/a", "one"))
        );
        for other in [
            base().file("/p/d", ""),
            base().file("/p/a", "onE"),
            MemoryFiles::new().file("/p/a", "one").file("/p/b/d", "two"),
            MemoryFiles::new().file("/p/a", "two").file("/p/b/c", "one"),
            MemoryFiles::new().file("/p/a", "one"),
        ] {
            assert_ne!(known, hash_of(&other));
        }
    }

    #[test]
    fn a_link_in_a_package_is_an_error() {
        let files = MemoryFiles::new()
            .file("/p/a", "one")
            .link("/p/b", "/etc/passwd");
        assert!(contents(&files, Path::new("/p")).is_err());
    }
}
