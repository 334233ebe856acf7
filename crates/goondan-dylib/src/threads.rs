//! The threads that serve libraries: their call threads, and readers of host processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::WeakUnboundedSender;
use tokio::sync::oneshot;

use crate::library_messages::LibraryCommand;

/// All threads that were started and not joined yet.
#[derive(Default)]
pub(crate) struct LibraryThreads {
    running: Mutex<Vec<ServingThread>>,
    closed: AtomicBool,
}

struct ServingThread {
    library: String,
    /// Weak, because a thread ends when the last handler of its library is dropped.
    command_sender: WeakUnboundedSender<LibraryCommand>,
    thread: JoinHandle<()>,
}

impl LibraryThreads {
    /// Stores a thread, and joins those that have ended.
    pub(crate) fn remember(
        &self,
        library: &str,
        command_sender: WeakUnboundedSender<LibraryCommand>,
        thread: JoinHandle<()>,
    ) {
        let mut running = self.lock();
        let ended: Vec<ServingThread> = running
            .extract_if(.., |serving| serving.thread.is_finished())
            .collect();
        running.push(ServingThread {
            library: library.to_owned(),
            command_sender,
            thread,
        });
        drop(running);
        for serving in ended {
            if serving.thread.join().is_err() {
                tracing::error!(library = %serving.library, "a thread that served the library \
                    panicked");
            }
        }
    }

    /// Ends all threads, and waits at most `time_limit`. Returns the libraries whose threads have not
    /// ended.
    pub(crate) async fn close(&self, time_limit: Duration) -> Vec<String> {
        self.closed.store(true, Ordering::Relaxed);
        let deadline = tokio::time::Instant::now() + time_limit;
        let running = std::mem::take(&mut *self.lock());
        for command_sender in running
            .iter()
            .filter_map(|serving| serving.command_sender.upgrade())
        {
            let _ = command_sender.send(LibraryCommand::Close);
        }
        let mut stuck = Vec::new();
        for ServingThread {
            library, thread, ..
        } in running
        {
            let joined = join(thread);
            if !matches!(tokio::time::timeout_at(deadline, joined).await, Ok(Ok(()))) {
                stuck.push(library);
            }
        }
        stuck
    }

    /// Returns true after [`LibraryThreads::close`], when no new process may be started.
    pub(crate) fn are_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ServingThread>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins `thread` on a separate thread, because a blocking Tokio task would prevent the runtime
/// from ending.
fn join(thread: JoinHandle<()>) -> oneshot::Receiver<()> {
    let (ended, joined) = oneshot::channel();
    let joining = std::thread::Builder::new()
        .name("join".to_owned())
        .spawn(move || {
            if thread.join().is_ok() {
                // The receiver may already be dropped.
                let _ = ended.send(());
            }
        });
    drop(joining);
    joined
}
