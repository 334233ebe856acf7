//! Clients that wait until a causal chain has no events left.

use tokio::sync::oneshot;

use super::Orchestrator;

/// Waiting clients with the trace id of their chain.
#[derive(Default)]
pub(super) struct ChainWaiters(Vec<(String, oneshot::Sender<()>)>);

impl ChainWaiters {
    /// Adds a waiter for the end of all events of a trace.
    pub(super) fn wait(&mut self, trace_id: String, answer: oneshot::Sender<()>) {
        self.0.push((trace_id, answer));
    }

    /// Notifies the clients whose chain matches `is_over`.
    pub(super) fn notify(&mut self, is_over: impl Fn(&str) -> bool) {
        for (trace_id, answer) in std::mem::take(&mut self.0) {
            if is_over(&trace_id) {
                // The receiver may be closed, so the result is ignored.
                let _ = answer.send(());
            } else {
                self.0.push((trace_id, answer))
            }
        }
    }
}

impl Orchestrator {
    /// Notifies the waiters whose traces have no pending event.
    pub(super) fn notify_chain_waiters(&mut self) {
        self.chain_waiters
            .notify(|trace_id| !self.pending.has_chain(trace_id));
    }
}
