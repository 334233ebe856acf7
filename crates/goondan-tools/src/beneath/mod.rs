//! Works on files below a folder without following links, so that nobody can slip one in between a check and its use.
//!
//! A path is gone along part by part from its base on, each part opened from the folder that was opened before it.
//! Everything then happens in the folder that was found, by the name of the file alone.

#[cfg(unix)]
mod by_handle;
#[cfg(not(unix))]
mod by_path;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
pub(crate) use by_handle::{Folder, open_without_links};
#[cfg(not(unix))]
pub(crate) use by_path::{Folder, open_without_links};

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// To read it.
    Read,
    /// To add to it; it is made where it does not exist.
    Append,
    /// To write it from its start on, over what it holds; it is made where it does not exist.
    Write,
    /// To fill it; it must not exist.
    Create,
}

/// What there is under a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    /// A link, a pipe, a device.
    Other,
}

/// Opens a resolved path below `base` and follows no link on the way: whoever slips one in meanwhile only makes this fail.
pub(crate) fn open_beneath(base: &Path, path: &Path, how: How) -> io::Result<File> {
    match path.file_name() {
        Some(name) if path != base => Folder::above(base, path)?.open_file(name, how),
        _ => OpenOptions::new().read(true).open(path),
    }
}

impl Folder {
    /// The folder that holds `path`, which lies below `base`.
    pub(crate) fn above(base: &Path, path: &Path) -> io::Result<Folder> {
        Folder::open(base, path.parent().unwrap_or(base))
    }

    /// Puts `content` under `name` in one step: whoever reads meanwhile sees the old or the new file, never a part.
    pub(crate) fn put(
        &self,
        name: &OsStr,
        content: &[u8],
        mode: Option<Permissions>,
    ) -> io::Result<()> {
        let (mut draft, file) = Draft::new(self)?;
        fill(file, content, mode)?;
        self.rename(draft.name.as_ref(), name)?;
        draft.gone = true;
        Ok(())
    }

    /// The same where there is nothing under that name yet; else an error, and what is there stays.
    pub(crate) fn put_new(&self, name: &OsStr, content: &[u8]) -> io::Result<()> {
        let (draft, file) = Draft::new(self)?;
        fill(file, content, None)?;
        // The draft keeps its first name, which goes when it is dropped.
        self.link(draft.name.as_ref(), name)
    }
}

/// Writes a file whole, and closes it. It has its mode before its content, which may not be for everybody.
fn fill(mut file: File, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.write_all(content)
}

/// A file on its way to its name. It goes when it is dropped before it got there.
struct Draft<'a> {
    folder: &'a Folder,
    name: String,
    gone: bool,
}

impl<'a> Draft<'a> {
    /// An empty file under a name that nobody has.
    fn new(folder: &'a Folder) -> io::Result<(Draft<'a>, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".tmp-{}-{number}", std::process::id());
            match folder.open_file(name.as_ref(), How::Create) {
                Ok(file) => {
                    return Ok((
                        Draft {
                            folder,
                            name,
                            gone: false,
                        },
                        file,
                    ));
                }
                // Left by a program with the same number that ended early.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.gone {
            let _ = self.folder.remove_file(self.name.as_ref());
        }
    }
}
