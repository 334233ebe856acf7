//! Files and folders of one user.
//!
//! Conversations, and all that is written about them, are nobody else's business, whatever the umask of the user says. So
//! everything below a state root is made here, and so is what else holds conversations: cassettes, histories, exports. Files
//! of a project are made as the user makes files. Systems other than Unix have no modes; there the folder of the user is private.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The modes of folders and files.
#[cfg(unix)]
const FOLDER: u32 = 0o700;
#[cfg(unix)]
const FILE: u32 = 0o600;

/// What others than the user may do.
#[cfg(unix)]
const OF_OTHERS: u32 = 0o077;

/// A folder such as `/tmp`, where everybody may make files.
#[cfg(unix)]
const EVERYBODYS: u32 = 0o1000;

/// Makes a folder, and those above it that are missing. One that is there stays as it is.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FOLDER);
    builder.recursive(true).create(path)
}

/// Options that make a private file where they make one.
pub fn options() -> OpenOptions {
    #[allow(unused_mut, reason = "other systems than Unix have no modes")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE);
    options
}

/// Writes a file as a whole.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?
        .write_all(content)
}

/// Puts a file in place of the one that is there. Readers see the one or the other, and of several writers one wins.
///
/// # Errors
/// The file can't be written; the one before is still there.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    in_place(path, |draft| write(draft, content))
}

/// As [`replace`], also where the machine loses power; gives the file back, to go on behind its content.
///
/// # Errors
/// The file can't be written; the one before is still there.
pub fn replace_durably(path: &Path, content: &[u8]) -> io::Result<File> {
    let file = in_place(path, |draft| {
        let mut file = options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(file)
    })?;
    if let Some(folder) = path.parent() {
        // Where a folder can't be synced, the file is there all the same, unless the machine loses power.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(file)
}

/// Puts what `write` makes at another path in place of `path`.
fn in_place<T>(path: &Path, write: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let draft = draft_of(path);
    let replaced = write(&draft).and_then(|made| fs::rename(&draft, path).map(|()| made));
    if replaced.is_err() {
        let _ = fs::remove_file(&draft);
    }
    replaced
}

/// A name beside a file that no other writer uses: threads of this process and other processes write the same files.
fn draft_of(path: &Path) -> PathBuf {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(
        ".{}-{}.new",
        std::process::id(),
        DRAFTS.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

/// Keeps others out of a folder that is there, and so from all that is in it.
///
/// # Errors
/// The folder belongs to somebody else, or to everybody.
#[cfg(unix)]
pub fn tighten(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = fs::metadata(folder)?.permissions();
    let mode = permissions.mode();
    if mode & OF_OTHERS == 0 {
        return Ok(());
    }
    if mode & EVERYBODYS != 0 {
        return Err(io::Error::other("it is a folder for everybody's files"));
    }
    permissions.set_mode(mode & !OF_OTHERS);
    fs::set_permissions(folder, permissions)
}

/// Who may look into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone.
    Owner,
    /// Others, too; [`tighten`] changes that.
    Others,
    /// It is a folder for everybody's files.
    Everybody,
}

/// Who may look into a folder that is there. Nothing is changed.
///
/// # Errors
/// The folder is not there.
#[cfg(unix)]
pub fn access(folder: &Path) -> io::Result<Access> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(match fs::metadata(folder)?.permissions().mode() {
        mode if mode & OF_OTHERS == 0 => Access::Owner,
        mode if mode & EVERYBODYS != 0 => Access::Everybody,
        _ => Access::Others,
    })
}

/// Who may look into a folder that is there: that is not asked here.
///
/// # Errors
/// The folder is not there.
#[cfg(not(unix))]
pub fn access(folder: &Path) -> io::Result<Access> {
    fs::metadata(folder).map(|_| Access::Owner)
}

/// Keeps others out of a folder that is there: nothing to do here.
///
/// # Errors
/// The folder is not there.
#[cfg(not(unix))]
pub fn tighten(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn what_is_made_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        make_folder(&folder).unwrap();
        write(&folder.join("f"), b"x").unwrap();
        assert_eq!(
            [&dir.path().join("a"), &folder, &folder.join("f")].map(|path| mode(path)),
            [0o700, 0o700, 0o600]
        );
        write(&folder.join("f"), b"").unwrap();
        assert_eq!(fs::read(folder.join("f")).unwrap(), b"");
    }

    #[test]
    fn others_are_kept_out_of_a_folder_that_was_open() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        tighten(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
        set_mode(dir.path(), 0o1777);
        assert!(tighten(dir.path()).is_err(), "such a folder is not ours");
        assert_eq!(mode(dir.path()), 0o1777);
        assert!(tighten(&dir.path().join("missing")).is_err());
    }
}
