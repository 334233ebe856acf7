//! Keeps approved files unchanged while a call starts.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::code_directory::CodeDirectory;
use goondan_core::content_hash::has_identity;
use goondan_core::ports::tool::ApprovedFile;
use goondan_core::real_path::links_of_path;
use tokio::time::timeout;

use super::approved_file_error::first_path_text;
use super::program_table::{RUNNING_PROGRAMS, once_possible};
use super::stopped_programs::StoppedPrograms;
use super::wait_limits::{OTHER_PROCESS_TIMEOUT, WRITER_WAIT_TIMEOUT};
use super::write_access::with_hard_links;
use super::{ApprovedFileError, ByteLocks, LockFile};
use crate::file_changes::FileChangeLock;
use crate::mutex_lock::lock;

/// Keeps approved files unchanged while a call starts.
pub(super) struct FileProtection {
    _stopped: StoppedPrograms,
    _other_processes: Option<ByteLocks>,
    _writers: WriterExclusion,
    _locks: FileChangeLock,
}

impl FileProtection {
    /// Waits until no sandboxed program may write the files, stops those of the project, locks the
    /// files for file tools, and compares their content with the approved content.
    pub(super) async fn begin(approved: Arc<[ApprovedFile]>) -> io::Result<FileProtection> {
        let paths = places_of(&approved);
        let writers = WriterExclusion::begin(&paths).await?;
        let other_processes = exclude_other_processes(&paths)
            .await
            .map_err(io::Error::other)?;
        // No further program starts from now on.
        let stopped = StoppedPrograms::begin(&paths)
            .await
            .map_err(io::Error::other)?;
        let checking = tokio::task::spawn_blocking(move || {
            let locks = FileChangeLock::acquire(&paths);
            check_contents(&approved, &paths).map(|()| locks)
        });
        let locks = checking.await.map_err(io::Error::other)?;
        Ok(FileProtection {
            _stopped: stopped,
            _other_processes: other_processes,
            _writers: writers,
            _locks: locks.map_err(io::Error::other)?,
        })
    }
}

/// Waits until no program of another process may write the files. No such program starts until the
/// result is dropped.
async fn exclude_other_processes(
    files: &[PathBuf],
) -> Result<Option<ByteLocks>, ApprovedFileError> {
    let Some(file) = LockFile::of_user()? else {
        return Ok(None);
    };
    let locks = file.lock_start(files)?;
    let attempt = || match file.has_writer(files) {
        Ok(true) => None,
        Ok(false) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    };
    match timeout(OTHER_PROCESS_TIMEOUT, once_possible(attempt)).await {
        Ok(done) => done.map(|()| Some(locks)),
        Err(_) => Err(ApprovedFileError::OtherProcess {
            path: first_path_text(files),
        }),
    }
}

/// Returns the places that determine the content of approved files: the files and directories without
/// links, each link on the way to them, and the place of files with several hard links.
fn places_of(approved: &[ApprovedFile]) -> Vec<PathBuf> {
    let mut places = BTreeSet::new();
    for file in approved {
        add_places(&file.path, &mut places);
        add_places_in(&file.path, &mut places);
    }
    places.into_iter().collect()
}

/// Adds the places of the code in a directory. A directory with too many entries is only one place.
fn add_places_in(directory: &Path, places: &mut BTreeSet<PathBuf>) {
    let code = Some(directory).filter(|path| path.is_dir());
    let code = code.and_then(CodeDirectory::read).unwrap_or_default();
    for path in code.files.iter().chain(&code.folders) {
        add_places(path, places);
    }
}

fn add_places(path: &Path, places: &mut BTreeSet<PathBuf>) {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    places.extend(with_hard_links(vec![real]));
    places.extend(links_of_path(path).unwrap_or_default());
}

/// Compares files with their approved content. A file whose link led elsewhere before `places` were
/// protected also counts as changed.
fn check_contents(approved: &[ApprovedFile], places: &[PathBuf]) -> Result<(), ApprovedFileError> {
    let is_changed = |file: &&ApprovedFile| {
        let approved = file.sha256.as_ref();
        let has_moved = || {
            let mut now = BTreeSet::new();
            add_places(&file.path, &mut now);
            if approved.is_some() {
                add_places_in(&file.path, &mut now);
            }
            now.iter().any(|place| places.binary_search(place).is_err())
        };
        approved.is_some_and(|approved| !has_identity(&file.path, approved)) || has_moved()
    };
    match approved.iter().find(is_changed) {
        None => Ok(()),
        Some(file) => Err(ApprovedFileError::Changed {
            path: file.path.display().to_string(),
        }),
    }
}

/// State in which no sandboxed program may write the files. Dropping it ends the state.
struct WriterExclusion {
    key: u64,
}

impl WriterExclusion {
    /// Waits until no running program may write `files`.
    async fn begin(files: &[PathBuf]) -> Result<WriterExclusion, io::Error> {
        let waiting = once_possible(|| WriterExclusion::try_begin(files).ok());
        match timeout(WRITER_WAIT_TIMEOUT, waiting).await {
            Ok(exclusion) => Ok(exclusion),
            Err(_) => WriterExclusion::try_begin(files).map_err(io::Error::other),
        }
    }

    fn try_begin(files: &[PathBuf]) -> Result<WriterExclusion, ApprovedFileError> {
        let mut table = lock(&RUNNING_PROGRAMS.table);
        if let Some(program) = table.find_writer(files) {
            return Err(ApprovedFileError::of_writer(program, files));
        }
        let key = table.next_key();
        table.approved.insert(key, files.to_vec());
        Ok(WriterExclusion { key })
    }
}

impl Drop for WriterExclusion {
    fn drop(&mut self) {
        lock(&RUNNING_PROGRAMS.table).approved.remove(&self.key);
        RUNNING_PROGRAMS.changed.notify_waiters();
    }
}
