//! Exclusion of approved calls and sandboxed programs between the `gdn` processes of a user.
//!
//! All processes of a user share one lock file, in a directory that no sandboxed program reaches.
//! Each path has two bytes in it. A process locks the first byte of each directory that one of its
//! sandboxed programs may write to. While it starts a call with approved files, it locks the second
//! byte of the files and of all directories above them. Both sides lock first and check the bytes of
//! the other side afterwards, so at least one of them sees the other.
//!
//! The locks belong to the open file. The kernel removes them when the last process with this open
//! file ends. The watcher of sandboxes has it open too, so the locks remain until it has killed the
//! sandboxed programs of a killed process.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};

use super::ApprovedFileError;
use crate::mutex_lock::lock;
use crate::state_directory;

/// Shared directory of all programs. Sandboxes do not contain it. It does not depend on the
/// environment, so all processes of a user find the same lock file.
const SHARED_DIRECTORY: &str = "/dev/shm";

const LOCK_FILE_NAME: &str = "programs.lock";

/// Lock file of a user. Its byte locks coordinate the sandboxed programs and approved calls of all
/// `gdn` processes.
#[derive(Debug)]
pub(crate) struct LockFile {
    directory: PathBuf,
    state: Mutex<LockFileState>,
}

#[derive(Debug)]
struct LockFileState {
    file: File,
    /// Locked bytes of this process, each with the number of its [`ByteLocks`].
    held: BTreeMap<i64, usize>,
}

/// Keeps sandboxed programs and file tools out of the directory of the lock file.
pub(crate) fn protect_lock_directory() {
    static PROTECTED: Once = Once::new();
    PROTECTED.call_once(|| state_directory::protect(&user_directory()));
}

fn user_directory() -> PathBuf {
    Path::new(SHARED_DIRECTORY).join(format!("gdn-{}", geteuid().as_raw()))
}

/// The meaning of a locked byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockPurpose {
    /// A sandboxed program may write to the directory.
    Program = 0,
    /// A call that runs the approved file, or a file in the directory, is starting.
    Start = 1,
}

impl LockFile {
    /// Returns the lock file of this user. Returns `None` if this process is itself in a sandbox:
    /// then the process that started the sandbox holds the locks. Also returns `None` if the machine
    /// has no shared directory, as in some containers.
    ///
    /// # Errors
    ///
    /// Fails if the lock file cannot be opened, or if other users could have changed its directory.
    pub(crate) fn of_user() -> Result<Option<Arc<LockFile>>, ApprovedFileError> {
        static OPENED: OnceLock<Option<Arc<LockFile>>> = OnceLock::new();
        if let Some(opened) = OPENED.get() {
            return Ok(opened.clone());
        }
        let directory = user_directory();
        let opened = match LockFile::open(&directory) {
            Ok(file) => Some(Arc::new(file)),
            Err(error) if is_denied_by_sandbox(&directory, &error) => None,
            Err(_) if !Path::new(SHARED_DIRECTORY).is_dir() => None,
            Err(error) => return Err(lock_file_error(&directory, error)),
        };
        Ok(OPENED.get_or_init(|| opened).clone())
    }

    /// Opens the lock file in `directory`, and creates both if necessary.
    pub(super) fn open(directory: &Path) -> io::Result<LockFile> {
        Ok(LockFile {
            directory: directory.to_owned(),
            state: Mutex::new(LockFileState {
                file: open_in(directory)?,
                held: BTreeMap::new(),
            }),
        })
    }

    /// Opens the file again, like another process.
    #[cfg(test)]
    pub(super) fn open_again(&self) -> io::Result<LockFile> {
        LockFile::open(&self.directory)
    }

    /// Locks the directories `writable` of a sandboxed program. Returns `None` while another process
    /// starts a call with approved files in them. A directory that this process has already locked
    /// contains no such files.
    pub(super) fn lock_program(
        self: &Arc<Self>,
        writable: &[PathBuf],
    ) -> Result<Option<ByteLocks>, ApprovedFileError> {
        let is_locked = |state: &LockFileState, path: &PathBuf| {
            let byte = lock_byte(path, LockPurpose::Program);
            state.held.contains_key(&byte)
        };
        self.lock_unless_started(writable, |state, path| !is_locked(state, path))
    }

    /// Locks the directories of a program that is stopped for a start in another process. Returns
    /// `None` during the start, including while other programs of this process still have to stop.
    pub(super) fn lock_stopped_program(
        self: &Arc<Self>,
        writable: &[PathBuf],
    ) -> Result<Option<ByteLocks>, ApprovedFileError> {
        self.lock_unless_started(writable, |_, _| true)
    }

