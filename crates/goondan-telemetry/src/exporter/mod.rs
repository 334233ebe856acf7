//! Exports spans while a swarm runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::event::SwarmEvent;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::backfill::request;
use crate::otlp::{InstrumentationScope, OtlpResource, OtlpSpan, TracesRequest};
use crate::otlp_client::{ExportError, OtlpClient};
use crate::resource::ProcessIdentity;
use crate::settings::TelemetrySettings;
use crate::span_queue::SpanQueue;
use crate::spans::SpanAssembler;

/// Maximum wait for the last spans at the end of a swarm.
const FINAL_EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum wait for the last spans if the last export failed.
const FINAL_EXPORT_TIMEOUT_IF_DOWN: Duration = Duration::from_secs(1);

/// Wait before the first retry. Doubles with each failure, up to [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Exporter of spans to an OTLP endpoint. Never blocks the swarm.
#[derive(Debug)]
pub struct TelemetryExporter {
    queue: Arc<SpanQueue>,
    /// Requests the end of the tasks.
    ending: CancellationToken,
    /// Tasks that collect and send spans; `None` once they are awaited.
    working: Mutex<Option<(JoinHandle<()>, JoinHandle<()>)>>,
}

impl TelemetryExporter {
    /// Starts to export `events`; `None` if the settings have no endpoint.
    pub fn start(
        settings: TelemetrySettings,
        identity: &ProcessIdentity,
        events: UnboundedReceiver<SwarmEvent>,
    ) -> Option<Self> {
        for problem in &settings.problems {
            tracing::warn!("telemetry: {problem}");
        }
        let endpoint = settings.traces.clone()?;
        let queue = Arc::new(SpanQueue::new(settings.queue, settings.batch));
        let ending = CancellationToken::new();
        let collector = SpanCollector {
            events,
            assembler: SpanAssembler::new(settings.content),
            settings: settings.clone(),
            queue: Arc::clone(&queue),
        };
        let sender = BatchSender {
            poster: OtlpClient::new(endpoint),
            resource: identity.resource(&settings.resource),
            scope: identity.scope(),
            queue: Arc::clone(&queue),
            delay: settings.delay,
            failures: 0,
        };
        let collector_done = CancellationToken::new();
        let collector_task = tokio::spawn(collector.run(ending.clone(), collector_done.clone()));
        let sender_task = tokio::spawn(sender.run(collector_done));
        Some(TelemetryExporter {
            queue,
            ending,
            working: Mutex::new(Some((collector_task, sender_task))),
        })
    }

    /// Exports the remaining spans and ends. Waits for the endpoint only a limited time.
    pub async fn end(&self) {
        self.ending.cancel();
        let tasks = self
            .working
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((collector_task, sender_task)) = tasks else {
            return;
        };
        // A panic is already reported, so the result is not needed.
        let _ = collector_task.await;
        let _ = sender_task.await;
        match self.dropped() {
            0 => {}
            dropped => tracing::info!(
                dropped,
                "telemetry: spans were dropped because no OTLP endpoint accepted them"
            ),
        }
    }

    /// Returns the number of dropped spans so far.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped_count()
    }
}

/// Task that converts events to spans. It never waits for the export.
struct SpanCollector {
    events: UnboundedReceiver<SwarmEvent>,
    assembler: SpanAssembler,
    settings: TelemetrySettings,
    queue: Arc<SpanQueue>,
}

impl SpanCollector {
    /// Converts events until the swarm ends or `ending` is cancelled, then cancels
    /// `collector_done`.
    async fn run(mut self, ending: CancellationToken, collector_done: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.record_event(&event),
                    None => break,
                },
                () = ending.cancelled() => break,
            }
        }
        while let Ok(event) = self.events.try_recv() {
            self.record_event(&event);
        }
        collector_done.cancel();
    }

    /// Queues the span that the event ends, if its trace is exported.
    fn record_event(&mut self, event: &SwarmEvent) {
        let SwarmEvent::Runtime(event) = event else {
            return;
        };
        if !self.settings.takes(&event.trace) {
            return;
        }
        if let Some(span) = self.assembler.note(event) {
            self.queue.push(span);
        }
    }
}

