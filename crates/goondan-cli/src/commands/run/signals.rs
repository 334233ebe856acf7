//! SIGINT, SIGTERM and SIGHUP as futures.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::exit::{CliError, CommandExit};
use crate::output::terminal;
use crate::store;

/// Time that an interrupted command has to end before the process exits anyway.
const FORCED_EXIT_DELAY: Duration = Duration::from_secs(2);

/// Signal that asks the command to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// Ctrl-C (SIGINT).
    Interrupt,
    /// SIGTERM.
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "other systems have no such signal")
    )]
    Terminate,
}

impl StopSignal {
    /// Exit code of a command that this signal ended.
    pub(crate) fn exit(self) -> CommandExit {
        match self {
            StopSignal::Interrupt => CommandExit::Interrupt,
            StopSignal::Terminate => CommandExit::Terminate,
        }
    }
}

/// Receives the signals that the command handles itself: the first signal, and the first one after
/// each [`SignalReceiver::clear`]. Every other signal ends the command at once.
#[derive(Debug)]
pub(crate) struct SignalReceiver {
    /// Signal that [`SignalReceiver::next`] returns again.
    returned: Option<StopSignal>,
    arrived: UnboundedReceiver<StopSignal>,
    /// The next signal ends the command at once.
    next_ends: Arc<AtomicBool>,
    /// Ends the command because another node has taken over.
    taken_over: UnboundedSender<()>,
}

impl SignalReceiver {
    /// Waits for a signal; forever if the platform has none.
    pub(crate) async fn next(&mut self) -> StopSignal {
        if let Some(signal) = self.returned.take() {
            return signal;
        }
        match self.arrived.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// Waits for a signal, and leaves it for the next call of [`SignalReceiver::next`].
    pub(crate) async fn arrival(&mut self) {
        let signal = self.next().await;
        self.put_back(signal);
    }

    /// Makes the next call of [`SignalReceiver::next`] return this signal again.
    pub(crate) fn put_back(&mut self, signal: StopSignal) {
        self.returned = Some(signal);
    }

    /// Marks the last signal as handled, so that the next one does not end the command at once.
    pub(crate) fn clear(&mut self) {
        while self.arrived.try_recv().is_ok() {}
        self.next_ends.store(false, Ordering::Release);
    }

    /// Ends the command once another node takes over, because no state can be saved here any more.
    pub(crate) fn end_when(&self, taken_over: impl Future<Output = ()> + Send + 'static) {
        let sender = self.taken_over.clone();
        tokio::spawn(async move {
            taken_over.await;
            // The command may have ended already.
            let _ = sender.send(());
        });
    }

    /// Makes the next signal end the command at once.
    pub(crate) fn next_ends(&self) {
        self.next_ends.store(true, Ordering::Release);
    }
}

/// Runs `command` with a receiver of the stop signals: Ctrl-C (SIGINT) and SIGTERM. A signal that
/// the command does not handle drops the command at once; accepted inputs are on disk.
pub(crate) async fn run_with_signals(
    command: impl AsyncFnOnce(SignalReceiver) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let source = SignalSource::open()?;
    let (sender, arrived) = mpsc::unbounded_channel();
    let (unhandled, unhandled_signal) = oneshot::channel();
    let (taken_over, mut is_taken_over) = mpsc::unbounded_channel();
    let next_ends = Arc::new(AtomicBool::new(false));
    tokio::spawn(forward_signals(
        source,
        sender,
        Arc::clone(&next_ends),
        unhandled,
    ));
    tokio::select! {
        biased;
        Ok(signal) = unhandled_signal => Err(CliError::stopped(signal.exit(), "Ended at once.")
            .suggest("Unfinished turns resume at the next start.")),
        Some(()) = is_taken_over.recv() => Err(store::taken_over_error()),
        outcome = command(SignalReceiver { returned: None, arrived, next_ends, taken_over }) => outcome,
    }
}

/// Forwards the signals that the command handles to `sender`. Sends the first other signal to
/// `unhandled`, and ends the process if the command does not end in time.
async fn forward_signals(
    mut source: SignalSource,
    sender: UnboundedSender<StopSignal>,
    next_ends: Arc<AtomicBool>,
    unhandled: oneshot::Sender<StopSignal>,
) {
    let last = loop {
        let signal = source.next().await;
        if next_ends.swap(true, Ordering::AcqRel) {
            break signal;
        }
        // A command that no longer listens is about to end.
        let _ = sender.send(signal);
    };
    let _ = unhandled.send(last);
    // Reached only if something blocks, such as a write to a pipe without a reader.
    tokio::time::sleep(FORCED_EXIT_DELAY).await;
    terminal::restore_before_exit();
    std::process::exit(last.exit() as i32);
}

/// SIGHUP requests a reload. A closed terminal also sends it; then the process ends as by default.
pub(crate) struct HangupSignals {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
    #[cfg(unix)]
    had_terminal: bool,
}

#[cfg(unix)]
impl HangupSignals {
    /// Takes over SIGHUP, so that it no longer ends the process.
    pub(crate) fn open() -> io::Result<Self> {
        let signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
        Ok(HangupSignals {
            signals,
            had_terminal: has_terminal(),
        })
    }

    /// Waits for a reload request (SIGHUP). If SIGHUP came because the terminal was closed, ends the
    /// process with SIGTERM instead, and never returns.
    pub(crate) async fn next(&mut self) {
        let received = self.signals.recv().await;
        let lost_terminal = self.had_terminal && !has_terminal();
        if lost_terminal {
            // The other signal handlers end the process. Raising SIGTERM can't fail.
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM);
        }
        if received.is_none() || lost_terminal {
            std::future::pending().await
        }
    }
}

/// Returns true if standard input or standard error is an open terminal.
#[cfg(unix)]
fn has_terminal() -> bool {
    crate::output::CommandOutput::stdin_is_terminal()
        || crate::output::CommandOutput::stderr_is_terminal()
}

#[cfg(not(unix))]
impl HangupSignals {
    /// Creates a receiver that never receives a signal.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(HangupSignals {})
    }

    /// Never completes, because the platform has no such signal.
    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}

/// Source of SIGINT and SIGTERM. After [`SignalSource::open`], they no longer end the process.
#[cfg(unix)]
struct SignalSource {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl SignalSource {
    /// Takes over SIGINT and SIGTERM, so that they no longer end the process.
    fn open() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(SignalSource {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> StopSignal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => StopSignal::Interrupt,
            Some(()) = self.terminate.recv() => StopSignal::Terminate,
            else => std::future::pending().await,
        }
    }
}

/// Source of Ctrl-C, the only signal of the platform.
#[cfg(not(unix))]
struct SignalSource;

#[cfg(not(unix))]
impl SignalSource {
    fn open() -> io::Result<Self> {
        Ok(SignalSource)
    }

    async fn next(&mut self) -> StopSignal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => StopSignal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
