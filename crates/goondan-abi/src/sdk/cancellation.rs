//! The cancellation signal of a call.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A flag that can be awaited, and waited for by blocking.
#[derive(Default)]
pub(super) struct CancellationSignal {
    state: Mutex<CancellationState>,
    fired: Condvar,
}

#[derive(Default)]
struct CancellationState {
    fired: bool,
    last: u64,
    wakers: HashMap<u64, Waker>,
}

impl CancellationSignal {
    /// Sets the flag and wakes all waiters.
    pub(super) fn fire(&self) {
        let wakers = {
            let mut state = self.lock();
            state.fired = true;
            std::mem::take(&mut state.wakers)
        };
        self.fired.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    pub(super) fn is_fired(&self) -> bool {
        self.lock().fired
    }

    /// Registers a waker until the result is dropped. A call may last for weeks and wait millions
    /// of times, so wakers must be removed.
    pub(super) fn listen(&self) -> CancellationWaiter<'_> {
        CancellationWaiter {
            cancellation: self,
            number: None,
        }
    }

    /// Blocks for `duration`, or until the flag is set. Returns true if the flag is set.
    pub(super) fn wait(&self, duration: Duration) -> bool {
        let waited = self
            .fired
            .wait_timeout_while(self.lock(), duration, |state| !state.fired);
        waited.unwrap_or_else(PoisonError::into_inner).0.fired
    }

    fn lock(&self) -> MutexGuard<'_, CancellationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a [`CancellationSignal`]. Dropping the waiter removes its waker.
pub(super) struct CancellationWaiter<'a> {
    cancellation: &'a CancellationSignal,
    number: Option<u64>,
}

impl CancellationWaiter<'_> {
    /// Returns ready once the flag is set.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.cancellation.lock();
        if state.fired {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            state.last += 1;
            state.last
        });
        state.wakers.insert(number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for CancellationWaiter<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // Dropped without the lock, because the waker may run foreign code.
            let waker = self.cancellation.lock().wakers.remove(&number);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_listener_is_removed() {
        let cancellation = CancellationSignal::default();
        let context = Context::from_waker(Waker::noop());
        let (mut one, mut other) = (cancellation.listen(), cancellation.listen());
        assert!(one.poll(&context).is_pending() && other.poll(&context).is_pending());
        drop(one);
        assert_eq!(cancellation.lock().wakers.len(), 1);
        cancellation.fire();
        assert!(other.poll(&context).is_ready());
    }
}
