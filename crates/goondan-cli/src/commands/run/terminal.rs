//! The state that a terminal is left in.

/// Puts the terminal back when it is dropped: a chat that a signal ends may stand in the middle of a prompt.
#[cfg(unix)]
pub(crate) struct Terminal {
    before: Option<nix::sys::termios::Termios>,
}

/// How the terminal was, for whoever must end the process at once.
#[cfg(unix)]
static BEFORE: std::sync::Mutex<Option<nix::sys::termios::Termios>> = std::sync::Mutex::new(None);

#[cfg(unix)]
impl Terminal {
    /// Remembers how the terminal on standard input is set.
    pub(crate) fn keep() -> Self {
        Terminal {
            before: nix::sys::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    /// From now on every key comes at once, and none is a signal. Pasted text is marked.
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
        say("\u{1b}[?2004h");
        Ok(())
    }

    /// Puts the terminal back, until it is raw again.
    pub(crate) fn back(&self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        let Some(before) = &self.before else { return };
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        // The prompt has pasted text marked; the shell decides for itself.
        say("\u{1b}[?2004l");
    }
}

#[cfg(unix)]
fn say(sequence: &str) {
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

/// Puts the settings of the terminal back where the process ends without a word, and waits for nobody.
#[cfg(unix)]
pub(crate) fn abandon() {
    use nix::sys::termios::{SetArg, tcsetattr};
    if let Ok(before) = BEFORE.try_lock()
        && let Some(before) = &*before
    {
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
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

/// Nothing to put back.
#[cfg(not(unix))]
pub(crate) fn abandon() {}
