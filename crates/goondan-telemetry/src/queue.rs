//! Spans that wait to be sent.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::otlp::Span;

/// Between those who make spans, who never wait, and the one who sends them.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    limit: usize,
    batch: usize,
    /// A first span has come, or a batch is full.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    spans: VecDeque<Span>,
    dropped: u64,
}

impl Queue {
    pub(crate) fn new(limit: usize, batch: usize) -> Self {
        Queue {
            state: Mutex::default(),
            limit,
            batch,
            changed: Notify::new(),
        }
    }

    /// Puts a span in, or drops it where there is no room.
    pub(crate) fn put(&self, span: Span) {
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

    /// The next spans, as many as go in a request; none where there are none.
    pub(crate) fn take(&self) -> Vec<Span> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.spans.len().min(self.batch);
        state.spans.drain(..count).collect()
    }

    /// Spans that were not sent are gone.
    pub(crate) fn drop_spans(&self, count: usize) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .dropped += count as u64;
    }

    /// How many spans are gone.
    pub(crate) fn dropped(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .dropped
    }

    fn len(&self) -> usize {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .spans
            .len()
    }

    /// Waits until there is a span.
    pub(crate) async fn first(&self) {
        while self.len() == 0 {
            self.changed.notified().await;
        }
    }

    /// Waits until there are as many as go in a request.
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
        let queue = Queue::new(3, 2);
        (0..5).for_each(|_| queue.put(Span::default()));
        assert_eq!(queue.dropped(), 2);
        assert_eq!(
            (queue.take().len(), queue.take().len(), queue.take().len()),
            (2, 1, 0)
        );
        queue.drop_spans(3);
        assert_eq!(queue.dropped(), 5);
    }
}
