//! Queue of spans to export.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::otlp::OtlpSpan;

/// Queue between the collector, which never waits, and the sender.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    state: Mutex<QueueState>,
    max_spans: usize,
    batch_size: usize,
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
    /// Creates a queue of at most `max_spans` spans. They are taken in batches of `batch_size`
    /// spans.
    pub(crate) fn new(max_spans: usize, batch_size: usize) -> Self {
        SpanQueue {
            state: Mutex::default(),
            max_spans,
            batch_size,
            changed: Notify::new(),
        }
    }

    /// Adds a span, or drops and counts it if the queue is full. Wakes the sender if it may wait
    /// for this span.
    pub(crate) fn push(&self, span: OtlpSpan) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.spans.len() >= self.max_spans {
            state.dropped += 1;
            return;
        }
        state.spans.push_back(span);
        let is_first = state.spans.len() == 1;
        let completes_batch = state.spans.len() == self.batch_size;
        if is_first || completes_batch {
            self.changed.notify_one();
        }
    }

    /// Removes and returns the next batch; empty if there are no spans.
    pub(crate) fn take(&self) -> Vec<OtlpSpan> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.spans.len().min(self.batch_size);
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
    pub(crate) fn dropped_count(&self) -> u64 {
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
    pub(crate) async fn wait_for_span(&self) {
        while self.len() == 0 {
            self.changed.notified().await;
        }
    }

    /// Waits until the queue has a full batch.
    pub(crate) async fn wait_for_full_batch(&self) {
        while self.len() < self.batch_size {
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_over_the_queue_limit_are_dropped_and_counted() {
        let queue = SpanQueue::new(3, 2);
        (0..5).for_each(|_| queue.push(OtlpSpan::default()));
        assert_eq!(queue.dropped_count(), 2);
        assert_eq!(
            (queue.take().len(), queue.take().len(), queue.take().len()),
            (2, 1, 0)
        );
        queue.drop_spans(3);
        assert_eq!(queue.dropped_count(), 5);
    }
}
