//! Unpacks untrusted archives. It writes only regular files and directories, into an empty
//! directory.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use goondan_spec::content_hash::{MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES};
use tar::{Archive, Entry, EntryType};

use super::{MAX_ARCHIVE_BYTES, MAX_TAR_BYTES, entry_names};
use crate::error::{PackageError, Result, escape_line};

/// Maximum ratio of unpacked to packed size. Text usually has a ratio of about 10.
const MAX_COMPRESSION_RATIO: u64 = 200;
/// Size in bytes below which the ratio is not checked.
const RATIO_CHECK_MIN_BYTES: u64 = 16 * 1024 * 1024;
/// Directory in which a project stores its packages. An archive must not contain one.
const INSTALLED_PACKAGES_DIR: &str = ".goondan";

/// Unpacks the `.tgz` into the empty directory `into`, without the archive's top directory.
///
/// # Errors
///
/// Fails if the archive exceeds a limit or contains a forbidden entry, or if a file cannot be
/// written. Files that were already written remain.
pub fn unpack(archive: &[u8], into: &Path) -> Result<()> {
    if archive.len() > MAX_ARCHIVE_BYTES {
        return Err(PackageError::archive(format!(
            "The archive is larger than {} MiB.",
            MAX_ARCHIVE_BYTES / 1024 / 1024
        )));
    }
    let max_bytes = (archive.len() as u64)
        .saturating_mul(MAX_COMPRESSION_RATIO)
        .max(RATIO_CHECK_MIN_BYTES);
    ArchiveUnpacker::new(into, true).run(GzDecoder::new(archive), max_bytes)
}

/// Unpacks a plain tar with all its directories, as git creates it from a commit.
///
/// # Errors
///
/// Fails like [`unpack`].
pub fn from_tar(tar: &[u8], into: &Path) -> Result<()> {
    ArchiveUnpacker::new(into, false).run(tar, u64::MAX)
}

struct ArchiveUnpacker<'p> {
    into: &'p Path,
    /// True if the top directory is removed from all paths.
    strips: bool,
    top: Option<String>,
    /// Written entries by their [`entry_names::key`].
    written: HashMap<String, WrittenEntry>,
    bytes: u64,
}

struct WrittenEntry {
    /// Path with the spelling of the archive.
    spelling: String,
    is_directory: bool,
}

impl<'p> ArchiveUnpacker<'p> {
    fn new(into: &'p Path, strips: bool) -> Self {
        ArchiveUnpacker {
            into,
            strips,
            top: None,
            written: HashMap::new(),
            bytes: 0,
        }
    }

    /// Unpacks all entries; reads at most `max_bytes` of tar data. Fails if the archive has no
    /// file.
    fn run(mut self, source: impl Read, max_bytes: u64) -> Result<()> {
        // Limits the number of empty entries as well.
        let max_bytes = max_bytes.min(MAX_TAR_BYTES);
        let mut archive = Archive::new(LimitedReader {
            source,
            left: max_bytes,
        });
        let mut entries = 0;
        for entry in archive
            .entries()
            .map_err(|error| unreadable_archive_error(&error))?
        {
            let mut entry = entry.map_err(|error| unreadable_archive_error(&error))?;
            entries += 1;
            if entries > MAX_PACKAGE_ENTRIES {
                return Err(PackageError::archive(format!(
                    "The archive has more than {MAX_PACKAGE_ENTRIES} entries."
                )));
            }
            self.unpack_entry(&mut entry)?;
        }
        if let Some(head) = self.bare_repository_head() {
            return Err(PackageError::archive(format!(
                "The archive contains the git repository of `{}`, whose settings can run programs.",
                escape_line(&head)
            )));
        }
        if self.written.values().any(|entry| !entry.is_directory) {
            Ok(())
        } else {
            Err(PackageError::archive("The archive contains no file."))
        }
    }

    /// Returns the written file `HEAD` of a directory that git takes for a repository without a
    /// working tree.
    fn bare_repository_head(&self) -> Option<String> {
        let is_written = |path: &str| self.written.contains_key(path);
        self.written.iter().find_map(|(path, entry)| {
            let directory = path.strip_suffix("head")?;
            let is_head = directory.is_empty() || directory.ends_with('/');
            // The objects can be in another directory, which a file names.
            let has_objects = ["objects", "commondir"]
                .iter()
                .any(|name| is_written(&format!("{directory}{name}")));
            (is_head && has_objects).then(|| entry.spelling.clone())
        })
    }

