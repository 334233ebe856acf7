//! Who waits until nothing is left to do in a causal chain.

use tokio::sync::oneshot;

use super::Orchestrator;

/// Those who wait, each with the trace of its chain.
#[derive(Default)]
pub(super) struct Settling(Vec<(String, oneshot::Sender<()>)>);

impl Settling {
    /// One more waits.
    pub(super) fn wait(&mut self, trace_id: String, answer: oneshot::Sender<()>) {
        self.0.push((trace_id, answer));
    }

    /// Tells those of whose chain `is_over` says that it is.
    pub(super) fn tell(&mut self, is_over: impl Fn(&str) -> bool) {
        for (trace_id, answer) in std::mem::take(&mut self.0) {
            match is_over(&trace_id) {
                // Whoever has stopped waiting need not be told.
                true => drop(answer.send(())),
                false => self.0.push((trace_id, answer)),
            }
        }
    }
}

impl Orchestrator {
    /// Tells those whose chain has no event left.
    pub(super) fn tell_settled(&mut self) {
        self.settling
            .tell(|trace_id| !self.pending.has_chain(trace_id));
    }
}
