//! Ends leftover processes if this program is killed.
//!
//! The watcher process is started once and is notified when a process group begins or ends, through
//! a pipe to its standard input. When the pipe closes for any reason, it ends the remaining groups.
//! This depends on no thread or signal, and reaches all processes of a group.

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::helper_arguments::{HelperCommand, watcher_output};
use crate::mutex_lock::lock;

/// Argument that makes the helper the watcher.
pub(super) const WATCHER_ARGUMENT: &str = "watch-groups";

/// Notifies the watcher process of the process groups that this program has started.
#[derive(Debug)]
pub(crate) struct GroupWatcher {
    helper: HelperCommand,
    state: Mutex<WatcherState>,
}

#[derive(Debug, Default)]
struct WatcherState {
    /// Pipe to the watcher, once it is running.
    pipe: Option<ChildStdin>,
    groups: BTreeSet<u32>,
}

impl GroupWatcher {
    /// Creates a watcher that starts before the first group.
    pub(crate) fn new(helper: HelperCommand) -> Self {
        GroupWatcher {
            helper,
            state: Mutex::default(),
        }
    }

    /// Returns the command that starts a watcher.
    #[cfg(target_os = "linux")]
    pub(super) fn helper(&self) -> &HelperCommand {
        &self.helper
    }

    /// Starts the watcher if necessary. Called before a group begins, so that the group is reported
    /// with hardly any delay.
    pub(crate) fn ensure_running(&self) {
        let mut state = lock(&self.state);
        if state.pipe.is_none() {
            self.start(&mut state);
        }
    }

    /// Registers a process group. Dropping the result removes it.
    pub(crate) fn watch_group(self: &Arc<Self>, group: u32) -> WatchedGroup {
        let mut state = lock(&self.state);
        state.groups.insert(group);
        // A failed write means that the watcher was killed.
        if !state.send_lines(&format!("+{group}\n")) {
            self.start(&mut state);
        }
        WatchedGroup {
            watcher: Arc::clone(self),
            group,
        }
    }

    /// Starts the watcher and reports all groups. If this fails, programs still run, but are only
    /// ended while this program is alive.
    fn start(&self, state: &mut WatcherState) {
        let mut command = Command::new(&self.helper.program);
        command
            .args(&self.helper.args)
            .args([WATCHER_ARGUMENT, "--", "groups"])
            .env_clear()
            .current_dir("/");
        command
            .stdin(Stdio::piped())
            .stdout(watcher_output())
            .stderr(Stdio::null());
        // Signals of the terminal to this program's group must not reach the watcher.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.spawn() {
            Ok(mut child) => {
                state.pipe = child.stdin.take();
                let known_groups: String = state
                    .groups
                    .iter()
                    .map(|group| format!("+{group}\n"))
                    .collect();
                state.send_lines(&known_groups);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot start the process watcher; programs of tools will \
                    keep running if gdn is killed")
            }
        }
    }
}

impl WatcherState {
    /// Returns true if the watcher has received the lines.
    fn send_lines(&mut self, lines: &str) -> bool {
        let was_received = self
            .pipe
            .as_mut()
            .is_some_and(|pipe| pipe.write_all(lines.as_bytes()).is_ok());
        if !was_received {
            self.pipe = None;
        }
        was_received
    }
}

/// A watched process group. Dropped when the group has ended.
#[derive(Debug)]
pub(crate) struct WatchedGroup {
    watcher: Arc<GroupWatcher>,
    group: u32,
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        let mut state = lock(&self.watcher.state);
        if state.groups.remove(&self.group) {
            state.send_lines(&format!("-{}\n", self.group));
        }
    }
}

/// Returns the groups that remain at the end of the input.
fn remaining_groups(lines: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        match (
            line.get(..1),
            line.get(1..).and_then(|group| group.parse::<i32>().ok()),
        ) {
            // Ignore 1 and below, which are never groups of this program.
            (Some("+"), Some(group @ 2..)) => groups.insert(group),
            (Some("-"), Some(group)) => groups.remove(&group),
            _ => false,
        };
    }
    groups
}

/// Runs the watcher: waits for the end of the input, then terminates and finally kills the
/// remaining groups.
#[cfg(unix)]
pub(super) fn run_watcher() -> std::process::ExitCode {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    let groups = remaining_groups(std::io::stdin().lock());
    let signal_all_groups = |signal| {
        groups
            .iter()
            .filter(|group| killpg(Pid::from_raw(**group), signal).is_ok())
            .count()
    };
    if signal_all_groups(Signal::SIGTERM) > 0 {
        std::thread::sleep(crate::process::TERMINATION_GRACE_PERIOD);
        signal_all_groups(Signal::SIGKILL);
    }
    std::process::ExitCode::SUCCESS
}

/// There are no process groups on this platform.
#[cfg(not(unix))]
pub(super) fn run_watcher() -> std::process::ExitCode {
    remaining_groups(std::io::stdin().lock());
    std::process::ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::remaining_groups;

    #[test]
    fn remaining_groups_are_started_but_not_ended() {
        let log = "+10\n+11\n-10\n+0\n+1\n+-5\n-12\n+x\n\u{e9}\n\n+13\n+13\n";
        assert_eq!(
            remaining_groups(log.as_bytes())
                .into_iter()
                .collect::<Vec<_>>(),
            [11, 13]
        );
        assert!(remaining_groups(&b"+7\n-7"[..]).is_empty());
    }
}
