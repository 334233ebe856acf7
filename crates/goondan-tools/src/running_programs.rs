//! Programs that tools are running, and the rule for approved files.
//!
//! An approval covers the content of the files that a call runs. A program in a sandbox, such as a
//! background process of the same agent, may write to their directory. So a call with approved files
//! starts only when no such program is running, and no such program starts until the call has read
//! its files. Programs of the project, such as MCP servers, run all the time. They are stopped during
//! that time. The same applies to the programs of other `gdn` processes of the user
//! (`other_processes`).

mod approved_file_error;
mod file_protection;
#[cfg(not(target_os = "linux"))]
mod no_other_processes;
#[cfg(target_os = "linux")]
mod other_processes;
mod program_table;
mod stopped_programs;
#[cfg(test)]
mod tests;
mod wait_limits;
mod write_access;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan_core::ports::tool::ApprovedFile;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::approved_file_error::ApprovedFileError;
use self::file_protection::FileProtection;
use self::program_table::{RUNNING_PROGRAMS, RunningProgram, once_possible};
use self::wait_limits::{OTHER_PROCESS_TIMEOUT, RECHECK_INTERVAL};
pub(crate) use self::write_access::WriteAccess;
use self::write_access::with_hard_links;
use crate::mutex_lock::lock;
use crate::sandbox::SignalDomain;
#[cfg(target_os = "linux")]
use crate::sandbox::orphans;
#[cfg(not(target_os = "linux"))]
pub(crate) use no_other_processes::{ByteLocks, LockFile, protect_lock_directory};
#[cfg(target_os = "linux")]
pub(crate) use other_processes::{ByteLocks, LockFile, protect_lock_directory};
use stopped_programs::give_way;

/// Time in which a started call reads its approved files. No program that may write them starts
/// until then.
const FILE_READ_PERIOD: Duration = Duration::from_secs(2);

/// Registration of a program, from before its start until its end.
#[derive(Debug)]
pub(crate) struct RegisteredProgram {
    key: u64,
    /// Protects the approved files; ends after [`FILE_READ_PERIOD`].
    _protection: Option<AbortOnDropHandle<()>>,
    /// Task that suspends the program while another process starts a call with approved files.
    _giving_way: Option<AbortOnDropHandle<()>>,
}

impl RegisteredProgram {
    /// Registers a program before its start. A program that may write approved files of a starting
    /// call waits. A program with approved files waits for running programs that may write them.
    ///
    /// # Errors
    ///
    /// Fails with an [`ApprovedFileError`] if approved files changed, or if the wait takes longer than
    /// `WRITER_WAIT_TIMEOUT` or, for other processes, [`OTHER_PROCESS_TIMEOUT`].
    pub(crate) async fn begin(
        access: WriteAccess,
        approved: &Arc<[ApprovedFile]>,
    ) -> io::Result<RegisteredProgram> {
        let protection = if approved.is_empty() {
            None
        } else {
            Some(FileProtection::begin(Arc::clone(approved)).await?)
        };
        let file = if access.writable.is_empty() {
            None
        } else {
            LockFile::of_user().map_err(io::Error::other)?
        };
        let registered = register(&access, file.as_ref()).await;
        let key = registered.map_err(io::Error::other)?;
        let giving_way = file.filter(|_| access.is_of_project);
        Ok(RegisteredProgram {
            key,
            _giving_way: giving_way.map(|file| {
                let places = access.writable.clone();
                AbortOnDropHandle::new(tokio::spawn(give_way(key, file, places)))
            }),
            _protection: protection.map(|protection| {
                AbortOnDropHandle::new(tokio::spawn(async move {
                    tokio::time::sleep(FILE_READ_PERIOD).await;
                    drop(protection);
                }))
            }),
        })
    }

    /// Records the process id of the started program, and all processes of a sandboxed one.
    pub(crate) fn record_start(&self, pid: Option<u32>, domain: Option<SignalDomain>) {
        if let Some(program) = lock(&RUNNING_PROGRAMS.table).programs.get_mut(&self.key) {
            program.pid = pid;
            program.domain = domain.map(Arc::new);
        }
        RUNNING_PROGRAMS.changed.notify_waiters();
        #[cfg(target_os = "linux")]
        orphans::reap_later(program_ids);
    }

