//! Raw mode of the terminal during a chat. The terminal is restored on drop.

use super::keyboard::KeyboardReader;
use crate::exit::CliError;
use crate::output::screen;
use crate::output::terminal::SavedTerminal;

/// Terminal in raw mode with rows at its bottom. Dropping it restores the terminal.
pub(super) struct TerminalGuard {
    // Field order is drop order: the key reader must end before the terminal is restored.
    pub(super) keyboard: KeyboardReader,
    terminal: SavedTerminal,
}

impl TerminalGuard {
    /// Switches the terminal to raw mode and starts to read keys.
    pub(super) fn enter() -> Result<Self, CliError> {
        let terminal = SavedTerminal::save();
        terminal.enter_raw_mode()?;
        Ok(TerminalGuard {
            keyboard: KeyboardReader::open()?,
            terminal,
        })
    }

    /// Releases the terminal until [`TerminalGuard::reacquire`].
    pub(super) fn release(&self) -> Result<(), CliError> {
        screen::remove_status_rows()?;
        self.terminal.restore();
        Ok(())
    }

    /// Takes the terminal again. Other output may have moved the bottom rows, so they are not
    /// erased.
    pub(super) fn reacquire(&self) -> Result<(), CliError> {
        screen::forget_status_rows();
        Ok(self.terminal.enter_raw_mode()?)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // A closed terminal needs nothing.
        let _ = screen::remove_status_rows();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use nix::pty::openpty;
    use nix::sys::termios::tcgetattr;

    use super::*;
    use crate::output::StatusRows;

    /// Environment variable that makes [`panics`] panic.
    const PANIC_VARIABLE: &str = "GDN_TEST_PANICS";

    #[test]
    fn a_panic_restores_the_terminal_settings() {
        let pty = openpty(None, None).unwrap();
        let mut screen = File::from(pty.master);
        let terminal = File::from(pty.slave);
        let before = tcgetattr(&terminal).unwrap();
        let copy = || Stdio::from(terminal.try_clone().unwrap());
        let mut test_process = Command::new(std::env::current_exe().unwrap());
        test_process
            .args([
                "--exact",
                "commands::run::chat::terminal_guard::tests::panics",
                "--nocapture",
            ])
            .env(PANIC_VARIABLE, "1");
        let mut child = test_process
            .stdin(copy())
            .stdout(copy())
            .stderr(copy())
            .spawn()
            .unwrap();
        let reading = std::thread::spawn(move || {
            let mut seen = Vec::new();
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                seen.extend_from_slice(&bytes[..read]);
            }
            String::from_utf8(seen).unwrap()
        });
        assert!(!child.wait().unwrap().success(), "the test process panics");
        assert_eq!(tcgetattr(&terminal).unwrap(), before);
        drop(terminal);
        drop(test_process);
        let seen = reading.join().unwrap();
        let (_, raw) = seen.split_once("\u{1b}[?2004h").unwrap();
        let (drawn, after) = raw.split_once("\u{1b}[?2004l").unwrap();
        assert!(
            drawn.contains("a prompt") && drawn.contains("it breaks"),
            "{seen:?}"
        );
        assert!(
            drawn.ends_with("\u{1b}[?25h\u{1b}[?2026l") && !after.contains("a prompt"),
            "{seen:?}"
        );
    }

    #[test]
    fn panics() {
        if std::env::var_os(PANIC_VARIABLE).is_some() {
            let _guard = TerminalGuard::enter().unwrap();
            screen::set_status_rows(StatusRows {
                rows: vec!["a prompt".to_owned()],
                cursor: (0, 0),
            })
            .unwrap();
            panic!("it breaks");
        }
    }
}
