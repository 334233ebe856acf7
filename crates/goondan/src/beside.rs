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
    use std::sync::mpsc;

    use futures::poll;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn who_waits_when_the_runtime_ends_does_not_panic() {
        let ending = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (go_on, held) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        // The only thread is taken, so the work does not begin.
        ending.spawn_blocking(move || {
            began.send(()).unwrap();
            let _ = held.recv();
        });
        has_begun.recv().unwrap();
        let mut waiting = Box::pin(beside(|| ()));
        let other = Builder::new_current_thread().build().unwrap();
        let begun = {
            let _inside = ending.enter();
            futures::executor::block_on(async { poll!(waiting.as_mut()) })
        };
        assert!(begun.is_pending());
        ending.shutdown_background();
        drop(go_on);
        assert!(other.block_on(async { poll!(waiting.as_mut()) }).is_pending());
    }
}
