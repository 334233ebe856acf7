//! Terminal settings, and their restoration.

use std::io;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use nix::sys::termios::{
    _POSIX_VDISABLE, InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr,
    tcsetattr,
};

/// Restores the terminal when dropped, because a signal may end a command during a prompt.
pub(crate) struct SavedTerminal {
    #[cfg(unix)]
    before: Option<Termios>,
}

/// Original settings of a changed terminal, for code that must end the process at once.
#[cfg(unix)]
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Byte of Ctrl-C.
pub(crate) const INTERRUPT_BYTE: u8 = 3;

impl SavedTerminal {
    /// Saves the settings of the terminal on standard input.
    pub(crate) fn save() -> Self {
        SavedTerminal {
            #[cfg(unix)]
            before: tcgetattr(io::stdin()).ok(),
        }
    }

    /// Switches to raw mode: keys arrive at once, none is a signal, and pasted text is bracketed.
    #[cfg(unix)]
    pub(crate) fn enter_raw_mode(&self) -> io::Result<()> {
        self.change(|settings| {
            settings.local_flags -=
                LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG | LocalFlags::IEXTEN;
            settings.input_flags -= InputFlags::IXON
                | InputFlags::ICRNL
                | InputFlags::INLCR
                | InputFlags::IGNCR
                | InputFlags::ISTRIP;
            settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
            settings.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        })?;
        write_sequence("\u{1b}[?2004h");
        Ok(())
    }

    /// Makes Ctrl-C the end of a line instead of a signal, so that it answers a prompt. The terminal
    /// edits and repeats the line.
    #[cfg(unix)]
    pub(crate) fn read_interrupt_as_line_end(&self) -> io::Result<()> {
        self.change(|settings| {
            settings.local_flags |= LocalFlags::ICANON | LocalFlags::ECHO;
            settings.control_chars[SpecialCharacterIndices::VINTR as usize] = _POSIX_VDISABLE;
            settings.control_chars[SpecialCharacterIndices::VEOL as usize] = INTERRUPT_BYTE;
        })
    }

    /// Changes nothing, because Ctrl-C is no byte of a line on this platform.
    #[cfg(not(unix))]
    pub(crate) fn read_interrupt_as_line_end(&self) -> io::Result<()> {
        Ok(())
    }

    /// Changes the settings until [`SavedTerminal::restore`].
    #[cfg(unix)]
    fn change(&self, change: impl FnOnce(&mut Termios)) -> io::Result<()> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        // A prompt that a signal ended can leave changed settings.
        lock_before().get_or_insert_with(|| before.clone());
        let mut settings = before.clone();
        change(&mut settings);
        Ok(tcsetattr(io::stdin(), SetArg::TCSADRAIN, &settings)?)
    }

    /// Restores the terminal, until the next change.
    #[cfg(unix)]
    pub(crate) fn restore(&self) {
        let Some(before) = &self.before else { return };
        let is_raw =
            tcgetattr(io::stdin()).is_ok_and(|now| !now.local_flags.contains(LocalFlags::ICANON));
        // A closed terminal needs nothing.
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
        *lock_before() = None;
        if is_raw {
            // The raw mode enabled bracketed paste; the shell enables it again if needed.
            write_sequence("\u{1b}[?2004l");
        }
    }
}

#[cfg(unix)]
impl Drop for SavedTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}

#[cfg(unix)]
fn lock_before() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes an escape sequence to standard output, if that is a terminal. Errors are ignored.
#[cfg(unix)]
fn write_sequence(sequence: &str) {
    let mut stdout = io::stdout();
    if io::IsTerminal::is_terminal(&stdout) {
        let _ = io::Write::write_all(&mut stdout, sequence.as_bytes());
        let _ = io::Write::flush(&mut stdout);
    }
}

/// Restores a changed terminal before the process exits. Waits for no lock.
pub(crate) fn restore_before_exit() {
    #[cfg(unix)]
    if let Ok(before) = BEFORE.try_lock()
        && let Some(before) = &*before
    {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
    }
}

/// Discards input that was typed before a prompt.
pub(crate) fn discard_typed_input() {
    #[cfg(unix)]
    {
        use nix::sys::termios::{FlushArg, tcflush};
        // Prompts are only shown if standard input is a terminal; a closed one has no input to discard.
        let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    }
}
