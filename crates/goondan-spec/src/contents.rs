//! What tells the files of an installed package from any others: one hash over their names and bytes.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::files::{FileKind, Files};

/// The most files and folders of a package.
pub const MAX_ENTRIES: usize = 10_000;
/// The most bytes of a package, unpacked.
pub const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// How many folders deep a package may be.
pub const MAX_DEPTH: usize = 32;

/// The hash of all files below `root`, as `sha256-` with hex digits. It does not depend on the order in which a system lists
/// them, nor on times, owners and modes.
///
/// # Errors
/// Something can't be read, is neither a file nor a folder, or there is more than a package may hold.
pub fn contents(files: &dyn Files, root: &Path) -> io::Result<String> {
    contents_without(files, root, &[])
}

/// As [`contents`], without what is called so at the top of the folder.
///
/// # Errors
/// As [`contents`].
pub fn contents_without(files: &dyn Files, root: &Path, left_out: &[&str]) -> io::Result<String> {
    let mut walk = Walk {
        files,
        left_out,
        found: Vec::new(),
        entries: 0,
        bytes: 0,
    };
    walk.folder(root, "", 0)?;
    walk.found.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, hash) in &walk.found {
        // Names can hold anything but a zero byte.
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(hash);
    }
    Ok(format!("sha256-{}", hex(&hasher.finalize())))
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing into a text does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

struct Walk<'f> {
    files: &'f dyn Files,
    left_out: &'f [&'f str],
    found: Vec<(String, Vec<u8>)>,
    entries: usize,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, path: &Path, relative: &str, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!(
                "it has folders more than {MAX_DEPTH} deep"
            )));
        }
        for (name, kind) in self.files.list(path)? {
            if relative.is_empty() && self.left_out.contains(&name.as_str()) {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(io::Error::other(format!(
                    "it has more than {MAX_ENTRIES} files"
                )));
            }
            let here = if relative.is_empty() {
                name.clone()
            } else {
                format!("{relative}/{name}")
            };
            match kind {
                FileKind::Directory => self.folder(&path.join(&name), &here, depth + 1)?,
                FileKind::File => self.file(&path.join(&name), here)?,
                FileKind::Other => {
                    return Err(io::Error::other(format!(
                        "`{here}` is neither a file nor a folder"
                    )));
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, relative: String) -> io::Result<()> {
        let left = MAX_BYTES - self.bytes;
        let bytes = self.files.read(path, left)?;
        if bytes.len() as u64 > left {
            return Err(io::Error::other(format!(
                "it has more than {} MiB",
                MAX_BYTES / 1024 / 1024
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

    fn of(files: &MemoryFiles) -> String {
        contents(files, Path::new("/p")).unwrap()
    }

    #[test]
    fn names_and_bytes_count_and_nothing_is_mistaken_for_something_else() {
        let base = || MemoryFiles::new().file("/p/a", "one").file("/p/b/c", "two");
        let known = of(&base());
        assert_eq!(
            known,
            of(&MemoryFiles::new().file("/p/b/c", "two").file("/p/a", "one"))
        );
        for other in [
            base().file("/p/d", ""),
            base().file("/p/a", "onE"),
            MemoryFiles::new().file("/p/a", "one").file("/p/b/d", "two"),
            MemoryFiles::new().file("/p/a", "two").file("/p/b/c", "one"),
            MemoryFiles::new().file("/p/a", "one"),
        ] {
            assert_ne!(known, of(&other));
        }
    }

    #[test]
    fn a_link_is_no_part_of_a_package() {
        let files = MemoryFiles::new()
            .file("/p/a", "one")
            .link("/p/b", "/etc/passwd");
        assert!(contents(&files, Path::new("/p")).is_err());
    }
}
