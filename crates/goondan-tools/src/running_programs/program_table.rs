//! Table of the running programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::ByteLocks;
use super::wait_limits::RECHECK_INTERVAL;
use super::write_access::WriteAccess;
use crate::sandbox::SignalDomain;
#[cfg(target_os = "linux")]
use crate::sandbox::orphans;

pub(super) static RUNNING_PROGRAMS: LazyLock<RunningPrograms> =
    LazyLock::new(RunningPrograms::default);

#[derive(Default)]
pub(super) struct RunningPrograms {
    pub(super) table: Mutex<ProgramTable>,
    /// Notified when an entry is removed, or when its process id becomes known.
    pub(super) changed: Notify,
}

#[derive(Default)]
pub(super) struct ProgramTable {
    next: u64,
    pub(super) programs: BTreeMap<u64, RunningProgram>,
    /// Approved files of calls that are starting.
    pub(super) approved: BTreeMap<u64, Vec<PathBuf>>,
}

pub(super) struct RunningProgram {
    /// The process id; `None` before the start.
    pub(super) pid: Option<u32>,
    /// All processes of a sandboxed program, if the kernel has such domains.
    pub(super) domain: Option<Arc<SignalDomain>>,
    pub(super) access: WriteAccess,
    /// Number of starting calls for which the program is stopped.
    pub(super) stops: usize,
    /// Locks that keep other processes from starting calls with approved files that the program may
    /// write. `None` while the program is suspended for the start of such a call.
    pub(super) locks: Option<ByteLocks>,
}

impl ProgramTable {
    pub(super) fn next_key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns a description of a running program that may change one of the files. Programs of the
    /// project are left out, because they are stopped instead.
    pub(super) fn find_writer(&self, files: &[PathBuf]) -> Option<String> {
        let mut programs = self.programs.values();
        let known = programs
            .find(|program| !program.access.is_of_project && program.access.can_change(files))
            .map(|program| describe_program(program.pid));
        #[cfg(target_os = "linux")]
        return known.or_else(|| {
            let orphan = self.orphans().into_iter().next();
            orphan.map(|pid| describe_program(u32::try_from(pid).ok()))
        });
        #[cfg(not(target_os = "linux"))]
        known
    }

    /// Returns sandboxed processes that left their group. With a domain, they end with their program.
    #[cfg(target_os = "linux")]
    pub(super) fn orphans(&self) -> Vec<i32> {
        if SignalDomain::is_supported() {
            Vec::new()
        } else {
            orphans::sandboxed_children(&self.pids())
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn pids(&self) -> std::collections::BTreeSet<u32> {
        let pids = self.programs.values().filter_map(|program| program.pid);
        pids.collect()
    }
}

pub(super) fn describe_program(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "a program or redirection that is starting".to_owned(),
        |pid| format!("process {pid}"),
    )
}

/// Repeats `attempt` until it succeeds.
pub(super) async fn once_possible<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        let changed = RUNNING_PROGRAMS.changed.notified();
        if let Some(done) = attempt() {
            return done;
        }
        let _ = timeout(RECHECK_INTERVAL, changed).await;
    }
}
