//! A command on a pseudo terminal, with its raw output.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};

use crate::sandbox::Sandbox;

/// Timeout of a wait for output, after which the test fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running command on a pseudo terminal.
pub(crate) struct PtySession {
    child: Child,
    /// Input side of the terminal.
    keyboard: File,
    /// Output chunks. The channel closes when the last process closes the terminal.
    screen: Receiver<Vec<u8>>,
    /// Terminal side of the command.
    terminal: File,
    seen: Vec<u8>,
}

impl PtySession {
    /// Starts a plain chat with project `p`.
    pub(crate) fn start_chat(sandbox: &Sandbox) -> Self {
        PtySession::start(sandbox.command(&["run", "p", "--plain"]))
    }

    /// Starts `command`.
    pub(crate) fn start(mut command: Command) -> Self {
        let size = Winsize {
            ws_row: 24,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let terminal = File::from(slave);
        let copy = || terminal.try_clone().unwrap();
        command
            .env("TERM", "xterm")
            .stdin(copy())
            .stdout(copy())
            .stderr(copy());
        let child = command.spawn().unwrap();
        let keyboard = File::from(master);
        let screen = forward_output(keyboard.try_clone().unwrap());
        PtySession {
            child,
            keyboard,
            screen,
            terminal,
            seen: Vec::new(),
        }
    }

    /// Reads until `text` appears. Returns the output up to its end.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        loop {
            if let Some(start) = self
                .seen
                .windows(text.len())
                .position(|bytes| bytes == text.as_bytes())
            {
                let until = self.seen.drain(..start + text.len()).collect();
                return String::from_utf8(until).unwrap();
            }
            let Ok(more) = self.screen.recv_timeout(TIMEOUT) else {
                panic!(
                    "{text:?} did not appear; output: {}",
                    String::from_utf8_lossy(&self.seen)
                );
            };
            self.seen.extend(more);
        }
    }

    /// Waits for the end of the command. Returns the remaining output.
    pub(crate) fn read_to_end(self) -> String {
        let PtySession {
            mut child,
            screen,
            terminal,
            mut seen,
            ..
        } = self;
        child.wait().unwrap();
        drop(terminal);
        screen.iter().for_each(|more| seen.extend(more));
        String::from_utf8(seen).unwrap()
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
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

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        assert!(
            flags.contains(LocalFlags::ICANON | LocalFlags::ECHO),
            "the terminal is in line mode with echo"
        );
        code
    }
}

/// Reads on a separate thread, because a command blocks when its output is not read. On Linux, the
/// read fails when the terminal is closed.
fn forward_output(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = screen.read(&mut bytes)
            && read > 0
            && sender.send(bytes[..read].to_vec()).is_ok()
        {}
    });
    receiver
}
