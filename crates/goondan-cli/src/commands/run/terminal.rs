//! The state that a terminal is left in.

/// Puts the terminal back when it is dropped: a chat that a signal ends may stand in the middle of a prompt.
#[cfg(unix)]
pub(crate) struct Terminal {
    before: Option<nix::sys::termios::Termios>,
}

#[cfg(unix)]
impl Terminal {
    /// Remembers how the terminal on standard input is set.
    pub(crate) fn keep() -> Self {
        Terminal { before: nix::sys::termios::tcgetattr(std::io::stdin()).ok() }
    }
}

#[cfg(unix)]
impl Drop for Terminal {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        let Some(before) = &self.before else { return };
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        let mut stdout = std::io::stdout();
        if std::io::IsTerminal::is_terminal(&stdout) {
            // The prompt has pasted text marked; the shell decides for itself.
            let _ = std::io::Write::write_all(&mut stdout, b"\x1b[?2004l");
            let _ = std::io::Write::flush(&mut stdout);
        }
    }
}

/// Elsewhere the console belongs to the prompt alone.
#[cfg(not(unix))]
pub(crate) struct Terminal;

#[cfg(not(unix))]
impl Terminal {
    /// Nothing to remember.
    pub(crate) fn keep() -> Self {
        Terminal
    }
}
