//! What the system tells a chat beside keys: the size of the terminal has changed, and jobs are stopped and go on.

use nix::sys::signal::{self, kill, raise};
use nix::unistd::{Pid, getpgrp, getsid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::terminal;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Resized,
    /// The job is to stop.
    Stop,
    /// It goes on.
    Continued,
}

/// The signals of terminals and jobs.
pub(super) struct Os {
    resized: Signal,
    stop: Signal,
    continued: Signal,
    quit: Signal,
}

impl Os {
    pub(super) fn listen() -> std::io::Result<Self> {
        let of = |number| signal(SignalKind::from_raw(number as i32));
        Ok(Os {
            resized: signal(SignalKind::window_change())?,
            stop: of(signal::Signal::SIGTSTP)?,
            continued: of(signal::Signal::SIGCONT)?,
            quit: signal(SignalKind::quit())?,
        })
    }

    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            Some(()) = self.resized.recv() => Told::Resized,
            Some(()) = self.continued.recv() => Told::Continued,
            Some(()) = self.stop.recv() => Told::Stop,
            Some(()) = self.quit.recv() => {
                terminal::abandon();
                // As the shell says it of whom that signal has ended.
                std::process::exit(128 + signal::Signal::SIGQUIT as i32);
            }
            else => std::future::pending().await,
        }
    }
}

/// Whether a shell waits for this job: without one, nobody would let it go on.
fn has_shell() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Asks the whole job to stop, as a terminal does at Ctrl-Z.
pub(super) fn ask_to_stop() {
    if has_shell() {
        // A signal to one's own group can't fail.
        let _ = kill(Pid::from_raw(0), signal::Signal::SIGTSTP);
    }
}

/// Stops this process until somebody lets it go on; whether it was stopped.
pub(super) fn stop() -> bool {
    has_shell() && raise(signal::Signal::SIGSTOP).is_ok()
}