    /// Locks `writable` for a program. Returns `None`, without locks, if another process is starting a
    /// call with files in a directory that `is_checked` selects. The locks come before the check, so at
    /// least one of two processes sees the other.
    fn lock_unless_started(
        self: &Arc<Self>,
        writable: &[PathBuf],
        is_checked: impl Fn(&LockFileState, &PathBuf) -> bool,
    ) -> Result<Option<ByteLocks>, ApprovedFileError> {
        let lock_bytes = bytes(writable, LockPurpose::Program);
        let is_free = self.try_with_state(|state| {
            let checked = writable.iter().filter(|path| is_checked(state, path));
            let starts = bytes(checked, LockPurpose::Start);
            state.add(&lock_bytes)?;
            let locked_start = state.find_locked(starts.into_iter());
            if !matches!(locked_start, Ok(None)) {
                state.remove(&lock_bytes);
            }
            Ok(locked_start?.is_none())
        })?;
        Ok(is_free.then(|| self.byte_locks(lock_bytes)))
    }

    /// Returns the directories in which another process starts a call with approved files.
    pub(super) fn started_in(
        &self,
        writable: &[PathBuf],
    ) -> Result<Vec<PathBuf>, ApprovedFileError> {
        self.try_with_state(|state| {
            let mut started = Vec::new();
            for path in writable {
                let start = std::iter::once(lock_byte(path, LockPurpose::Start));
                if state.find_locked(start)?.is_some() {
                    started.push(path.clone());
                }
            }
            Ok(started)
        })
    }

    /// Announces that a call with these approved files is starting. No program of another process
    /// that may write them starts from now on.
    pub(super) fn lock_start(
        self: &Arc<Self>,
        files: &[PathBuf],
    ) -> Result<ByteLocks, ApprovedFileError> {
        let lock_bytes = bytes(with_directories(files), LockPurpose::Start);
        self.try_with_state(|state| state.add(&lock_bytes))?;
        Ok(self.byte_locks(lock_bytes))
    }

    /// Returns true if a program of another process may write one of the files.
    pub(super) fn has_writer(&self, files: &[PathBuf]) -> Result<bool, ApprovedFileError> {
        let places = with_directories(files).map(|path| lock_byte(path, LockPurpose::Program));
        self.try_with_state(|state| Ok(state.find_locked(places)?.is_some()))
    }

    /// Returns another descriptor of the open file. The locks remain until it is also closed.
    pub(crate) fn duplicate_descriptor(&self) -> io::Result<File> {
        lock(&self.state).file.try_clone()
    }

    fn byte_locks(self: &Arc<Self>, bytes: Vec<i64>) -> ByteLocks {
        ByteLocks {
            file: Arc::clone(self),
            bytes,
        }
    }

    fn try_with_state<T>(
        &self,
        work: impl FnOnce(&mut LockFileState) -> io::Result<T>,
    ) -> Result<T, ApprovedFileError> {
        let done = self.current_state().and_then(|mut state| work(&mut state));
        done.map_err(|error| lock_file_error(&self.directory, error))
    }

    /// Returns the state. If the file was deleted, opens the new one and repeats the locks there: a
    /// system may delete shared files of a user who has logged out.
    fn current_state(&self) -> io::Result<MutexGuard<'_, LockFileState>> {
        let mut state = lock(&self.state);
        if state.file.metadata()?.nlink() == 0 {
            let file = open_in(&self.directory)?;
            for byte in state.held.keys() {
                set_lock(&file, *byte, libc::F_RDLCK)?;
            }
            state.file = file;
        }
        Ok(state)
    }
}

impl LockFileState {
    /// Locks bytes; all or, after an error, none.
    fn add(&mut self, bytes: &[i64]) -> io::Result<()> {
        for (index, byte) in bytes.iter().enumerate() {
            let count = self.held.get(byte).copied().unwrap_or_default();
            if count == 0
                && let Err(error) = set_lock(&self.file, *byte, libc::F_RDLCK)
            {
                self.remove(&bytes[..index]);
                return Err(error);
            }
            self.held.insert(*byte, count + 1);
        }
        Ok(())
    }

    fn remove(&mut self, bytes: &[i64]) {
        for byte in bytes {
            match self.held.get_mut(byte) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    self.held.remove(byte);
                    // If this fails, the lock remains until the end of this process.
                    let _ = set_lock(&self.file, *byte, libc::F_UNLCK);
                }
            }
        }
    }

    /// Returns the first of `bytes` that another process has locked.
    fn find_locked(&self, bytes: impl Iterator<Item = i64>) -> io::Result<Option<i64>> {
        for byte in bytes {
            let mut conflict = lock_of(byte, libc::F_WRLCK);
            fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut conflict))?;
            if i32::from(conflict.l_type) != libc::F_UNLCK {
                return Ok(Some(byte));
            }
        }
        Ok(None)
    }
}

/// Locked bytes. Dropping it unlocks the bytes, unless another value also holds them.
#[derive(Debug)]
pub(crate) struct ByteLocks {
    file: Arc<LockFile>,
    bytes: Vec<i64>,
}

impl Drop for ByteLocks {
    fn drop(&mut self) {
        lock(&self.file.state).remove(&self.bytes);
    }
}

/// Returns the files and all directories above them.
fn with_directories(files: &[PathBuf]) -> impl Iterator<Item = &Path> {
    files.iter().flat_map(|file| file.ancestors())
}

