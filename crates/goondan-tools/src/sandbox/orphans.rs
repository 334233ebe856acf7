//! Sandboxed processes that left their process group.
//!
//! If this process adopts orphans ([`adopt`]), all processes that its programs start remain its
//! descendants. A process that leaves its group becomes a child of this process when its parent
//! ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill as send_signal};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Interval between searches for ended orphans.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// Number of searches after which an ended child counts as an orphan. Other children are waited for
/// before.
const REAP_ROUNDS: u32 = 10;

/// Maximum number of ended children that wait until all running searches are over. Without the
/// limit, a program could use up the process ids of the machine.
const MAX_ENDED_CHILDREN: usize = 256;

/// A process, as `/proc` describes it.
struct VisibleProcess {
    pid: i32,
    parent: i32,
    has_ended: bool,
}

/// True once this process adopts orphans.
static ADOPTS_ORPHANS: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of orphaned descendants.
pub fn adopt() {
    match prctl::set_child_subreaper(true) {
        Ok(()) => ADOPTS_ORPHANS.store(true, Ordering::Relaxed),
        Err(error) => tracing::debug!(%error, "orphaned programs are not adopted"),
    }
}

/// Returns the sandboxed children of this process that are not in `known`.
pub(crate) fn sandboxed_children(known: &BTreeSet<u32>) -> Vec<i32> {
    let children = children().into_iter();
    children
        .filter(|child| !child.has_ended && is_sandboxed(child.pid))
        .map(|child| child.pid)
        .filter(|pid| is_unknown(*pid, known))
        .collect()
}

/// Kills the processes.
pub(crate) fn kill(pids: &[i32]) {
    for pid in pids {
        let _ = send_signal(Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

/// Removes ended orphans from the process table, after a delay. `programs` returns the running
/// programs.
pub(crate) fn reap_later(programs: fn() -> ProgramIds) {
    static IS_SCHEDULED: AtomicBool = AtomicBool::new(false);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if !ADOPTS_ORPHANS.load(Ordering::Relaxed) || IS_SCHEDULED.swap(true, Ordering::SeqCst) {
        return;
    }
    runtime.spawn(async move {
        let mut rounds: BTreeMap<i32, u32> = BTreeMap::new();
        loop {
            tokio::time::sleep(REAP_INTERVAL).await;
            let programs = programs();
            let ended = ended_children(&programs.known);
            let is_crowded = ended.len() > MAX_ENDED_CHILDREN;
            rounds = ended
                .into_iter()
                .map(|pid| (pid, rounds.get(&pid).map_or(0, |seen| seen + 1)))
                .collect();
            for (pid, seen) in &rounds {
                if *seen >= REAP_ROUNDS || (is_crowded && *seen > 0) {
                    let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
                }
            }
            if rounds.is_empty() && !programs.has_sandboxed {
                break;
            }
        }
        IS_SCHEDULED.store(false, Ordering::SeqCst);
    });
}

/// Running programs that this process started.
pub(crate) struct ProgramIds {
    /// Processes for whose end other code waits.
    pub(crate) known: BTreeSet<u32>,
    /// True if a sandboxed program is running, which may create orphans at any time.
    pub(crate) has_sandboxed: bool,
}

fn ended_children(known: &BTreeSet<u32>) -> BTreeSet<i32> {
    let children = children().into_iter();
    children
        .filter(|child| child.has_ended)
        .map(|child| child.pid)
        .filter(|pid| is_unknown(*pid, known))
        .collect()
}

fn is_unknown(pid: i32, known: &BTreeSet<u32>) -> bool {
    u32::try_from(pid).is_ok_and(|pid| !known.contains(&pid))
}

/// Returns the children of this process, adopted ones included; none if it adopts no orphans.
fn children() -> Vec<VisibleProcess> {
    if !ADOPTS_ORPHANS.load(Ordering::Relaxed) {
        return Vec::new();
    }
    match listed_children() {
        Some(pids) => pids.into_iter().filter_map(read_process).collect(),
        // The kernel has no lists of children.
        None => {
            let own_pid = getpid().as_raw();
            let processes = visible_pids().into_iter().filter_map(read_process);
            processes
                .filter(|process| process.parent == own_pid)
                .collect()
        }
    }
}

/// Returns the children of each thread of this process; `None` if the kernel does not list them.
#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn listed_children() -> Option<Vec<i32>> {
    let mut pids = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(children) => pids.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            // The thread has ended; its children belong to another one.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(pids)
}

/// Returns the ids of all visible processes.
#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
pub(super) fn visible_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the parent of a process; `None` for a process that has ended.
pub(super) fn parent(pid: i32) -> Option<i32> {
    read_process(pid).map(|process| process.parent)
}

#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn read_process(pid: i32) -> Option<VisibleProcess> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some(VisibleProcess {
        pid,
        has_ended: matches!(fields.next()?, "Z" | "X"),
        parent: fields.next()?.parse().ok()?,
    })
}

/// Returns true if a process has more filters of system calls than this process, as all programs in
/// a sandbox do. They cannot give them up. A container or service manager can also set filters, which
/// this process and all its children have.
pub(super) fn is_sandboxed(pid: i32) -> bool {
    static OWN_FILTERS: LazyLock<u32> =
        LazyLock::new(|| filter_count(getpid().as_raw()).unwrap_or(0));
    filter_count(pid).is_some_and(|filters| filters > *OWN_FILTERS)
}

/// Returns the number of filters of the main thread. This process only sets filters on threads that
/// start a program.
#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn filter_count(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seccomp filter of a container does not make a process sandboxed.
    #[test]
    fn an_ordinary_child_is_not_sandboxed() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(filter_count(pid), filter_count(getpid().as_raw()));
        assert!(!is_sandboxed(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
