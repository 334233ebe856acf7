//! Signals about the terminal and job control: resize, stop and continue.

use nix::sys::signal::{self, kill, raise};
use nix::unistd::{Pid, getpgrp, getsid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::terminal;

/// Signal about the terminal or the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminalSignal {
    Resized,
    /// The job must stop.
    Stop,
    /// The job continues.
    Continued,
}

/// Receiver of signals about the terminal and the job.
pub(super) struct TerminalSignals {
    resized: Signal,
    stop: Signal,
    continued: Signal,
    quit: Signal,
}

impl TerminalSignals {
    /// Takes over the signals, so that they no longer have their default effect.
    pub(super) fn listen() -> std::io::Result<Self> {
        let stream_of = |number| signal(SignalKind::from_raw(number as i32));
        Ok(TerminalSignals {
            resized: signal(SignalKind::window_change())?,
            stop: stream_of(signal::Signal::SIGTSTP)?,
            continued: stream_of(signal::Signal::SIGCONT)?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal. SIGQUIT ends the process at once.
    pub(super) async fn next(&mut self) -> TerminalSignal {
        tokio::select! {
            Some(()) = self.resized.recv() => TerminalSignal::Resized,
            Some(()) = self.continued.recv() => TerminalSignal::Continued,
            Some(()) = self.stop.recv() => TerminalSignal::Stop,
            Some(()) = self.quit.recv() => {
                terminal::restore_before_exit();
                // Exit code that shells report for a process ended by this signal.
                std::process::exit(128 + signal::Signal::SIGQUIT as i32);
            }
            else => std::future::pending().await,
        }
    }
}

/// Returns true if a shell controls this job. Without a shell, a stopped job would never continue.
fn has_shell() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Asks the whole job to stop, as a terminal does at Ctrl-Z.
pub(super) fn ask_to_stop() {
    if has_shell() {
        // A signal to the own process group can't fail.
        let _ = kill(Pid::from_raw(0), signal::Signal::SIGTSTP);
    }
}

/// Stops this process until it is continued, and returns true if it was stopped.
pub(super) fn stop() -> bool {
    has_shell() && raise(signal::Signal::SIGSTOP).is_ok()
}