fn bytes(paths: impl IntoIterator<Item = impl AsRef<Path>>, purpose: LockPurpose) -> Vec<i64> {
    let paths = paths.into_iter();
    paths
        .map(|path| lock_byte(path.as_ref(), purpose))
        .collect()
}

/// Returns the position of the byte that is locked for a path. All versions of this program must
/// use the same position.
fn lock_byte(path: &Path, purpose: LockPurpose) -> i64 {
    let hash = Sha256::digest(path.as_os_str().as_bytes());
    let number = hash
        .iter()
        .take(7)
        .fold(0, |number, byte| number << 8 | i64::from(*byte));
    number * 2 + purpose as i64
}

fn lock_of(byte: i64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

fn set_lock(file: &File, byte: i64, kind: i32) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock_of(byte, kind)))?;
    Ok(())
}

/// Opens the lock file in a directory that only this user may open.
fn open_in(directory: &Path) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = directory.symlink_metadata()?;
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::other("it is not a directory of this user"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("other users may open it"));
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW);
    options.open(directory.join(LOCK_FILE_NAME))
}

/// Returns true if a sandbox denies this process the directory of its own user. Without a sandbox,
/// every user may create files in the shared directory.
fn is_denied_by_sandbox(directory: &Path, error: &io::Error) -> bool {
    let is_open_to_all = Path::new(SHARED_DIRECTORY)
        .metadata()
        .is_ok_and(|metadata| metadata.mode() & 0o002 != 0);
    let may_be_opened = match directory.symlink_metadata() {
        Ok(metadata) => metadata.uid() == geteuid().as_raw(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    error.kind() == ErrorKind::PermissionDenied && is_open_to_all && may_be_opened
}

fn lock_file_error(directory: &Path, cause: io::Error) -> ApprovedFileError {
    ApprovedFileError::LockFile {
        directory: directory.display().to_string(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Opens the lock file twice, like two processes.
    fn two_processes(directory: &Path) -> [Arc<LockFile>; 2] {
        [(); 2].map(|()| Arc::new(LockFile::open(directory).unwrap()))
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn program_locks_and_start_locks_of_two_processes_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = two_processes(&dir.path().join("locks"));
        let (work, script) = (paths(&["/p/work"]), paths(&["/p/work/bin/run.sh"]));
        let program = one.lock_program(&work).unwrap().unwrap();
        let start = other.lock_start(&script).unwrap();
        assert!(other.has_writer(&script).unwrap());
        assert_eq!(one.started_in(&work).unwrap(), work);
        drop(program);
        assert!(!other.has_writer(&script).unwrap());
        for near in [&["/p"][..], &["/p/work/bin"], &["/x", "/p/work/bin/run.sh"]] {
            assert!(
                one.lock_program(&paths(near)).unwrap().is_none(),
                "{near:?}"
            );
        }
        assert!(
            one.lock_program(&paths(&["/p/other", "/p/work/lib"]))
                .unwrap()
                .is_some()
        );
        assert!(!other.has_writer(&script).unwrap());
        // Calls with approved files do not exclude each other.
        drop(one.lock_start(&script).unwrap());
        drop(start);
        assert!(one.lock_program(&work).unwrap().is_some());
    }

    /// Otherwise a command with an open redirection could not start while another process waits for
    /// the lock.
    #[test]
    fn a_second_program_in_a_locked_directory_starts() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = two_processes(&dir.path().join("locks"));
        let (work, script) = (paths(&["/p"]), paths(&["/p/run.sh"]));
        let first = one.lock_program(&work).unwrap().unwrap();
        let _start = other.lock_start(&script).unwrap();
        let second = one.lock_program(&work).unwrap().unwrap();
        drop(first);
        assert!(other.has_writer(&script).unwrap());
        drop(second);
        assert!(!other.has_writer(&script).unwrap());
        assert!(one.lock_program(&work).unwrap().is_none());
    }

    #[test]
    fn locks_remain_while_another_process_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let [killed, other] = two_processes(&dir.path().join("locks"));
        let script = paths(&["/p/run.sh"]);
        let watcher = killed.duplicate_descriptor().unwrap();
        // A killed process does not unlock.
        std::mem::forget(killed.lock_program(&paths(&["/p"])).unwrap());
        // Its end closes its descriptors.
        lock(&killed.state).file = File::options().read(true).open("/dev/null").unwrap();
        assert!(other.has_writer(&script).unwrap());
        drop(watcher);
        // Programs that other tests are starting may still have the file open.
        while other.has_writer(&script).unwrap() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn locks_survive_deletion_of_the_lock_file() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("locks");
        let [one, other] = two_processes(&directory);
        let _program = one.lock_program(&paths(&["/p"])).unwrap().unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(one.started_in(&paths(&["/p"])).unwrap().is_empty());
        assert!(other.has_writer(&paths(&["/p/run.sh"])).unwrap());
    }

    #[test]
    fn a_lock_directory_accessible_to_other_users_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let error = LockFile::open(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), "other users may open it");
    }
}