    /// Unpacks one entry. Rejects links, devices and paths that lead out of the directory.
    fn unpack_entry<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<()> {
        let bytes = entry.path_bytes().into_owned();
        let shown_name = escape_line(
            &String::from_utf8_lossy(&bytes)
                .chars()
                .take(120)
                .collect::<String>(),
        );
        let refusal_error = |why: &str| {
            PackageError::archive(format!("The archive contains `{shown_name}`, but {why}."))
        };
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            // The entry contains the commit id that git adds.
            return Ok(());
        }
        let is_folder = match kind {
            EntryType::Directory => true,
            EntryType::Regular => false,
            EntryType::Symlink | EntryType::Link => {
                return Err(refusal_error("a package must not contain links"));
            }
            _ => {
                return Err(refusal_error(
                    "a package must contain only files and directories",
                ));
            }
        };
        let parts = entry_names::parts(&bytes).map_err(refusal_error)?;
        let parts = self.below_top(&parts).map_err(refusal_error)?;
        if parts.is_empty() {
            return if is_folder {
                Ok(())
            } else {
                Err(refusal_error("it is not in a directory"))
            };
        }
        if parts[0].eq_ignore_ascii_case(INSTALLED_PACKAGES_DIR) {
            return Err(refusal_error(
                "that directory is reserved for installed packages",
            ));
        }
        for end in 1..parts.len() {
            self.create_folder(&parts[..end])
                .map_err(|why| refusal_error(&why))?;
        }
        if is_folder {
            self.create_folder(parts).map_err(|why| refusal_error(&why))
        } else {
            self.write_file(parts, entry)
                .map_err(|why| refusal_error(&why))
        }
    }

    /// Returns the path without the top directory.
    fn below_top<'a, 'e>(&mut self, parts: &'a [&'e str]) -> Result<&'a [&'e str], &'static str> {
        let (true, Some((first, rest))) = (self.strips, parts.split_first()) else {
            return Ok(parts);
        };
        let top = self.top.get_or_insert_with(|| (*first).to_owned());
        if top == first {
            Ok(rest)
        } else {
            Err("all entries must be in one directory")
        }
    }

    /// Creates a directory of the archive. Fails if another spelling of the path exists.
    fn create_folder(&mut self, parts: &[&str]) -> Result<(), String> {
        match self.written.get(&entry_names::key(parts)) {
            Some(entry) if entry.is_directory && entry.spelling == parts.join("/") => {
                return Ok(());
            }
            Some(_) => return Err("another entry has the same name on some systems".to_owned()),
            None => {}
        }
        let directory = WrittenEntry {
            spelling: parts.join("/"),
            is_directory: true,
        };
        self.written.insert(entry_names::key(parts), directory);
        fs::create_dir(self.path(parts)).map_err(|error| format!("it cannot be written: {error}"))
    }

    /// Writes a file of the archive. Fails if the path exists or the package is too large.
    fn write_file<R: Read>(
        &mut self,
        parts: &[&str],
        entry: &mut Entry<'_, R>,
    ) -> Result<(), String> {
        let file = WrittenEntry {
            spelling: parts.join("/"),
            is_directory: false,
        };
        let previous = self.written.insert(entry_names::key(parts), file);
        if previous.is_some() {
            return Err("another entry has the same name on some systems".to_owned());
        }
        let size = entry.size();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > MAX_PACKAGE_BYTES {
            return Err(format!(
                "the total size of all files is more than {} MiB",
                MAX_PACKAGE_BYTES / 1024 / 1024
            ));
        }
        let is_program = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        let mut file = create(&self.path(parts), is_program)
            .map_err(|error| format!("it cannot be written: {error}"))?;
        let copied = io::copy(entry, &mut file)
            .map_err(|error| format!("it cannot be unpacked: {error}"))?;
        if copied == size {
            Ok(())
        } else {
            Err("the archive ends before the end of the file".to_owned())
        }
    }

    fn path(&self, parts: &[&str]) -> std::path::PathBuf {
        parts
            .iter()
            .fold(self.into.to_owned(), |path, part| path.join(part))
    }
}

/// Creates a new file. Of the mode, only the executable bit is kept.
fn create(path: &Path, is_program: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if is_program { 0o755 } else { 0o644 });
    }
    let _ = is_program;
    options.open(path)
}

/// Creates the error for an archive that cannot be read.
fn unreadable_archive_error(error: &io::Error) -> PackageError {
    PackageError::archive(format!("The archive cannot be read: {error}.")).suggest(
        "a package is a `.tgz` that contains a `goondan.yaml`; create one with `gdn package pack`",
    )
}

/// A reader that fails after the permitted number of bytes.
struct LimitedReader<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(
                "its unpacked size is suspiciously large, or more than a package may have",
            )
        })?;
        Ok(read)
    }
}
