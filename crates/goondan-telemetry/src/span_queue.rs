//! Queue of spans to export.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::otlp::OtlpSpan;

/// Queue between the collector, which never waits, and the sender.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    state: Mutex<QueueState>,
    limit: usize,
    batch: usize,
    /// Notified when the first span arrives, and when a batch is full.
    changed: Notify,
}

/// Queued spans, and the number of dropped spans.
#[derive(Debug, Default)]
struct QueueState {
    spans: VecDeque<OtlpSpan>,
    dropped: u64,
}

impl SpanQueue {
    /// Creates a queue of at most `limit` spans, which are taken in batches of `batch`.
    pub(crate) fn new(limit: usize, batch: usize) -> Self {
        SpanQueue {
            state: Mutex::default(),
            limit,
            batch,
            changed: Notify::new(),
        }
    }

    /// Adds a span, or drops it if the queue is full.
    pub(crate) fn put(&self, span: OtlpSpan) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.spans.len() >= self.limit {
            state.dropped += 1;
            return;
        }
        state.spans.push_back(span);
        if state.spans.len() == 1 || state.spans.len() == self.batch {
            self.changed.notify_one();
        }
    }

    /// Removes and returns the next batch; empty if there are no spans.
    pub(crate) fn take(&self) -> Vec<OtlpSpan> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.spans.len().min(self.batch);
        state.spans.drain(..count).collect()
    }

    /// Counts spans that were not exported as dropped.
    pub(crate) fn drop_spans(&self, count: usize) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .dropped += count as u64;
    }

    /// Returns the number of dropped spans.
    pub(crate) fn dropped(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .dropped
    }

    /// Returns the number of queued spans.
    fn len(&self) -> usize {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .spans
            .len()
    }

    /// Waits until the queue has a span.
    pub(crate) async fn first(&self) {
        while self.len() == 0 {
            self.changed.notified().await;
        }
    }

    /// Waits until the queue has a full batch.
    pub(crate) async fn full(&self) {
        while self.len() < self.batch {
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let queue = SpanQueue::new(3, 2);
        (0..5).for_each(|_| queue.put(OtlpSpan::default()));
        assert_eq!(queue.dropped(), 2);
        assert_eq!(
            (queue.take().len(), queue.take().len(), queue.take().len()),
            (2, 1, 0)
        );
        queue.drop_spans(3);
        assert_eq!(queue.dropped(), 5);
    }
}
