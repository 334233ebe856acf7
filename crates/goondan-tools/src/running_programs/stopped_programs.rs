//! Programs of the project that are stopped while a call with approved files starts.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::program_table::{
    ProgramTable, RUNNING_PROGRAMS, RunningProgram, describe_program, once_possible,
};
use super::wait_limits::{RECHECK_INTERVAL, WRITER_WAIT_TIMEOUT};
use super::{ApprovedFileError, ByteLocks, LockFile};
use crate::mutex_lock::lock;
#[cfg(unix)]
use crate::process_signal::ProcessSignal;
use crate::sandbox::SignalDomain;
#[cfg(target_os = "linux")]
use crate::sandbox::signal_domain;

/// Interval at which the stop of programs is checked.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Number of checks after which programs that have not all stopped continue for a moment. A process
/// cannot stop while it waits for a stopped child process to start its program (`vfork`).
const CHECKS_PER_STOP: usize = 20;

/// Guard that keeps programs stopped. Dropping the guard continues each program, unless another
/// guard also keeps it stopped.
pub(super) struct StoppedPrograms {
    /// Keys in the table.
    keys: Vec<u64>,
}

impl StoppedPrograms {
    /// Stops the programs of the project that may write one of the files. Waits until they have
    /// stopped.
    ///
    /// # Errors
    ///
    /// Fails if a program has not stopped within [`WRITER_WAIT_TIMEOUT`].
    pub(super) async fn begin(files: &[PathBuf]) -> Result<StoppedPrograms, ApprovedFileError> {
        let selects = |_: u64, program: &RunningProgram| program.is_project_writer(files);
        match timeout(WRITER_WAIT_TIMEOUT, stop_all(&selects)).await {
            Ok(stopped) => Ok(stopped),
            Err(_) => {
                let table = lock(&RUNNING_PROGRAMS.table);
                let mut programs = table.programs.values();
                let writer = programs.find(|program| program.is_project_writer(files));
                let pid = writer.and_then(|program| program.pid);
                Err(ApprovedFileError::of_writer(describe_program(pid), files))
            }
        }
    }

    /// Stops the selected programs; `None` while one of them is starting.
    fn try_begin(selects: &impl ProgramSelection) -> Option<StoppedPrograms> {
        let mut table = lock(&RUNNING_PROGRAMS.table);
        let ProgramTable { programs, .. } = &mut *table;
        let is_selected = |(key, program): &(&u64, &RunningProgram)| selects(**key, program);
        if programs
            .iter()
            .filter(is_selected)
            .any(|(_, program)| program.pid.is_none())
        {
            return None;
        }
        let keys: Vec<u64> = programs
            .iter()
            .filter(is_selected)
            .map(|(key, _)| *key)
            .collect();
        for key in &keys {
            if let Some(program) = programs.get_mut(key) {
                program.stops += 1;
                program.stop();
            }
        }
        Some(StoppedPrograms { keys })
    }

    /// Returns true if the programs have stopped.
    async fn have_stopped(&self) -> bool {
        let programs: Vec<StoppableProgram> = {
            let table = lock(&RUNNING_PROGRAMS.table);
            let programs = self.keys.iter().filter_map(|key| table.programs.get(key));
            programs.map(RunningProgram::stoppable_processes).collect()
        };
        let check = move || programs.iter().all(StoppableProgram::has_stopped);
        // A failed check does not permit the call.
        tokio::task::spawn_blocking(check).await.unwrap_or(false)
    }
}

/// Stops the selected programs, and waits until all have stopped. If some do not stop in time, lets
/// all continue for a moment and tries again.
async fn stop_all(selects: &impl ProgramSelection) -> StoppedPrograms {
    loop {
        let stopped = once_possible(|| StoppedPrograms::try_begin(selects)).await;
        for _ in 0..CHECKS_PER_STOP {
            if stopped.keys.is_empty() || stopped.have_stopped().await {
                return stopped;
            }
            tokio::time::sleep(STOP_CHECK_INTERVAL).await;
        }
        drop(stopped);
        tokio::time::sleep(STOP_CHECK_INTERVAL).await;
    }
}

