//! Tells a call that it should end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A flag that can be awaited, and waited for by blocking.
#[derive(Default)]
pub(super) struct Cancellation {
    state: Mutex<State>,
    fired: Condvar,
}

#[derive(Default)]
struct State {
    fired: bool,
    wakers: Vec<Waker>,
}

impl Cancellation {
    pub(super) fn fire(&self) {
        let wakers = {
            let mut state = self.lock();
            state.fired = true;
            std::mem::take(&mut state.wakers)
        };
        self.fired.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_fired(&self) -> bool {
        self.lock().fired
    }

    /// Ready once it has fired.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.fired {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Blocks for `duration`, or until it fires: then true.
    pub(super) fn wait(&self, duration: Duration) -> bool {
        let waited = self.fired.wait_timeout_while(self.lock(), duration, |state| !state.fired);
        waited.unwrap_or_else(PoisonError::into_inner).0.fired
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
