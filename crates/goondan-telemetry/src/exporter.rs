//! Sends spans while a swarm runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::event::SwarmEvent;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::otlp::{Resource, Scope, Span, TracesRequest};
use crate::past::request;
use crate::post::{PostError, Poster};
use crate::queue::Queue;
use crate::resource::Identity;
use crate::settings::Settings;
use crate::spans::Assembler;

/// So long the end of a swarm waits for the last spans.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The same, where the receiver has not answered before.
const LAST_WAIT_IF_DOWN: Duration = Duration::from_secs(1);

/// The first wait for a receiver that is down; each later one is twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Sends what happens in a swarm to a receiver. It never makes the swarm wait.
#[derive(Debug)]
pub struct Telemetry {
    queue: Arc<Queue>,
    ending: CancellationToken,
    working: Mutex<Option<(JoinHandle<()>, JoinHandle<()>)>>,
}

impl Telemetry {
    /// Begins to send what `events` tell; `None` where the settings send nothing anywhere.
    pub fn start(
        settings: Settings,
        identity: &Identity,
        events: UnboundedReceiver<SwarmEvent>,
    ) -> Option<Self> {
        for problem in &settings.problems {
            tracing::warn!("telemetry: {problem}");
        }
        let endpoint = settings.traces.clone()?;
        let queue = Arc::new(Queue::new(settings.queue, settings.batch));
        let ending = CancellationToken::new();
        let collector = Collector {
            events,
            assembler: Assembler::new(settings.content),
            settings: settings.clone(),
            queue: Arc::clone(&queue),
        };
        let sender = Sender {
            poster: Poster::new(endpoint),
            resource: identity.resource(&settings.resource),
            scope: identity.scope(),
            queue: Arc::clone(&queue),
            delay: settings.delay,
            failures: 0,
        };
        let collected = CancellationToken::new();
        let collecting = tokio::spawn(collector.run(ending.clone(), collected.clone()));
        let sending = tokio::spawn(sender.run(collected));
        Some(Telemetry {
            queue,
            ending,
            working: Mutex::new(Some((collecting, sending))),
        })
    }

    /// Sends what is left, and ends. It waits for the receiver, but not for long.
    pub async fn end(&self) {
        self.ending.cancel();
        let working = self
            .working
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((collecting, sending)) = working else {
            return;
        };
        // A panic was told; there is nothing else to do about it.
        let _ = collecting.await;
        let _ = sending.await;
        match self.dropped() {
            0 => {}
            dropped => tracing::info!(
                dropped,
                "telemetry: spans were dropped that no receiver has taken"
            ),
        }
    }

    /// How many spans were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

/// Makes spans of events as they come, and never waits for anybody but them.
struct Collector {
    events: UnboundedReceiver<SwarmEvent>,
    assembler: Assembler,
    settings: Settings,
    queue: Arc<Queue>,
}

impl Collector {
    async fn run(mut self, ending: CancellationToken, collected: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.note(&event),
                    None => break,
                },
                () = ending.cancelled() => break,
            }
        }
        while let Ok(event) = self.events.try_recv() {
            self.note(&event);
        }
        collected.cancel();
    }

    fn note(&mut self, event: &SwarmEvent) {
        let SwarmEvent::Runtime(event) = event else {
            return;
        };
        if !self.settings.takes(&event.trace) {
            return;
        }
        if let Some(span) = self.assembler.note(event) {
            self.queue.put(span);
        }
    }
}

struct Sender {
    poster: Poster,
    resource: Resource,
    scope: Scope,
    queue: Arc<Queue>,
    delay: Duration,
    /// Since the receiver has last taken something.
    failures: u32,
}

impl Sender {
    async fn run(mut self, collected: CancellationToken) {
        while !collected.is_cancelled() {
            tokio::select! {
                () = collected.cancelled() => break,
                () = self.queue.first() => {}
            }
            tokio::select! {
                () = collected.cancelled() => break,
                () = self.queue.full() => {}
                () = sleep(self.delay) => {}
            }
            self.send_batch(&collected).await;
        }
        self.send_the_rest().await;
    }

    /// Sends the next spans; tries again and again where that may help, until the end.
    async fn send_batch(&mut self, collected: &CancellationToken) {
        let mut spans = self.queue.take();
        loop {
            let count = spans.len();
            let request = self.request(spans);
            let Err(error) = self.post(&request).await else {
                return;
            };
            if !error.is_transient || collected.is_cancelled() {
                return self.queue.drop_spans(count);
            }
            let wait = error
                .retry_after
                .unwrap_or_else(|| back_off(self.failures))
                .min(LONGEST_WAIT);
            tokio::select! {
                () = collected.cancelled() => {}
                () = sleep(wait) => {}
            }
            spans = request
                .resource_spans
                .into_iter()
                .flat_map(|spans| spans.scope_spans)
                .flat_map(|s| s.spans)
                .collect();
        }
    }

    async fn send_the_rest(&mut self) {
        let wait = if self.failures > 0 {
            LAST_WAIT_IF_DOWN
        } else {
            LAST_WAIT
        };
        let until = Instant::now() + wait;
        loop {
            let spans = self.queue.take();
            let count = spans.len();
            if count == 0 {
                return;
            }
            let request = self.request(spans);
            let is_sent = match timeout_at(until, self.post(&request)).await {
                Ok(sent) => sent.is_ok(),
                Err(_) => {
                    self.tell("it did not answer in time");
                    false
                }
            };
            if !is_sent {
                self.queue.drop_spans(count);
            }
        }
    }

    fn request(&self, spans: Vec<Span>) -> TracesRequest {
        request(&self.resource, &self.scope, spans)
    }

    async fn post(&mut self, request: &TracesRequest) -> Result<(), PostError> {
        match self.poster.post(request).await {
            Ok(left_out) => {
                if let Some(left_out) = left_out {
                    let (count, reason) = (left_out.rejected, left_out.error_message);
                    tracing::warn!(count, reason, "telemetry: the receiver has left out spans");
                }
                if self.failures > 0 {
                    tracing::info!(
                        "telemetry: the receiver at {} takes spans again",
                        self.poster.place()
                    );
                }
                self.failures = 0;
                Ok(())
            }
            Err(error) => {
                self.tell(&error.message);
                Err(error)
            }
        }
    }

    /// Tells of the first failure in a row.
    fn tell(&mut self, reason: &str) {
        self.failures += 1;
        if self.failures == 1 {
            let place = self.poster.place();
            tracing::warn!(
                "telemetry: the receiver at {place} takes no spans ({reason}); turns go on without it"
            );
        }
    }
}

fn back_off(failures: u32) -> Duration {
    let doubled = 1_u32
        .checked_shl(failures.saturating_sub(1))
        .unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests;
