//! Programs of the project that are stopped while a call with approved files starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{
    ApprovedFileError, ProgramTable, RUNNING_PROGRAMS, RunningProgram, WRITER_WAIT_TIMEOUT,
    describe, once_possible,
};
use crate::mutex_lock::lock;
#[cfg(unix)]
use crate::process::ProcessSignal;
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
        match timeout(WRITER_WAIT_TIMEOUT, stop_all(files)).await {
            Ok(stopped) => Ok(stopped),
            Err(_) => {
                let table = lock(&RUNNING_PROGRAMS.table);
                let pid = table
                    .project_writers(files)
                    .next()
                    .and_then(|(_, one)| one.pid);
                Err(ApprovedFileError::of_writer(describe(pid), files))
            }
        }
    }

    /// Stops the programs; `None` while one of them is starting.
    fn try_begin(files: &[PathBuf]) -> Option<StoppedPrograms> {
        let mut table = lock(&RUNNING_PROGRAMS.table);
        if table
            .project_writers(files)
            .any(|(_, one)| one.pid.is_none())
        {
            return None;
        }
        let keys: Vec<u64> = table.project_writers(files).map(|(key, _)| *key).collect();
        for key in &keys {
            if let Some(program) = table.programs.get_mut(key) {
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
            programs.map(RunningProgram::stoppable).collect()
        };
        let check = move || programs.iter().all(StoppableProgram::has_stopped);
        // A failed check does not permit the call.
        tokio::task::spawn_blocking(check).await.unwrap_or(false)
    }
}

/// Stops the programs of the project that may write one of `files`, and waits until all have
/// stopped. If some do not stop in time, lets all continue for a moment and tries again.
async fn stop_all(files: &[PathBuf]) -> StoppedPrograms {
    loop {
        let stopped = once_possible(|| StoppedPrograms::try_begin(files)).await;
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

impl ProgramTable {
    /// Returns the programs of the project that may change one of the files.
    fn project_writers(&self, files: &[PathBuf]) -> impl Iterator<Item = (&u64, &RunningProgram)> {
        self.programs
            .iter()
            .filter(|(_, one)| one.access.is_of_project && one.access.reaches(files))
    }
}

impl RunningProgram {
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

    fn stoppable(&self) -> StoppableProgram {
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
