//! SIGINT, SIGTERM and SIGHUP, as something that can be awaited.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use super::terminal;
use crate::exit::{CliError, Exit};
use crate::store;

/// How long a command that is to end at once may take for it, whatever hangs.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// Somebody wants the command to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C (SIGINT).
    Interrupt,
    /// SIGTERM.
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "other systems have no such signal")
    )]
    Terminate,
}

impl Signal {
    /// What a command ends with that it has ended.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Signal::Interrupt => Exit::Interrupt,
            Signal::Terminate => Exit::Terminate,
        }
    }
}

/// The signals that a command deals with itself: the first one, and the first one after each [`Signals::clear`]. Any other
/// ends the command at once.
#[derive(Debug)]
pub(crate) struct Signals {
    returned: Option<Signal>,
    arrived: UnboundedReceiver<Signal>,
    next_ends: Arc<AtomicBool>,
    taken_over: UnboundedSender<()>,
}

impl Signals {
    /// Waits for a signal; forever where the platform has none.
    pub(crate) async fn next(&mut self) -> Signal {
        if let Some(signal) = self.returned.take() {
            return signal;
        }
        match self.arrived.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// Whoever asks next gets that signal again.
    pub(crate) fn put_back(&mut self, signal: Signal) {
        self.returned = Some(signal);
    }

    /// What the last signal was about is dealt with: the next one is no reason to end at once.
    pub(crate) fn clear(&mut self) {
        while self.arrived.try_recv().is_ok() {}
        self.next_ends.store(false, Ordering::Release);
    }

    /// Ends the command where it stands once another node works in its workspace: nothing can be kept here any more.
    pub(crate) fn end_when(&self, taken_over: impl Future<Output = ()> + Send + 'static) {
        let sender = self.taken_over.clone();
        tokio::spawn(async move {
            taken_over.await;
            // Nobody listens any more to whom it would matter.
            let _ = sender.send(());
        });
    }

    /// The command is ending: the next signal means at once.
    pub(crate) fn next_ends(&self) {
        self.next_ends.store(true, Ordering::Release);
    }
}

/// Runs `command`, which gets the signals of the process. Where one more comes than the command deals with, it is dropped
/// where it stands: what was accepted is on disk.
pub(crate) async fn watched(
    command: impl AsyncFnOnce(Signals) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let source = Source::open()?;
    let (sender, arrived) = mpsc::unbounded_channel();
    let (hurry, hurried) = oneshot::channel();
    let (taken_over, mut is_taken_over) = mpsc::unbounded_channel();
    let next_ends = Arc::new(AtomicBool::new(false));
    tokio::spawn(pass_on(source, sender, Arc::clone(&next_ends), hurry));
    tokio::select! {
        biased;
        Ok(signal) = hurried => Err(CliError::stopped(signal.exit(), "Ended at once.")
            .suggest("Turns that were not over resume at the next start.")),
        Some(()) = is_taken_over.recv() => Err(store::taken_over()),
        outcome = command(Signals { returned: None, arrived, next_ends, taken_over }) => outcome,
    }
}

async fn pass_on(
    mut source: Source,
    sender: UnboundedSender<Signal>,
    next_ends: Arc<AtomicBool>,
    hurry: oneshot::Sender<Signal>,
) {
    let last = loop {
        let signal = source.next().await;
        if next_ends.swap(true, Ordering::AcqRel) {
            break signal;
        }
        // A command that does not listen any more is about to end.
        let _ = sender.send(signal);
    };
    let _ = hurry.send(last);
    // This is reached only where something blocks, such as a write that nobody reads.
    tokio::time::sleep(LAST_MOMENT).await;
    terminal::abandon();
    std::process::exit(last.exit() as i32);
}

/// SIGHUP asks for a reload. A terminal that goes away sends it, too: then the process ends as it would by itself.
pub(crate) struct Hangups {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
    #[cfg(unix)]
    had_terminal: bool,
}

#[cfg(unix)]
impl Hangups {
    /// From now on the process does not die of SIGHUP.
    pub(crate) fn open() -> io::Result<Self> {
        let signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
        Ok(Hangups {
            signals,
            had_terminal: has_terminal(),
        })
    }

    /// Waits until somebody asks for a reload.
    pub(crate) async fn next(&mut self) {
        let received = self.signals.recv().await;
        if self.had_terminal && !has_terminal() {
            // The others deal with the end. That it can't be sent to oneself does not happen.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM);
        }
        if received.is_none() || self.had_terminal && !has_terminal() {
            std::future::pending().await
        }
    }
}

#[cfg(unix)]
fn has_terminal() -> bool {
    crate::output::Output::stdin_is_terminal() || crate::output::Output::stderr_is_terminal()
}

#[cfg(not(unix))]
impl Hangups {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Hangups {})
    }

    /// The platform has nothing like it.
    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}

/// Where signals come from. From [`Source::open`] on the process does not die of them.
#[cfg(unix)]
struct Source {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Source {
    fn open() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Source {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Signal::Interrupt,
            Some(()) = self.terminate.recv() => Signal::Terminate,
            else => std::future::pending().await,
        }
    }
}

/// Where Ctrl-C comes from; the platform has nothing else.
#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    fn open() -> io::Result<Self> {
        Ok(Source)
    }

    async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
