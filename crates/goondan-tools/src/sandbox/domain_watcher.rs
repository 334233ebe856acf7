//! Ends all sandboxed programs if this program is killed.
//!
//! All sandboxes of this program are nested in one domain. The watcher process is in this domain
//! too, but in no sandbox, so sandboxed programs cannot signal it. When its input ends for any
//! reason, it kills all other processes of the domain.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;

use nix::errno::Errno;
use nix::sys::prctl::get_no_new_privs;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getpid, getppid};

use super::helper_arguments::{HelperCommand, watcher_output};
use super::signal_domain::{SignalDomain, kill_all};
use crate::mutex_lock::lock;
use crate::process::TERMINATION_GRACE_PERIOD;

/// Argument that makes the helper the watcher.
pub(super) const DOMAIN_WATCHER_ARGUMENT: &str = "watch-sandboxes";

/// Starts the watcher of this program if it is not running. If this fails, programs still run, but
/// processes that left their group are only ended while this program is alive.
pub(super) fn ensure_running(helper: &HelperCommand) {
    static WATCHER: Mutex<Option<Child>> = Mutex::new(None);
    let mut watcher = lock(&WATCHER);
    let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    if !SignalDomain::is_supported() || watcher.as_mut().is_some_and(is_running) {
        return;
    }
    match start(helper) {
        Ok(child) => *watcher = Some(child),
        Err(error) => {
            tracing::warn!(%error, "cannot start the watcher of sandboxes; processes that \
            leave their group will keep running if gdn is killed")
        }
    }
}

/// Starts the watcher in its own process group, outside of every signal domain of this process.
fn start(helper: &HelperCommand) -> io::Result<Child> {
    let mut command = Command::new(&helper.program);
    command
        .args(&helper.args)
        .args([DOMAIN_WATCHER_ARGUMENT, "--", "sandboxes"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(watcher_output())
        .stderr(Stdio::null());
    // Signals of the terminal to this program's group must not reach the watcher.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    SignalDomain::run_outermost(move || command.spawn())
}

/// Runs the watcher: waits for the end of the input and for the grace period of terminated programs,
/// and then kills all other processes of its domain. Ends after them, because it holds their locks.
pub(super) fn run_watcher() -> ExitCode {
    if !is_in_domain() {
        return ExitCode::FAILURE;
    }
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    std::thread::sleep(TERMINATION_GRACE_PERIOD);
    kill_all();
    ExitCode::SUCCESS
}

/// Returns true if this process cannot signal its parent although both have the same user. Without
/// a domain, a signal to all processes would reach all programs of the user.
fn is_in_domain() -> bool {
    let parent = getppid();
    let parent_user = process_user(parent);
    get_no_new_privs() == Ok(true)
        && parent_user.is_some()
        && parent_user == process_user(getpid())
        && kill(parent, None) == Err(Errno::EPERM)
}

#[expect(clippy::disallowed_methods, reason = "the kernel generates /proc")]
fn process_user(process: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a user starts the watcher outside a domain, it would kill all programs of the user.
    #[test]
    fn an_ordinary_process_is_not_in_a_signal_domain() {
        assert!(!is_in_domain());
    }
}
