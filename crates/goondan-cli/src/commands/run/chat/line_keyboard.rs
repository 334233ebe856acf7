//! Keyboard of a terminal that edits lines itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::pressed_key::KeyPress;
use crate::output::terminal::{SavedTerminal, discard_typed_input};
use crate::output::{CommandOutput, TerminalLine, read_line};

/// Keys of typed lines. Its thread ends with the process, because a read cannot be interrupted.
pub(super) struct LineKeyboard {
    keys: UnboundedReceiver<(u64, KeyPress)>,
    discard_count: DiscardCount,
    _terminal: SavedTerminal,
}

/// Number of times that the typed lines were discarded. A line is obsolete if the number has grown
/// since the line was read. On Unix, the thread reads a line only while it has the lock.
type DiscardCount = Arc<Mutex<u64>>;

impl LineKeyboard {
    /// Starts the thread that reads lines.
    pub(super) fn open() -> std::io::Result<Self> {
        let terminal = SavedTerminal::save();
        terminal.read_interrupt_as_line_end()?;
        let ((sender, keys), discard_count) = (unbounded_channel(), DiscardCount::default());
        let thread_discard_count = Arc::clone(&discard_count);
        std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || read_lines(&thread_discard_count, &sender))?;
        Ok(LineKeyboard {
            keys,
            discard_count,
            _terminal: terminal,
        })
    }

    /// Returns the next key of a line that was not discarded.
    pub(super) async fn next(&mut self) -> KeyPress {
        loop {
            let Some((discard_count, key)) = self.keys.recv().await else {
                return KeyPress::Gone;
            };
            if discard_count == *lock(&self.discard_count) {
                return key;
            }
        }
    }

    /// Discards every line typed so far, wherever it is buffered.
    pub(super) fn forget(&mut self) {
        let mut discard_count = lock(&self.discard_count);
        discard_typed_input();
        *discard_count += 1;
    }
}

fn lock(discard_count: &DiscardCount) -> MutexGuard<'_, u64> {
    discard_count.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the keys of typed lines until the terminal closes or the receiver is dropped.
fn read_lines(discard_count: &DiscardCount, sender: &UnboundedSender<(u64, KeyPress)>) {
    loop {
        let Some((discard_count, line)) = read_next_line(discard_count) else {
            continue;
        };
        let (text, last) = match line {
            Ok(TerminalLine::Text(text)) => (text, KeyPress::Enter),
            Ok(TerminalLine::Interrupt) => (String::new(), KeyPress::Interrupt),
            Ok(TerminalLine::End) if CommandOutput::stdin_is_terminal() => {
                (String::new(), KeyPress::Leave)
            }
            Ok(TerminalLine::End) | Err(_) => (String::new(), KeyPress::Gone),
        };
        let is_last = last == KeyPress::Gone;
        for key in text.chars().map(KeyPress::Char).chain([last]) {
            if sender.send((discard_count, key)).is_err() {
                return;
            }
        }
        if is_last {
            return;
        }
    }
}

/// Waits for the next line and reads it. Returns it with the discard count at that time; `None` if
/// the line was discarded before it was read.
#[cfg(unix)]
fn read_next_line(discard_count: &DiscardCount) -> Option<(u64, std::io::Result<TerminalLine>)> {
    use nix::poll::PollTimeout;
    wait_for_input(PollTimeout::NONE);
    // With the lock, no line can be discarded any more.
    let discard_count = lock(discard_count);
    let has_line = wait_for_input(PollTimeout::ZERO);
    if !has_line {
        return None;
    }
    Some((*discard_count, read_line()))
}

/// Waits for a line. Returns true if the next read does not block.
#[cfg(unix)]
fn wait_for_input(timeout: nix::poll::PollTimeout) -> bool {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, poll};
    let stdin = std::io::stdin();
    let mut waited = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    // A read returns the error of a terminal that cannot be polled.
    poll(&mut waited, timeout).is_ok_and(|_| waited[0].any().unwrap_or(true))
}

/// Reads the next line. Returns it with the discard count at that time.
#[cfg(not(unix))]
fn read_next_line(discard_count: &DiscardCount) -> Option<(u64, std::io::Result<TerminalLine>)> {
    let line = read_line();
    Some((*lock(discard_count), line))
}
