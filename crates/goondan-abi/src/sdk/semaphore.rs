//! Limits the number of concurrent operations; the others wait in order.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The queue of waiting operations.
pub(super) struct OperationSemaphore {
    max_concurrent: usize,
    state: Mutex<SemaphoreState>,
}

#[derive(Default)]
struct SemaphoreState {
    inside: usize,
    next: u64,
    /// Waiting operations, in order.
    waiting: BTreeMap<u64, Waker>,
}

impl OperationSemaphore {
    /// Creates a semaphore for `max_concurrent` operations.
    pub(super) fn new(max_concurrent: usize) -> Self {
        OperationSemaphore {
            max_concurrent,
            state: Mutex::default(),
        }
    }

    /// Waits for a permit, which is released when the result is dropped.
    pub(super) async fn enter(&self) -> OperationPermit<'_> {
        let mut waits = PermitWaiter {
            semaphore: self,
            number: None,
        };
        poll_fn(|context| waits.poll(context)).await;
        OperationPermit(self)
    }

    /// Wakes the first waiting operation if a permit is free.
    fn wake(&self, state: MutexGuard<'_, SemaphoreState>) {
        let first = state
            .waiting
            .first_key_value()
            .filter(|_| state.inside < self.max_concurrent);
        let first = first.map(|(_, waker)| waker.clone());
        drop(state);
        if let Some(waker) = first {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PermitWaiter<'a> {
    semaphore: &'a OperationSemaphore,
    number: Option<u64>,
}

impl PermitWaiter<'_> {
    /// Returns ready once a permit is free and no earlier operation waits.
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.semaphore.lock();
        let first = state.waiting.first_key_value().map(|(number, _)| *number);
        if state.inside < self.semaphore.max_concurrent && (first.is_none() || first == self.number)
        {
            state.inside += 1;
            if let Some(number) = self.number.take() {
                state.waiting.remove(&number);
            }
            self.semaphore.wake(state);
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        state.waiting.insert(number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.semaphore.lock();
            state.waiting.remove(&number);
            // This operation may have been woken, so wake the next one.
            self.semaphore.wake(state);
        }
    }
}

/// The permission to run one operation. Dropping it wakes the next operation.
pub(super) struct OperationPermit<'a>(&'a OperationSemaphore);

impl Drop for OperationPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inside -= 1;
        self.0.wake(state);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn waiters_enter_in_order() {
        let semaphore = OperationSemaphore::new(1);
        let permit = pollster::block_on(semaphore.enter());
        let (mut second, mut third) = (pin!(semaphore.enter()), pin!(semaphore.enter()));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        drop(permit);
        assert!(
            poll(third.as_mut()).is_pending(),
            "the third waiter must not enter before the second"
        );
        let Poll::Ready(permit) = poll(second.as_mut()) else {
            panic!("the second waiter should enter")
        };
        drop(permit);
        assert!(poll(third.as_mut()).is_ready());
    }

    #[test]
    fn a_dropped_waiter_does_not_block_the_next_waiter() {
        let semaphore = OperationSemaphore::new(1);
        let permit = pollster::block_on(semaphore.enter());
        let mut third = pin!(semaphore.enter());
        {
            let mut second = pin!(semaphore.enter());
            assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
            drop(permit);
        }
        assert!(poll(third.as_mut()).is_ready());
    }
}
