//! A person at a terminal of their own.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};

use crate::sandbox::Sandbox;

/// Nothing takes that long; a test that waits for what never comes fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A person who types and reads.
pub(crate) struct Person {
    child: Child,
    /// What the person types on.
    keyboard: File,
    /// What comes on the screen; it ends when nobody has the terminal any more.
    screen: Receiver<Vec<u8>>,
    /// The terminal's other side, as the command has it.
    terminal: File,
    seen: Vec<u8>,
}

impl Person {
    /// In front of a chat in plain lines.
    pub(crate) fn sit_down(sandbox: &Sandbox) -> Self {
        Person::at(sandbox.command(&["run", "p", "--plain"]))
    }

    /// In front of `command`.
    pub(crate) fn at(mut command: Command) -> Self {
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
        let screen = read_on(keyboard.try_clone().unwrap());
        Person {
            child,
            keyboard,
            screen,
            terminal,
            seen: Vec::new(),
        }
    }

    /// Reads on until `text` is on the screen; what was there until then.
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
            let Ok(more) = self.screen.recv_timeout(PATIENCE) else {
                panic!(
                    "{text:?} never came; seen: {}",
                    String::from_utf8_lossy(&self.seen)
                );
            };
            self.seen.extend(more);
        }
    }

    /// All that is on the screen once the command has ended.
    pub(crate) fn read_to_end(self) -> String {
        let Person {
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
            "the terminal is as it was before"
        );
        code
    }
}

/// Reads on a thread of its own: a command whose output nobody reads would stand still. Linux ends with an error.
fn read_on(mut screen: File) -> Receiver<Vec<u8>> {
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
