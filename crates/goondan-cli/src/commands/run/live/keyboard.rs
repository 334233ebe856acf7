//! Reads the keys of the terminal on a thread of its own.

use std::io::{PipeReader, PipeWriter, pipe, stdin};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use nix::unistd::read;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::keys::{Decoder, Key};

/// Keys whose sequences begin with Escape come at once; what follows it later is another key.
const ESCAPE_MS: u16 = 40;

/// The keys of the terminal on standard input, as they come.
pub(super) struct Keyboard {
    keys: UnboundedReceiver<(u64, Key)>,
    desk: Arc<Mutex<Desk>>,
    /// Dropped, it ends the thread.
    stop: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

/// What the thread and whoever forgets keys have in common. Nothing is read while it is held by others.
struct Desk {
    decoder: Decoder,
    /// Grows whenever keys are forgotten.
    age: u64,
}

impl Keyboard {
    pub(super) fn open() -> std::io::Result<Self> {
        let (sender, keys) = unbounded_channel();
        let (stopped, stop) = pipe()?;
        let desk = Arc::new(Mutex::new(Desk {
            decoder: Decoder::default(),
            age: 0,
        }));
        let beside = Arc::clone(&desk);
        let reader = std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || {
                read_on(&beside, &stopped, &sender);
            })?;
        Ok(Keyboard {
            keys,
            desk,
            stop: Some(stop),
            reader: Some(reader),
        })
    }

    /// Waits for the next key.
    pub(super) async fn next(&mut self) -> Key {
        loop {
            let Some((age, key)) = self.keys.recv().await else {
                return Key::Gone;
            };
            if age == self.desk().age {
                return key;
            }
        }
    }

    /// Forgets every key that was pressed so far, wherever it is on its way.
    pub(super) fn forget(&mut self) {
        let mut desk = self.desk();
        // A terminal that is gone has nothing to forget.
        let _ = tcflush(stdin(), FlushArg::TCIFLUSH);
        desk.decoder.forget();
        desk.age += 1;
    }

    fn desk(&self) -> std::sync::MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop.take();
        // It reads nothing more once this returns: others may read now.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read_on(desk: &Mutex<Desk>, stopped: &PipeReader, sender: &UnboundedSender<(u64, Key)>) {
    let lock = || desk.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let wait = if lock().decoder.may_be_escape() {
            PollTimeout::from(ESCAPE_MS)
        } else {
            PollTimeout::NONE
        };
        let Some(ready) = wait_for(stopped, wait) else {
            return;
        };
        let mut desk = lock();
        let keys = match ready {
            Ready::Nothing => desk.decoder.escape().into_iter().collect(),
            // What was there may have been forgotten meanwhile.
            Ready::Input => match wait_for(stopped, PollTimeout::ZERO) {
                None => return,
                Some(Ready::Nothing) => Vec::new(),
                Some(Ready::Input) => pressed(&mut desk.decoder),
            },
        };
        for key in keys {
            let is_last = key == Key::Gone;
            if sender.send((desk.age, key)).is_err() || is_last {
                return;
            }
        }
    }
}

enum Ready {
    Input,
    Nothing,
}

/// `None` where the thread is to end.
fn wait_for(stopped: &PipeReader, timeout: PollTimeout) -> Option<Ready> {
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
            Ok(_) if waited[1].any().unwrap_or(true) => return Some(Ready::Input),
            Ok(_) => return Some(Ready::Nothing),
        }
    }
}

fn pressed(decoder: &mut Decoder) -> Vec<Key> {
    let mut bytes = [0; 4096];
    match read(stdin(), &mut bytes) {
        Ok(0) => vec![Key::Gone],
        Ok(length) => decoder.push(&bytes[..length]),
        Err(Errno::EINTR | Errno::EAGAIN) => Vec::new(),
        Err(_) => vec![Key::Gone],
    }
}
