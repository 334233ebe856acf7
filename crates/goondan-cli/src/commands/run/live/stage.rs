//! The terminal while a chat has it.

use super::super::terminal::Terminal;
use super::keyboard::Keyboard;
use crate::exit::CliError;
use crate::output::screen;

/// The terminal, with keys that come at once and rows at its bottom. However it ends, the terminal is as it was before.
pub(super) struct Stage {
    // Dropped in this order: who reads keys goes before the terminal is put back.
    pub(super) keyboard: Keyboard,
    terminal: Terminal,
}

impl Stage {
    pub(super) fn enter() -> Result<Self, CliError> {
        let terminal = Terminal::keep();
        terminal.raw()?;
        Ok(Stage {
            keyboard: Keyboard::open()?,
            terminal,
        })
    }

    /// Gives the terminal back for a while.
    pub(super) fn lend(&self) -> Result<(), CliError> {
        screen::lift()?;
        self.terminal.back();
        Ok(())
    }

    /// Takes the terminal again. What stood at its bottom stands somewhere in what others have written.
    pub(super) fn again(&self) -> Result<(), CliError> {
        screen::forget_bottom();
        Ok(self.terminal.raw()?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = screen::lift();
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
    use crate::output::Bottom;

    /// Set, it makes [`panics`] do so.
    const SWITCH: &str = "GDN_TEST_PANICS";

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let pty = openpty(None, None).unwrap();
        let (mut screen, terminal) = (File::from(pty.master), File::from(pty.slave));
        let before = tcgetattr(&terminal).unwrap();
        let copy = || Stdio::from(terminal.try_clone().unwrap());
        let mut itself = Command::new(std::env::current_exe().unwrap());
        itself
            .args([
                "--exact",
                "commands::run::live::stage::tests::panics",
                "--nocapture",
            ])
            .env(SWITCH, "1");
        let mut child = itself
            .stdin(copy())
            .stdout(copy())
            .stderr(copy())
            .spawn()
            .unwrap();
        let reading = std::thread::spawn(move || {
            let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                seen.extend_from_slice(&bytes[..read]);
            }
            String::from_utf8(seen).unwrap()
        });
        assert!(!child.wait().unwrap().success(), "it panics");
        assert_eq!(tcgetattr(&terminal).unwrap(), before);
        drop(terminal);
        drop(itself);
        let seen = reading.join().unwrap();
        let (_, raw) = seen.split_once("\u{1b}[?2004h").unwrap();
        let (until, after) = raw.split_once("\u{1b}[?2004l").unwrap();
        assert!(
            until.contains("a prompt") && until.contains("it breaks"),
            "{seen:?}"
        );
        assert!(
            until.ends_with("\u{1b}[?25h\u{1b}[?2026l") && !after.contains("a prompt"),
            "{seen:?}"
        );
    }

    #[test]
    fn panics() {
        if std::env::var_os(SWITCH).is_some() {
            let _stage = Stage::enter().unwrap();
            screen::stand_below(Bottom {
                rows: vec!["a prompt".to_owned()],
                cursor: (0, 0),
            })
            .unwrap();
            panic!("it breaks");
        }
    }
}