impl Drop for StoppedPrograms {
    fn drop(&mut self) {
        let mut table = lock(&RUNNING_PROGRAMS.table);
        for key in &self.keys {
            if let Some(program) = table.programs.get_mut(key) {
                program.stops = program.stops.saturating_sub(1);
                if program.stops == 0 {
                    program.resume();
                }
            }
        }
    }
}

/// Suspends the program `key` each time another process starts a call with approved files in `places`,
/// which the program may write to. The program has no locks while it is suspended. If it cannot be
/// suspended, it keeps its locks, and the other process denies the call.
pub(super) async fn give_way(key: u64, file: Arc<LockFile>, places: Vec<PathBuf>) {
    let is_program = |other: u64, _: &RunningProgram| other == key;
    loop {
        tokio::time::sleep(RECHECK_INTERVAL).await;
        if !file
            .started_in(&places)
            .is_ok_and(|started| !started.is_empty())
        {
            continue;
        }
        let Ok(stopped) = timeout(WRITER_WAIT_TIMEOUT, stop_all(&is_program)).await else {
            continue;
        };
        // If this task is aborted, the program is ending. It must not run without its locks.
        let stopped = ManuallyDrop::new(stopped);
        set_locks(key, None);
        let locks = loop {
            tokio::time::sleep(RECHECK_INTERVAL).await;
            if let Ok(Some(locks)) = file.lock_stopped_program(&places) {
                break locks;
            }
        };
        set_locks(key, Some(locks));
        drop(ManuallyDrop::into_inner(stopped));
    }
}

/// Replaces the locks of a program.
fn set_locks(key: u64, locks: Option<ByteLocks>) {
    if let Some(program) = lock(&RUNNING_PROGRAMS.table).programs.get_mut(&key) {
        program.locks = locks;
    }
}

/// Predicate that selects running programs by their keys and properties.
trait ProgramSelection: Fn(u64, &RunningProgram) -> bool {}

impl<F: Fn(u64, &RunningProgram) -> bool> ProgramSelection for F {}

impl RunningProgram {
    /// Returns true for a program of the project that may change one of the files.
    fn is_project_writer(&self, files: &[PathBuf]) -> bool {
        self.access.is_of_project && self.access.can_change(files)
    }

    fn stop(&self) {
        match &self.domain {
            Some(domain) => domain.stop(),
            #[cfg(unix)]
            None => self
                .pid
                .into_iter()
                .for_each(|pid| ProcessSignal::STOP.send_to(pid)),
            #[cfg(not(unix))]
            None => {}
        }
    }

    fn resume(&self) {
        match &self.domain {
            Some(domain) => domain.resume(),
            #[cfg(unix)]
            None => self
                .pid
                .into_iter()
                .for_each(|pid| ProcessSignal::CONTINUE.send_to(pid)),
            #[cfg(not(unix))]
            None => {}
        }
    }

    fn stoppable_processes(&self) -> StoppableProgram {
        StoppableProgram {
            pid: self.pid,
            domain: self.domain.clone(),
        }
    }
}

/// The processes of a program: those of its domain, or else its first process.
struct StoppableProgram {
    pid: Option<u32>,
    domain: Option<Arc<SignalDomain>>,
}

impl StoppableProgram {
    fn has_stopped(&self) -> bool {
        match &self.domain {
            Some(domain) => domain.has_stopped(),
            None => self.pid.is_none_or(process_has_stopped),
        }
    }
}

#[cfg(target_os = "linux")]
fn process_has_stopped(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(signal_domain::has_stopped)
}

/// Other systems have no sandboxed programs.
#[cfg(not(target_os = "linux"))]
fn process_has_stopped(_pid: u32) -> bool {
    true
}
