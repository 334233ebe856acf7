//! A command on a pseudo terminal, and the screen that a terminal emulator shows.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::pty::{OpenptyResult, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::sandbox::Sandbox;

/// Timeout of a wait for the screen, after which the test fails.
const TIMEOUT: Duration = Duration::from_secs(60);

const MAX_SCROLLBACK_LINES: usize = 20_000;

/// A running command as the session leader of an emulated terminal.
pub(crate) struct EmulatedTerminal {
    child: Child,
    keyboard: File,
    terminal: File,
    shown: Arc<Mutex<Shown>>,
    changed: Receiver<()>,
}

/// Screen of the terminal, and all bytes that it received.
struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl EmulatedTerminal {
    /// Starts a chat with project `p`.
    pub(crate) fn start_chat(sandbox: &Sandbox) -> Self {
        EmulatedTerminal::start(sandbox.command(&["run", "p"]), 24, 80)
    }

    /// Starts `command` in a terminal of the given size.
    pub(crate) fn start(command: Command, rows: u16, columns: u16) -> Self {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let terminal = File::from(slave);
        tcsetwinsize(&terminal, size).unwrap();
        let copy = || Stdio::from(terminal.try_clone().unwrap());
        // The command leads a session whose controlling terminal is this one.
        let mut leader = Command::new("setsid");
        leader
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear()
            .env("TERM", "xterm");
        leader.envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        leader
            .current_dir(command.get_current_dir().unwrap())
            .stdin(copy())
            .stdout(copy())
            .stderr(copy());
        let child = leader.spawn().unwrap();
        let keyboard = File::from(master);
        let parser = vt100::Parser::new(rows, columns, MAX_SCROLLBACK_LINES);
        let shown = Arc::new(Mutex::new(Shown {
            parser,
            bytes: Vec::new(),
        }));
        let (sender, changed) = channel();
        emulate(keyboard.try_clone().unwrap(), Arc::clone(&shown), sender);
        EmulatedTerminal {
            child,
            keyboard,
            terminal,
            shown,
            changed,
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the screen meets the condition. Returns its rows without trailing blanks.
    #[track_caller]
    pub(crate) fn wait_until(&self, condition: impl Fn(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let rows = self.rows();
            if condition(&rows) {
                return rows;
            }
            match self
                .changed
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let rows = self.rows();
                    assert!(
                        condition(&rows),
                        "the screen did not meet the condition:\n{}",
                        rows.join("\n")
                    );
                    return rows;
                }
            }
        }
    }

    /// Waits until a row equals `text`.
    #[track_caller]
    pub(crate) fn wait_row(&self, text: &str) -> Vec<String> {
        self.wait_until(|rows| rows.iter().any(|row| row == text))
    }

    /// Waits until a row contains `text`.
    #[track_caller]
    pub(crate) fn wait_text(&self, text: &str) -> Vec<String> {
        self.wait_until(|rows| rows.iter().any(|row| row.contains(text)))
    }

    /// Waits until the last row that is not empty equals `text`.
    #[track_caller]
    pub(crate) fn wait_prompt(&self, text: &str) -> Vec<String> {
        self.wait_until(|rows| {
            rows.iter()
                .rfind(|row| !row.is_empty())
                .is_some_and(|row| row == text)
        })
    }

    /// Waits until the row above the prompt equals `last`, so that no turn is running.
    #[track_caller]
    pub(crate) fn wait_idle(&self, last: &str) {
        self.wait_until(|rows| {
            let mut rows = rows.iter().rev().filter(|row| !row.is_empty());
            rows.next().is_some_and(|row| row.ends_with('>'))
                && rows.next().is_some_and(|row| row == last)
        });
    }

    /// Waits until the row and column of the cursor meet the condition.
    #[track_caller]
    pub(crate) fn wait_cursor(&self, condition: impl Fn(u16, u16) -> bool) {
        self.wait_until(|_| {
            let (row, column) = self.cursor();
            condition(row, column)
        });
    }

    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.shown.lock().unwrap().parser.screen().cursor_position()
    }

    pub(crate) fn rows(&self) -> Vec<String> {
        rows(self.shown.lock().unwrap().parser.screen())
    }

    /// Returns all lines: the scrollback and the screen.
    pub(crate) fn history(&self) -> Vec<String> {
        let mut shown = self.shown.lock().unwrap();
        let screen = shown.parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let mut lines = Vec::new();
        loop {
            let (left, height) = (screen.scrollback(), usize::from(screen.size().0));
            let visible = rows(screen);
            if left == 0 {
                lines.extend(visible);
                return lines;
            }
            let step = left.min(height);
            lines.extend(visible.into_iter().take(step));
            screen.set_scrollback(left - step);
        }
    }

    /// Returns all received bytes.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8(self.shown.lock().unwrap().bytes.clone()).unwrap()
    }

    /// Resizes the terminal. The lock makes the emulator and the system change together, so that no
    /// output is drawn for the old size.
    pub(crate) fn resize(&self, height: u16, width: u16) {
        let mut shown = self.shown.lock().unwrap();
        shown.parser.screen_mut().set_size(height, width);
        let size = Winsize {
            ws_row: height,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.terminal, size).unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the end of the command. Returns its exit code, or the signal that killed it.
    pub(crate) fn end(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        status.code().or(status.signal()).unwrap()
    }

    /// Asserts that the terminal is in line mode, with echo and signals.
    #[track_caller]
    pub(crate) fn assert_line_mode(&self) {
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        assert!(
            flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG),
            "{flags:?}"
        );
    }

    /// Asserts line mode, a visible cursor, no bracketed paste and no alternate screen.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        self.assert_line_mode();
        self.wait_until(|_| {
            let shown = self.shown.lock().unwrap();
            let screen = shown.parser.screen();
            !screen.bracketed_paste() && !screen.hide_cursor() && !screen.alternate_screen()
        });
    }
}

impl Drop for EmulatedTerminal {
    fn drop(&mut self) {
        // A failed test leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rows(screen: &vt100::Screen) -> Vec<String> {
    let (_, columns) = screen.size();
    screen
        .rows(0, columns)
        .map(|row| row.trim_end().to_owned())
        .collect()
}

/// Feeds the emulator on a separate thread. On Linux, the read fails when the terminal is closed.
fn emulate(mut screen: File, shown: Arc<Mutex<Shown>>, changed: Sender<()>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = screen.read(&mut bytes) {
            let mut shown = shown.lock().unwrap();
            shown.parser.process(&bytes[..read]);
            shown.bytes.extend_from_slice(&bytes[..read]);
            drop(shown);
            // The receiver is gone when the test has ended.
            let _ = changed.send(());
        }
    });
}
