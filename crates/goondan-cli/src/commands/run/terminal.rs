//! Terminal settings, and their restoration.

/// Restores the terminal when dropped, because a signal may end a chat during a prompt.
#[cfg(unix)]
pub(crate) struct Terminal {
    before: Option<nix::sys::termios::Termios>,
}

/// Original terminal settings, for code that must end the process at once.
#[cfg(unix)]
static BEFORE: std::sync::Mutex<Option<nix::sys::termios::Termios>> = std::sync::Mutex::new(None);

#[cfg(unix)]
impl Terminal {
    /// Saves the settings of the terminal on standard input.
    pub(crate) fn keep() -> Self {
        Terminal {
            before: nix::sys::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    /// Switches to raw mode: keys arrive at once, none is a signal, and pasted text is bracketed.
    pub(crate) fn raw(&self) -> std::io::Result<()> {
        use nix::sys::termios::{
            InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, tcsetattr,
        };
        let Some(before) = &self.before else {
            return Ok(());
        };
        *BEFORE
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(before.clone());
        let mut raw = before.clone();
        raw.local_flags -=
            LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG | LocalFlags::IEXTEN;
        raw.input_flags -= InputFlags::IXON
            | InputFlags::ICRNL
            | InputFlags::INLCR
            | InputFlags::IGNCR
            | InputFlags::ISTRIP;
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &raw)?;
        write_sequence("\u{1b}[?2004h");
        Ok(())
    }

    /// Restores the terminal, until the next [`Terminal::raw`].
    pub(crate) fn back(&self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        let Some(before) = &self.before else { return };
        // A closed terminal needs nothing.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        // The prompt enabled bracketed paste; the shell enables it again if needed.
        write_sequence("\u{1b}[?2004l");
    }
}

/// Writes an escape sequence to standard output, if that is a terminal. Errors are ignored.
#[cfg(unix)]
fn write_sequence(sequence: &str) {
    let mut stdout = std::io::stdout();
    if std::io::IsTerminal::is_terminal(&stdout) {
        let _ = std::io::Write::write_all(&mut stdout, sequence.as_bytes());
        let _ = std::io::Write::flush(&mut stdout);
    }
}

#[cfg(unix)]
impl Drop for Terminal {
    fn drop(&mut self) {
        self.back();
    }
}

/// Restores the terminal before the process exits at once. Waits for no lock.
#[cfg(unix)]
pub(crate) fn abandon() {
    use nix::sys::termios::{SetArg, tcsetattr};
    if let Ok(before) = BEFORE.try_lock()
        && let Some(before) = &*before
    {
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
    }
}

/// Stub, because on other platforms only the prompt uses the console.
#[cfg(not(unix))]
pub(crate) struct Terminal;

#[cfg(not(unix))]
impl Terminal {
    pub(crate) fn keep() -> Self {
        Terminal
    }
}

#[cfg(not(unix))]
pub(crate) fn abandon() {}
