//! The threads for calls: one per running call. After its call, a thread waits some time for
//! another one, because starting a thread costs more than most calls.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::spin_wait::spin_until_found;

/// Maximum number of waiting threads. A burst of calls starts more, which end with their calls.
const MAX_IDLE_THREADS: usize = 8;

/// Time that a thread waits for another call.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// Counts running calls, and owns the handles of their threads.
#[derive(Default)]
pub(super) struct CallThreads {
    state: Mutex<CallThreadsState>,
    ended: Condvar,
}

#[derive(Default)]
struct CallThreadsState {
    running: usize,
    /// Waiting threads. The last one to start waiting is at the end and is used first, because its
    /// caches are warm.
    idle: Vec<IdleThread>,
    next: u64,
    closed: bool,
    handles: Vec<JoinHandle<()>>,
}

/// A thread that waits for work.
struct IdleThread {
    thread: u64,
    work: Sender<Work>,
}

impl CallThreads {
    /// Runs `work` on a thread that does nothing else during that time.
    pub(super) fn spawn(
        self: &Arc<Self>,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let mut work: Work = Box::new(work);
        let mut state = self.lock();
        while let Some(idle) = state.idle.pop() {
            match idle.work.send(work) {
                Ok(()) => {
                    state.running += 1;
                    return Ok(());
                }
                // The thread has unexpectedly ended, so try the next one.
                Err(refused) => work = refused.0,
            }
        }
        state.handles.retain(|handle| !handle.is_finished());
        state.next += 1;
        let worker = WorkerThread {
            threads: Arc::clone(self),
            thread: state.next,
        };
        let handle = Builder::new()
            .name("tool call".to_owned())
            .spawn(move || worker.run(work))?;
        state.running += 1;
        state.handles.push(handle);
        Ok(())
    }

    /// Waits until no call is running, for at most `grace`, and then joins the threads. Returns
    /// false if some calls are still running.
    pub(super) fn join_all(&self, grace: Duration) -> bool {
        let deadline = Instant::now() + grace;
        let mut state = self.lock();
        state.closed = true;
        // Dropping the senders ends the waiting threads.
        state.idle.clear();
        while state.running > 0 {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            state = self
                .ended
                .wait_timeout(state, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        // Only their thread-local destructors are left to run.
        handles.into_iter().all(|handle| handle.join().is_ok())
    }

    /// Removes a thread from the waiting threads. Returns false if the thread is not waiting,
    /// because it is about to get work.
    fn give_up(&self, thread: u64) -> bool {
        let mut state = self.lock();
        let waiting = state.idle.len();
        state.idle.retain(|idle| idle.thread != thread);
        state.idle.len() < waiting
    }

    fn lock(&self) -> MutexGuard<'_, CallThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct WorkerThread {
    threads: Arc<CallThreads>,
    thread: u64,
}

impl WorkerThread {
    /// Runs `first` and later work, until no work arrives in time.
    fn run(self, first: Work) {
        let mut next = Some(first);
        while let Some(work) = next {
            // Dropping `ended` ends the call even if `work` panics.
            let ended = CallEndGuard(&self);
            work();
            next = ended.wait();
        }
    }

    /// Returns the next work; `None` after the timeout.
    fn wait_for(&self, work: &Receiver<Work>) -> Option<Work> {
        if let Some(work) = spin_until_found(|| work.try_recv().ok()) {
            return Some(work);
        }
        match work.recv_timeout(IDLE_TIMEOUT) {
            Ok(work) => Some(work),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) if self.threads.give_up(self.thread) => None,
            Err(RecvTimeoutError::Timeout) => work.recv().ok(),
        }
    }
}

/// Marks the end of a call when dropped.
struct CallEndGuard<'a>(&'a WorkerThread);

impl CallEndGuard<'_> {
    /// Ends the call, and waits for the next one unless enough threads wait.
    fn wait(self) -> Option<Work> {
        let worker = self.0;
        let (sender, work) = channel();
        let mut state = worker.threads.lock();
        let may_wait = !state.closed && state.idle.len() < MAX_IDLE_THREADS;
        if may_wait {
            state.idle.push(IdleThread {
                thread: worker.thread,
                work: sender,
            });
        }
        drop(state);
        drop(self);
        if may_wait {
            worker.wait_for(&work)
        } else {
            None
        }
    }
}

impl Drop for CallEndGuard<'_> {
    fn drop(&mut self) {
        self.0.threads.lock().running -= 1;
        self.0.threads.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use super::*;

    /// Returns the thread that runs one piece of work.
    fn thread_of(threads: &Arc<CallThreads>) -> ThreadId {
        let (sender, receiver) = channel();
        threads
            .spawn(move || {
                sender
                    .send(std::thread::current().id())
                    .expect("the receiver is alive")
            })
            .expect("a thread");
        receiver.recv().expect("the work ran")
    }

    fn wait_until_idle(threads: &CallThreads) {
        let mut state = threads.lock();
        while state.running > 0 {
            state = threads.ended.wait(state).expect("not poisoned");
        }
    }

    #[test]
    fn an_idle_thread_is_reused_for_the_next_call() {
        let threads = Arc::new(CallThreads::default());
        let first = thread_of(&threads);
        wait_until_idle(&threads);
        assert_eq!(thread_of(&threads), first);
        assert!(threads.join_all(Duration::from_secs(60)));
        assert!(threads.lock().idle.is_empty());
    }

    #[test]
    fn concurrent_calls_use_separate_threads() {
        let threads = Arc::new(CallThreads::default());
        let barrier = Arc::new(std::sync::Barrier::new(MAX_IDLE_THREADS * 2 + 1));
        for _ in 0..MAX_IDLE_THREADS * 2 {
            let barrier = Arc::clone(&barrier);
            let wait_at_barrier = move || {
                barrier.wait();
            };
            threads.spawn(wait_at_barrier).expect("a thread");
        }
        barrier.wait();
        wait_until_idle(&threads);
        assert!(threads.lock().idle.len() <= MAX_IDLE_THREADS);
        assert!(threads.join_all(Duration::from_secs(60)));
    }

    #[test]
    fn join_all_times_out_while_a_call_is_running() {
        let threads = Arc::new(CallThreads::default());
        let (end, end_receiver) = channel::<()>();
        threads
            .spawn(move || end_receiver.recv().unwrap_or_default())
            .expect("a thread");
        assert!(!threads.join_all(Duration::ZERO));
        drop(end);
        assert!(threads.join_all(Duration::from_secs(60)));
    }
}
