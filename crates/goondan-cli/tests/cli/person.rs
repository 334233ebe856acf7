//! A person at a terminal of their own.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};

use crate::sandbox::Sandbox;

/// A person who types and reads.
pub(crate) struct Person {
    child: Child,
    /// What the person sees and types on.
    screen: File,
    /// The terminal's other side, as the command has it.
    terminal: File,
    seen: String,
}

impl Person {
    /// In front of a chat.
    pub(crate) fn sit_down(sandbox: &Sandbox) -> Self {
        Person::at(sandbox.command(&["run", "p"]))
    }

    /// In front of `command`.
    pub(crate) fn at(mut command: Command) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let terminal = File::from(slave);
        let copy = || terminal.try_clone().unwrap();
        command.env("TERM", "xterm").stdin(copy()).stdout(copy()).stderr(copy());
        Person { child: command.spawn().unwrap(), screen: File::from(master), terminal, seen: String::new() }
    }

    /// Reads on until `text` is on the screen; what was there until then.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut bytes = [0; 1024];
        while !self.seen.contains(text) {
            let read = self.screen.read(&mut bytes).unwrap();
            assert!(read > 0, "the terminal was closed; seen: {}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end).collect()
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        assert!(flags.contains(LocalFlags::ICANON | LocalFlags::ECHO), "the terminal is as it was before");
        code
    }
}
