//! The threads that calls run on: one each.

use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Counts running calls and keeps what is needed to join their threads.
#[derive(Default)]
pub(super) struct Threads {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Runs `work` on a thread of its own.
    pub(super) fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut state = self.lock();
        state.handles.retain(|handle| !handle.is_finished());
        let threads = Arc::clone(self);
        let handle = Builder::new().name(name.to_owned()).spawn(move || {
            let _ended = Ended(threads);
            work();
        })?;
        state.running += 1;
        state.handles.push(handle);
        Ok(())
    }

    /// Waits until no call runs, at most `grace`; then joins the threads. False where some still run.
    pub(super) fn join_all(&self, grace: Duration) -> bool {
        let deadline = Instant::now() + grace;
        let mut state = self.lock();
        while state.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        // What is left of them is their thread-local destructors.
        handles.into_iter().all(|handle| handle.join().is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ended(Arc<Threads>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.ended.notify_all();
    }
}
