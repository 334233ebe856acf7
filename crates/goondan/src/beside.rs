//! Work that blocks, on a thread of its own.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// Waits for work that blocks. If it panics, so does the caller. If the runtime ends before it begins, the caller ends with the
/// runtime: it waits until it is dropped.
pub(crate) async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::poll;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn who_waits_when_the_runtime_ends_does_not_panic() {
        let ended = Builder::new_current_thread().build().unwrap();
        let handle = ended.handle().clone();
        drop(ended);
        // A runtime that has ended begins no work and says so at once: there is nothing to wait for here.
        let _inside = handle.enter();
        let refused = block_on(spawn_blocking(|| ()));
        assert!(refused.is_err_and(|error| error.is_cancelled()));
        let mut waiting = Box::pin(beside(|| ()));
        assert!(block_on(async { poll!(waiting.as_mut()) }).is_pending());
    }
}
