//! Keyboard reader on its own thread.

use std::io::{PipeReader, PipeWriter, pipe, stdin};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use nix::unistd::read;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::keys::KeyDecoder;
use super::pressed_key::KeyPress;

/// Time after Escape within which bytes belong to the same key, in milliseconds.
const ESCAPE_TIMEOUT_MS: u16 = 40;

/// Keys of the terminal on standard input.
pub(super) struct KeyboardReader {
    keys: UnboundedReceiver<(u64, KeyPress)>,
    state: Arc<Mutex<KeyboardState>>,
    /// Ends the thread when dropped.
    stop: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

/// State shared with the thread, which reads input only while it has the lock.
struct KeyboardState {
    decoder: KeyDecoder,
    /// Counter that grows whenever keys are discarded.
    discard_count: u64,
}

impl KeyboardReader {
    /// Starts the thread that reads keys.
    pub(super) fn open() -> std::io::Result<Self> {
        let (sender, keys) = unbounded_channel();
        let (stopped, stop) = pipe()?;
        let state = Arc::new(Mutex::new(KeyboardState {
            decoder: KeyDecoder::default(),
            discard_count: 0,
        }));
        let thread_state = Arc::clone(&state);
        let reader = std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || {
                read_keys(&thread_state, &stopped, &sender);
            })?;
        Ok(KeyboardReader {
            keys,
            state,
            stop: Some(stop),
            reader: Some(reader),
        })
    }

    /// Returns the next key that was not discarded.
    pub(super) async fn next(&mut self) -> KeyPress {
        loop {
            let Some((discard_count, key)) = self.keys.recv().await else {
                return KeyPress::Gone;
            };
            if discard_count == self.lock_state().discard_count {
                return key;
            }
        }
    }

    /// Discards every key pressed so far, wherever it is buffered.
    pub(super) fn forget(&mut self) {
        let mut state = self.lock_state();
        // A closed terminal has nothing to discard.
        let _ = tcflush(stdin(), FlushArg::TCIFLUSH);
        state.decoder.forget();
        state.discard_count += 1;
    }

    /// Locks the state. While it is locked, the thread reads no input.
    fn lock_state(&self) -> std::sync::MutexGuard<'_, KeyboardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeyboardReader {
    fn drop(&mut self) {
        self.stop.take();
        // After the join the thread reads nothing more, so that others may read.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Sends keys until the terminal closes, the receiver is dropped or `stopped` is closed.
fn read_keys(
    state: &Mutex<KeyboardState>,
    stopped: &PipeReader,
    sender: &UnboundedSender<(u64, KeyPress)>,
) {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let wait = if lock().decoder.may_be_escape() {
            PollTimeout::from(ESCAPE_TIMEOUT_MS)
        } else {
            PollTimeout::NONE
        };
        let Some(ready) = wait_for(stopped, wait) else {
            return;
        };
        let mut state = lock();
        let keys = match ready {
            InputReadiness::Nothing => state.decoder.escape().into_iter().collect(),
            // The input may have been discarded before the lock was taken.
            InputReadiness::Input => match wait_for(stopped, PollTimeout::ZERO) {
                None => return,
                Some(InputReadiness::Nothing) => Vec::new(),
                Some(InputReadiness::Input) => read_pressed_keys(&mut state.decoder),
            },
        };
        for key in keys {
            let is_last = key == KeyPress::Gone;
            if sender.send((state.discard_count, key)).is_err() || is_last {
                return;
            }
        }
    }
}

/// Result of a wait for input.
enum InputReadiness {
    Input,
    Nothing,
}

/// Waits for input; `None` if the thread must end.
fn wait_for(stopped: &PipeReader, timeout: PollTimeout) -> Option<InputReadiness> {
    let stdin = stdin();
    loop {
        let mut waited = [
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waited, timeout) {
            Err(Errno::EINTR) => continue,
            Err(_) => return None,
            Ok(_) if waited[0].any().unwrap_or(true) => return None,
            Ok(_) if waited[1].any().unwrap_or(true) => return Some(InputReadiness::Input),
            Ok(_) => return Some(InputReadiness::Nothing),
        }
    }
}

/// Reads the available bytes and returns the keys in them; `Gone` if the terminal is closed.
fn read_pressed_keys(decoder: &mut KeyDecoder) -> Vec<KeyPress> {
    let mut bytes = [0; 4096];
    match read(stdin(), &mut bytes) {
        Ok(0) => vec![KeyPress::Gone],
        Ok(length) => decoder.push(&bytes[..length]),
        Err(Errno::EINTR | Errno::EAGAIN) => Vec::new(),
        Err(_) => vec![KeyPress::Gone],
    }
}
