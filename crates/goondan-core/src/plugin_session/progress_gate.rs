//! Limits progress updates, because each becomes a runtime event.

use std::time::Duration;

use goondan_abi::wire::Progress;
use tokio::time::Instant;

use crate::ports::tool::ProgressSink;

/// The updates of one call. The first and the last one are always forwarded.
pub(super) struct ProgressGate {
    /// Minimum time between two updates.
    interval: Duration,
    not_before: Option<Instant>,
    held: Option<Progress>,
}

impl ProgressGate {
    pub(super) fn new(interval: Duration) -> Self {
        ProgressGate {
            interval,
            not_before: None,
            held: None,
        }
    }

    /// Forwards `progress`, or holds it and replaces the held update.
    pub(super) fn update(&mut self, progress: Progress, sink: &dyn ProgressSink) {
        self.held = Some(progress);
        if self.not_before.is_none_or(|at| at <= Instant::now()) {
            self.flush(sink);
        }
    }

    /// Reports the held progress, if any.
    pub(super) fn flush(&mut self, sink: &dyn ProgressSink) {
        if let Some(progress) = self.held.take() {
            sink.update(&progress.title, progress.metadata);
            self.not_before = Some(Instant::now() + self.interval);
        }
    }

    /// Waits until it is time to flush; forever if no update is held.
    pub(super) async fn due(&self) {
        match (&self.held, self.not_before) {
            (Some(_), Some(at)) => tokio::time::sleep_until(at).await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::JsonObject;

    #[derive(Default)]
    struct RecordedTitles(Mutex<Vec<String>>);

    impl ProgressSink for RecordedTitles {
        fn update(&self, title: &str, _: JsonObject) {
            self.0.lock().expect("not poisoned").push(title.to_owned());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_and_last_of_many_updates_are_passed_on() {
        let (mut gate, titles) = (
            ProgressGate::new(Duration::from_millis(100)),
            RecordedTitles::default(),
        );
        for number in 0..1_000 {
            gate.update(
                Progress {
                    title: number.to_string(),
                    ..Progress::default()
                },
                &titles,
            );
        }
        assert_eq!(*titles.0.lock().expect("not poisoned"), ["0"]);
        gate.due().await;
        gate.flush(&titles);
        assert_eq!(*titles.0.lock().expect("not poisoned"), ["0", "999"]);
    }
}
