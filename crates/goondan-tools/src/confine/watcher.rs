//! Ends what is left behind where this program is killed before it can do so itself.
//!
//! The helper is started once, beside the programs, and told of every group that begins and ends; its standard input is
//! a pipe from here. When that is closed, whichever way this program has ended, it ends the groups that are left. It
//! depends on no thread and no signal of the operating system, and reaches all processes of a group.

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::HelperCommand;
use crate::state::lock;

/// What the helper is told in place of restrictions, to become the watcher.
pub(super) const WATCH: &str = "watch-groups";

/// Tells the watcher of the groups that this program has started.
#[derive(Debug)]
pub(crate) struct Watcher {
    helper: HelperCommand,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// To the watcher, once it is there.
    pipe: Option<ChildStdin>,
    /// The groups that live.
    groups: BTreeSet<u32>,
}

impl Watcher {
    /// One that is started before the first group.
    pub(crate) fn new(helper: HelperCommand) -> Self {
        Watcher {
            helper,
            state: Mutex::default(),
        }
    }

    /// Makes sure that it is there. Called before a group begins, so that hardly a moment passes between that and its
    /// being told.
    pub(crate) fn prepare(&self) {
        let mut state = lock(&self.state);
        if state.pipe.is_none() {
            self.start(&mut state);
        }
    }

    /// Has the group ended if this program does not live to do it. What comes back is dropped when the group has ended.
    pub(crate) fn watch(self: &Arc<Self>, group: u32) -> Watched {
        let mut state = lock(&self.state);
        state.groups.insert(group);
        // Where it does not hear, somebody has ended it.
        if !state.tell(&format!("+{group}\n")) {
            self.start(&mut state);
        }
        Watched {
            watcher: Arc::clone(self),
            group,
        }
    }

    /// Starts the watcher and tells it of all groups. Where that fails programs run all the same: they are ended as long as
    /// this program is there to do it.
    fn start(&self, state: &mut State) {
        let mut command = Command::new(&self.helper.program);
        command
            .args(&self.helper.args)
            .args([WATCH, "--", "groups"])
            .env_clear()
            .current_dir("/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // What a terminal sends to this program and all around it is not for the watcher.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.spawn() {
            Ok(mut child) => {
                state.pipe = child.stdin.take();
                let all: String = state
                    .groups
                    .iter()
                    .map(|group| format!("+{group}\n"))
                    .collect();
                state.tell(&all);
            }
            Err(error) => {
                tracing::warn!(%error, "what tools run would be left behind if this program was killed")
            }
        }
    }
}

impl State {
    /// Whether the watcher has heard it.
    fn tell(&mut self, lines: &str) -> bool {
        let heard = self
            .pipe
            .as_mut()
            .is_some_and(|pipe| pipe.write_all(lines.as_bytes()).is_ok());
        if !heard {
            self.pipe = None;
        }
        heard
    }
}

/// A group that is watched. Dropped when the group has ended.
#[derive(Debug)]
pub(crate) struct Watched {
    watcher: Arc<Watcher>,
    group: u32,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = lock(&self.watcher.state);
        if state.groups.remove(&self.group) {
            state.tell(&format!("-{}\n", self.group));
        }
    }
}

/// The groups that are left when nothing more is said.
fn left(lines: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        match (
            line.get(..1),
            line.get(1..).and_then(|group| group.parse::<i32>().ok()),
        ) {
            // 1 and below are no groups of ours.
            (Some("+"), Some(group @ 2..)) => groups.insert(group),
            (Some("-"), Some(group)) => groups.remove(&group),
            _ => false,
        };
    }
    groups
}

/// What the watcher does: it listens, and ends what is left. First it asks, then it kills.
#[cfg(unix)]
pub(super) fn watch() -> std::process::ExitCode {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    let groups = left(std::io::stdin().lock());
    let all = |signal| {
        groups
            .iter()
            .filter(|group| killpg(Pid::from_raw(**group), signal).is_ok())
            .count()
    };
    if all(Signal::SIGTERM) > 0 {
        std::thread::sleep(crate::process::GRACE);
        all(Signal::SIGKILL);
    }
    std::process::ExitCode::SUCCESS
}

/// There are no groups here.
#[cfg(not(unix))]
pub(super) fn watch() -> std::process::ExitCode {
    left(std::io::stdin().lock());
    std::process::ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::left;

    #[test]
    fn what_is_left_began_and_did_not_end() {
        let said = "+10\n+11\n-10\n+0\n+1\n+-5\n-12\n+x\n\u{e9}\n\n+13\n+13\n";
        assert_eq!(
            left(said.as_bytes()).into_iter().collect::<Vec<_>>(),
            [11, 13]
        );
        assert!(left(&b"+7\n-7"[..]).is_empty());
    }
}