/// Task that sends queued spans in batches.
struct BatchSender {
    poster: OtlpClient,
    resource: OtlpResource,
    scope: InstrumentationScope,
    queue: Arc<SpanQueue>,
    delay: Duration,
    /// Consecutive failures since the last successful export.
    failures: u32,
}

impl BatchSender {
    /// Exports a batch when it is full or the delay is over, and the rest once all spans are
    /// collected.
    async fn run(mut self, collector_done: CancellationToken) {
        while !collector_done.is_cancelled() {
            tokio::select! {
                () = collector_done.cancelled() => break,
                () = self.queue.wait_for_span() => {}
            }
            tokio::select! {
                () = collector_done.cancelled() => break,
                () = self.queue.wait_for_full_batch() => {}
                () = sleep(self.delay) => {}
            }
            self.send_batch(&collector_done).await;
        }
        self.send_the_rest().await;
    }

    /// Exports the next batch. Retries transient errors until the swarm ends.
    async fn send_batch(&mut self, collector_done: &CancellationToken) {
        let mut spans = self.queue.take();
        loop {
            let count = spans.len();
            let request = self.request(spans);
            let Err(error) = self.post(&request).await else {
                return;
            };
            if !error.is_transient || collector_done.is_cancelled() {
                return self.queue.drop_spans(count);
            }
            let wait = error
                .retry_after
                .unwrap_or_else(|| back_off(self.failures))
                .min(MAX_RETRY_DELAY);
            tokio::select! {
                () = collector_done.cancelled() => {}
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

    /// Exports the remaining spans within a time limit, and drops the rest.
    async fn send_the_rest(&mut self) {
        let wait = if self.failures > 0 {
            FINAL_EXPORT_TIMEOUT_IF_DOWN
        } else {
            FINAL_EXPORT_TIMEOUT
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
                    self.report_failure("no answer in time");
                    false
                }
            };
            if !is_sent {
                self.queue.drop_spans(count);
            }
        }
    }

    /// Creates a request with the spans.
    fn request(&self, spans: Vec<OtlpSpan>) -> TracesRequest {
        request(&self.resource, &self.scope, spans)
    }

    /// Sends a request, and logs rejected spans and changes of the endpoint's availability.
    async fn post(&mut self, request: &TracesRequest) -> Result<(), ExportError> {
        match self.poster.post(request).await {
            Ok(rejection) => {
                if let Some(rejection) = rejection {
                    let (count, reason) = (rejection.rejected, rejection.error_message);
                    match count {
                        0 => tracing::warn!(reason, "telemetry: the OTLP endpoint sent a warning"),
                        _ => tracing::warn!(
                            count,
                            reason,
                            "telemetry: the OTLP endpoint rejected spans"
                        ),
                    }
                }
                if self.failures > 0 {
                    tracing::info!(
                        "telemetry: the OTLP endpoint {} accepts spans again",
                        self.poster.display_url()
                    );
                }
                self.failures = 0;
                Ok(())
            }
            Err(error) => {
                self.report_failure(&error.message);
                Err(error)
            }
        }
    }

    /// Logs the first of consecutive failures.
    fn report_failure(&mut self, reason: &str) {
        self.failures += 1;
        if self.failures == 1 {
            let url = self.poster.display_url();
            tracing::warn!(
                "telemetry: the export to the OTLP endpoint {url} failed ({reason}); turns \
                continue without telemetry"
            );
        }
    }
}

/// Returns the wait after this many consecutive failures.
fn back_off(failures: u32) -> Duration {
    let doubled = 1_u32
        .checked_shl(failures.saturating_sub(1))
        .unwrap_or(u32::MAX);
    MIN_RETRY_DELAY.saturating_mul(doubled).min(MAX_RETRY_DELAY)
}

#[cfg(test)]
mod tests;