    /// Kills all processes of a sandboxed program, if the kernel has domains.
    pub(crate) fn kill_domain(&self) {
        self.domain().iter().for_each(|domain| domain.kill());
    }

    fn domain(&self) -> Option<Arc<SignalDomain>> {
        let table = lock(&RUNNING_PROGRAMS.table);
        table.programs.get(&self.key)?.domain.clone()
    }
}

/// Registers a program with `access`. Waits while a starting call needs its files unchanged.
async fn register(
    access: &WriteAccess,
    file: Option<&Arc<LockFile>>,
) -> Result<u64, ApprovedFileError> {
    loop {
        let attempts = once_possible(|| try_register(access, file).transpose());
        if let Ok(registered) = timeout(OTHER_PROCESS_TIMEOUT, attempts).await {
            return registered;
        }
        // A call of this process ends by itself.
        if let Some(file) = file
            && let started @ [_, ..] = file.started_in(&access.writable)?.as_slice()
        {
            return Err(ApprovedFileError::of_start(started));
        }
    }
}

/// Registers a program with `access`; `None` while a starting call needs its files unchanged.
fn try_register(
    access: &WriteAccess,
    file: Option<&Arc<LockFile>>,
) -> Result<Option<u64>, ApprovedFileError> {
    let mut table = lock(&RUNNING_PROGRAMS.table);
    if table
        .approved
        .values()
        .any(|files| access.can_change(files))
    {
        return Ok(None);
    }
    let locks = match file {
        None => None,
        Some(file) => match file.lock_program(&access.writable)? {
            None => return Ok(None),
            locks => locks,
        },
    };
    let key = table.next_key();
    let program = RunningProgram {
        pid: None,
        domain: None,
        access: access.clone(),
        stops: 0,
        locks,
    };
    table.programs.insert(key, program);
    Ok(Some(key))
}

/// Keeps other processes from starting calls whose approved files are among `files`. Waits while one
/// is starting; blocks the thread. A lock file that cannot be used does not fail the write: with it,
/// this user's processes start no such calls.
///
/// # Errors
///
/// Fails if the start takes longer than [`OTHER_PROCESS_TIMEOUT`].
pub(crate) fn lock_written_files(
    files: &[PathBuf],
) -> Result<Option<ByteLocks>, ApprovedFileError> {
    let Ok(Some(file)) = LockFile::of_user() else {
        return Ok(None);
    };
    let files = &with_hard_links(files.to_vec());
    let deadline = Instant::now() + OTHER_PROCESS_TIMEOUT;
    loop {
        match file.lock_program(files)? {
            None if Instant::now() > deadline => return Err(ApprovedFileError::of_start(files)),
            None => std::thread::sleep(RECHECK_INTERVAL),
            locks => return Ok(locks),
        }
    }
}

impl Drop for RegisteredProgram {
    fn drop(&mut self) {
        let key = self.key;
        match self.domain() {
            // The program may write until all its processes have ended.
            Some(domain) => domain.end(move || remove(key)),
            None => remove(key),
        }
        #[cfg(target_os = "linux")]
        orphans::reap_later(program_ids);
    }
}

#[cfg(target_os = "linux")]
fn program_ids() -> orphans::ProgramIds {
    let table = lock(&RUNNING_PROGRAMS.table);
    let mut programs = table.programs.values();
    orphans::ProgramIds {
        known: table.pids(),
        has_sandboxed: programs.any(|program| program.access.is_sandboxed()),
    }
}

/// Removes a program that has ended.
fn remove(key: u64) {
    let mut table = lock(&RUNNING_PROGRAMS.table);
    let removed = table.programs.remove(&key);
    #[cfg(not(target_os = "linux"))]
    drop(removed);
    // Processes that left the group of a sandboxed program end with the last such program.
    #[cfg(target_os = "linux")]
    {
        let is_sandboxed = |program: &RunningProgram| program.access.is_sandboxed();
        if removed.as_ref().is_some_and(is_sandboxed) && !table.programs.values().any(is_sandboxed)
        {
            orphans::kill(&table.orphans());
        }
    }
    drop(table);
    RUNNING_PROGRAMS.changed.notify_waiters();
}
