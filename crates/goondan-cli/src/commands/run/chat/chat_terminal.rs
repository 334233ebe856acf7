//! Terminal of a chat: the full view, or plain lines.

use super::line_keyboard::LineKeyboard;
use super::pressed_key::KeyPress;
#[cfg(unix)]
use super::terminal_guard::TerminalGuard;
#[cfg(unix)]
use super::terminal_signals::{self, TerminalSignal, TerminalSignals};
use crate::exit::CliError;
use crate::output::CommandOutput;

/// Terminal of a chat.
pub(super) enum ChatTerminal {
    /// Raw mode, with rows at the bottom.
    #[cfg(unix)]
    Full {
        guard: TerminalGuard,
        signals: TerminalSignals,
        /// The job is stopped, so nothing is drawn.
        is_lent: bool,
    },
    /// The terminal edits a line and delivers it whole. Nothing is redrawn.
    Plain(LineKeyboard),
}

impl ChatTerminal {
    /// Takes over the terminal. Uses plain lines if requested, or if the terminal supports nothing
    /// else.
    pub(super) fn open(is_plain: bool, output: &CommandOutput) -> Result<Self, CliError> {
        #[cfg(unix)]
        if !is_plain && has_full_view(output) {
            return Ok(ChatTerminal::Full {
                signals: TerminalSignals::listen()?,
                guard: TerminalGuard::enter()?,
                is_lent: false,
            });
        }
        let _ = (is_plain, output);
        Ok(ChatTerminal::Plain(LineKeyboard::open()?))
    }

    /// Returns true for plain lines.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, ChatTerminal::Plain(_))
    }

    /// Returns true while the job is stopped, so that nothing is drawn.
    pub(super) fn is_lent(&self) -> bool {
        match self {
            #[cfg(unix)]
            ChatTerminal::Full { is_lent, .. } => *is_lent,
            ChatTerminal::Plain(_) => false,
        }
    }

    /// Waits for the next key. Returns `None` if the rows at the bottom need a redraw.
    pub(super) async fn next(&mut self) -> Result<Option<KeyPress>, CliError> {
        match self {
            ChatTerminal::Plain(keyboard) => Ok(Some(keyboard.next().await)),
            #[cfg(unix)]
            ChatTerminal::Full {
                guard,
                signals,
                is_lent,
            } => {
                let signal = tokio::select! {
                    biased;
                    key = guard.keyboard.next() => return Ok(Some(key)),
                    signal = signals.next() => signal,
                };
                match signal {
                    TerminalSignal::Resized => {}
                    TerminalSignal::Stop => {
                        guard.release()?;
                        *is_lent = terminal_signals::stop();
                        if !*is_lent {
                            guard.reacquire()?;
                        }
                    }
                    TerminalSignal::Continued => {
                        *is_lent = false;
                        guard.reacquire()?;
                    }
                }
                Ok(None)
            }
        }
    }

    /// Discards everything typed so far.
    pub(super) fn forget(&mut self) {
        match self {
            #[cfg(unix)]
            ChatTerminal::Full { guard, .. } => guard.keyboard.forget(),
            ChatTerminal::Plain(keyboard) => keyboard.forget(),
        }
    }

    /// Stops the job, as the terminal does at Ctrl-Z unless it is in raw mode.
    pub(super) fn suspend(&self) {
        #[cfg(unix)]
        terminal_signals::ask_to_stop();
    }
}

/// Returns true if the terminal supports the full view.
#[cfg(unix)]
fn has_full_view(output: &CommandOutput) -> bool {
    let is_terminal = CommandOutput::stdin_is_terminal()
        && CommandOutput::stdout_is_terminal()
        && CommandOutput::stderr_is_terminal();
    let is_able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    is_terminal && is_able && !output.quiet && !output.json
}
