//! Ctrl-C, as something that can be awaited.

use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Every press of Ctrl-C from now on. From here on the process no longer dies of one.
#[derive(Debug)]
pub(crate) struct Interrupts {
    presses: UnboundedReceiver<()>,
}

impl Interrupts {
    /// Must be called inside a tokio runtime.
    pub(crate) fn listen() -> Self {
        let (sender, presses) = mpsc::unbounded_channel();
        tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).is_ok() {} });
        Interrupts { presses }
    }

    /// Waits for the next press; forever where the platform has no such signal.
    pub(crate) async fn next(&mut self) {
        if self.presses.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Forgets presses that nobody waited for.
    pub(crate) fn clear(&mut self) {
        while self.presses.try_recv().is_ok() {}
    }
}
