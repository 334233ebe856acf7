//! Locks a mutex, including one that a panicked thread held.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data that is never left in an inconsistent state, so a poisoned lock is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
