//! Blocking work in a separate thread.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// Runs blocking work in a separate thread and waits for it. A panic of the work is propagated. If
/// the runtime shuts down first, this future waits until it is dropped.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
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
    fn a_blocking_task_does_not_panic_after_the_runtime_shuts_down() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        // A stopped runtime rejects new work immediately.
        let _guard = handle.enter();
        let refused = block_on(spawn_blocking(|| ()));
        assert!(refused.is_err_and(|error| error.is_cancelled()));
        let mut pending = Box::pin(run_blocking(|| ()));
        assert!(block_on(async { poll!(pending.as_mut()) }).is_pending());
    }
}
