//! A person at a terminal of their own, and what that terminal shows.

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

/// Nothing takes that long; a test that waits for what never comes fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many lines that have scrolled away are kept.
const HISTORY: usize = 20_000;

/// A terminal with whatever runs in it, as the leader of a session of its own.
pub(crate) struct Viewer {
    child: Child,
    keyboard: File,
    terminal: File,
    shown: Arc<Mutex<Shown>>,
    changed: Receiver<()>,
}

/// What came to the terminal, and what it shows.
struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Viewer {
    /// In front of a chat.
    pub(crate) fn sit_down(sandbox: &Sandbox) -> Self {
        Viewer::at(sandbox.command(&["run", "p"]), 24, 80)
    }

    /// In front of `command`, in a terminal of that size.
    pub(crate) fn at(command: Command, rows: u16, columns: u16) -> Self {
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
        // The command leads a session, and the terminal is that session's.
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
        let parser = vt100::Parser::new(rows, columns, HISTORY);
        let shown = Arc::new(Mutex::new(Shown {
            parser,
            bytes: Vec::new(),
        }));
        let (sender, changed) = channel();
        show_on(keyboard.try_clone().unwrap(), Arc::clone(&shown), sender);
        Viewer {
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

    /// Waits until what is on the screen fits; its rows, without blanks at their ends.
    #[track_caller]
    pub(crate) fn wait(&self, fits: impl Fn(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let rows = self.rows();
            if fits(&rows) {
                return rows;
            }
            match self
                .changed
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let rows = self.rows();
                    assert!(fits(&rows), "that never came; seen:\n{}", rows.join("\n"));
                    return rows;
                }
            }
        }
    }

    /// Waits until a row is `text`.
    #[track_caller]
    pub(crate) fn wait_row(&self, text: &str) -> Vec<String> {
        self.wait(|rows| rows.iter().any(|row| row == text))
    }

    /// Waits until a row holds `text`.
    #[track_caller]
    pub(crate) fn wait_text(&self, text: &str) -> Vec<String> {
        self.wait(|rows| rows.iter().any(|row| row.contains(text)))
    }

    /// Waits until the last row that is not empty is `text`.
    #[track_caller]
    pub(crate) fn wait_prompt(&self, text: &str) -> Vec<String> {
        self.wait(|rows| {
            rows.iter()
                .rfind(|row| !row.is_empty())
                .is_some_and(|row| row == text)
        })
    }

    /// Waits until nothing stands between `last` and the prompt: no turn runs any more.
    #[track_caller]
    pub(crate) fn wait_idle(&self, last: &str) {
        self.wait(|rows| {
            let mut rows = rows.iter().rev().filter(|row| !row.is_empty());
            rows.next().is_some_and(|row| row.ends_with('>'))
                && rows.next().is_some_and(|row| row == last)
        });
    }

    /// Waits until the cursor is there: row and column.
    #[track_caller]
    pub(crate) fn wait_cursor(&self, fits: impl Fn(u16, u16) -> bool) {
        self.wait(|_| {
            let (row, column) = self.cursor();
            fits(row, column)
        });
    }

    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.shown.lock().unwrap().parser.screen().cursor_position()
    }

    pub(crate) fn rows(&self) -> Vec<String> {
        rows(self.shown.lock().unwrap().parser.screen())
    }

    /// All lines: those that have scrolled away, and those that are on the screen.
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

    /// Everything that came.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8(self.shown.lock().unwrap().bytes.clone()).unwrap()
    }

    /// The terminal becomes another size. What shows it and the system change at once: what is drawn in between is drawn for a
    /// terminal that is not there any more.
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

    /// How the command ends: its exit code, else the signal.
    pub(crate) fn end(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        status.code().or(status.signal()).unwrap()
    }

    /// Whether the terminal is as programs find it.
    #[track_caller]
    pub(crate) fn assert_as_before(&self) {
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        assert!(
            flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG),
            "{flags:?}"
        );
    }

    /// That, and that nothing is left of pasting, the cursor and styles.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        self.assert_as_before();
        self.wait(|_| {
            let shown = self.shown.lock().unwrap();
            let screen = shown.parser.screen();
            !screen.bracketed_paste() && !screen.hide_cursor() && !screen.alternate_screen()
        });
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        // A test that fails leaves nobody behind.
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

/// Reads on a thread of its own. Linux ends with an error.
fn show_on(mut screen: File, shown: Arc<Mutex<Shown>>, changed: Sender<()>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = screen.read(&mut bytes) {
            let mut shown = shown.lock().unwrap();
            shown.parser.process(&bytes[..read]);
            shown.bytes.extend_from_slice(&bytes[..read]);
            drop(shown);
            // The last test may be over.
            let _ = changed.send(());
        }
    });
}
