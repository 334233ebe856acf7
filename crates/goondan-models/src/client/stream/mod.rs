//! Reads an answer while it arrives, within limits of time and size.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use goondan_core::model_calls::ExchangeRecorder;
use goondan_core::ports::model::{CompletedAnswer, ModelChunk, ModelError, ModelErrorKind};
use reqwest::Response;
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::{FailureContext, is_html};
use crate::answer::AnswerBuilder;
use crate::errors::ProviderError;
use crate::formats::{AnswerProgress, StreamDecoder, WireEvent};
use crate::transport::limits::{MAX_ANSWER_BYTES, MAX_WIRE_BYTES};
use crate::transport::{EventReader, HttpClients, ProbeAnswer};

/// Bytes of a body without events that are kept to find out what it is.
const MAX_SAMPLE_BYTES: usize = 64 * 1024;

/// Wait for more events after the provider announced the end of the answer.
const END_GRACE: Duration = Duration::from_secs(2);

/// Time in which the rest of a finished body is read, so that its connection can serve the next call.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Keep-alives extend the idle timeout up to this factor.
const MAX_KEEP_ALIVE_FACTOR: u32 = 10;

/// An answer that is arriving.
pub(crate) struct AnswerStream {
    response: Option<Response>,
    events: EventReader,
    reader: AnswerReader,
    idle_timeout: Duration,
    /// Time of the last event or keep-alive.
    last_event: Instant,
    /// Time of the last event with data.
    last_data: Instant,
    /// Time of the last event that added content or announced the end.
    last_growth: Instant,
    wire_bytes: usize,
    recorder: Option<Arc<ExchangeRecorder>>,
}

/// Completes an answer: makes its call ids unique and recovers calls that are text.
pub(crate) type Completion =
    Box<dyn FnOnce(AnswerBuilder) -> Result<CompletedAnswer, ProviderError> + Send + Sync>;

struct AnswerReader {
    failures: Arc<FailureContext>,
    host: Arc<str>,
    decoder: Box<dyn StreamDecoder>,
    answer: Option<AnswerBuilder>,
    completion: Option<Completion>,
    ready: VecDeque<ModelChunk>,
    event_count: usize,
    data_count: usize,
    /// Start of the body while it contains no event with data, for error messages.
    sample: Vec<u8>,
    outcome: Option<Result<CompletedAnswer, ModelError>>,
}

impl AnswerStream {
    pub(crate) fn new(
        response: Response,
        events: EventReader,
        decoder: Box<dyn StreamDecoder>,
        answer: AnswerBuilder,
        completion: Completion,
        (failures, host): (&Arc<FailureContext>, &Arc<str>),
        idle_timeout: Duration,
    ) -> Self {
        let reader = AnswerReader {
            failures: Arc::clone(failures),
            host: Arc::clone(host),
            decoder,
            answer: Some(answer),
            completion: Some(completion),
            ready: VecDeque::new(),
            event_count: 0,
            data_count: 0,
            sample: Vec::new(),
            outcome: None,
        };
        let now = Instant::now();
        AnswerStream {
            response: Some(response),
            events,
            reader,
            idle_timeout,
            last_event: now,
            last_data: now,
            last_growth: now,
            wire_bytes: 0,
            recorder: None,
        }
    }

    /// Sets the recorder of the received body.
    pub(crate) fn with_recorder(self, recorder: Option<Arc<ExchangeRecorder>>) -> Self {
        AnswerStream { recorder, ..self }
    }

    /// Returns the next chunk. `Finish` or an error is the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<ModelChunk, ModelError>> {
        loop {
            if let Some(chunk) = self.reader.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if let Some(outcome) = self.reader.outcome.take() {
                return Some(outcome.map(|answer| ModelChunk::Finish(Box::new(answer))));
            }
            self.response.as_ref()?;
            self.read().await;
        }
    }

    /// Returns `error`, or a more specific error if the body contained no event.
    pub(crate) async fn explain_error(
        self,
        http: &HttpClients,
        url: &str,
        error: ModelError,
    ) -> ModelError {
        let reader = &self.reader;
        let is_empty = reader.data_count == 0 && error.kind == ModelErrorKind::Connection;
        if !is_empty || error.message != reader.failures.broken_stream_error(&reader.host).message {
            return error;
        }
        let sample = String::from_utf8_lossy(&reader.sample);
        let probe = match sample.trim() {
            "" => http.probe(url).await,
            _ => Some(ProbeAnswer {
                status: 200,
                body: sample.into_owned(),
            }),
        };
        reader.failures.without_events(&reader.host, probe)
    }

    /// Waits for the next piece of the body and decodes it. Once the provider has announced the end of
    /// the answer, a timeout or a broken connection completes the answer; before, it is an error.
    async fn read(&mut self) {
        let Some(response) = &mut self.response else {
            return;
        };
        let has_ended = self.reader.has_ended();
        let deadline = if has_ended {
            // Usage may follow the announced end.
            self.last_growth + END_GRACE
        } else {
            // Keep-alives extend the wait, but not without limit.
            let data_deadline = self.last_data + self.idle_timeout * MAX_KEEP_ALIVE_FACTOR;
            data_deadline.min(self.last_event + self.idle_timeout)
        };
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(piece))) => self.take(&piece),
            Ok(Ok(None)) => {
                let reader = &mut self.reader;
                match self.events.finish(&mut |event| reader.decode_event(event)) {
                    Ok(()) => reader.end_of_body(),
                    Err(error) => {
                        reader.fail(|failures, host| failures.framing_error(host, &error))
                    }
                }
            }
            Ok(Err(_)) | Err(_) if has_ended => self.reader.complete(),
            Ok(Err(error)) => self
                .reader
                .fail(|failures, host| failures.transport_error(host, &error)),
            Err(_) => self.reader.fail(FailureContext::idle_timeout_error),
        }
        match &self.reader.outcome {
            None => {}
            Some(Ok(_)) => {
                if let Some(response) = self.response.take() {
                    drain_body(response);
                }
            }
            Some(Err(_)) => self.response = None,
        }
    }

    /// Decodes a piece of the body and updates the times of the last progress.
    fn take(&mut self, piece: &[u8]) {
        self.wire_bytes += piece.len();
        if let Some(recorder) = &self.recorder {
            recorder.record_piece(piece);
        }
        let reader = &mut self.reader;
        reader.keep_sample(piece);
        let events = reader.event_count;
        let data = reader.data_count;
        let content = reader.content();
        let decoded = self
            .events
            .take(piece, &mut |event| reader.decode_event(event));
        if let Err(error) = decoded {
            reader.fail(|failures, host| failures.framing_error(host, &error));
        } else if self.wire_bytes > MAX_WIRE_BYTES {
            reader.fail(|failures, host| failures.too_large(host, MAX_WIRE_BYTES));
        }
        let now = Instant::now();
        if reader.event_count > events {
            self.last_event = now;
        }
        if reader.data_count > data {
            self.last_data = now;
        }
        if reader.content() != content {
            self.last_growth = now;
        }
    }
}

impl AnswerReader {
    /// Returns true if the provider announced the end of the answer.
    fn has_ended(&self) -> bool {
        self.answer.as_ref().is_some_and(AnswerBuilder::has_ended)
    }

    /// Returns a value that changes with the content and with the announced end.
    fn content(&self) -> Option<(usize, bool)> {
        self.answer
            .as_ref()
            .map(|answer| (answer.bytes(), answer.has_ended()))
    }

    /// Keeps the body until an event has data: whole if it looks like JSON, else only its start.
    fn keep_sample(&mut self, piece: &[u8]) {
        if self.data_count == 0 {
            let max_bytes = if is_json_start(&self.sample) {
                MAX_ANSWER_BYTES
            } else {
                MAX_SAMPLE_BYTES
            };
            let free_bytes = max_bytes.saturating_sub(self.sample.len());
            let kept_bytes = free_bytes.min(piece.len());
            self.sample.extend_from_slice(&piece[..kept_bytes]);
        }
    }

    /// Decodes an event: adds its content to the answer and its chunks to `ready`. Only counts an
    /// event after the end of the answer.
    fn decode_event(&mut self, event: WireEvent<'_>) {
        self.event_count += 1;
        if self.outcome.is_some() || event.data.is_empty() {
            return;
        }
        let Some(answer) = self.answer.as_mut() else {
            return;
        };
        if !is_keep_alive(event) {
            self.data_count += 1;
        }
        let decoded = self.decoder.decode(event, answer);
        while let Some(chunk) = answer.next_chunk() {
            self.ready.push_back(chunk);
        }
        let answer_bytes = answer.bytes();
        match decoded {
            Ok(AnswerProgress::Done) => self.complete(),
            Ok(AnswerProgress::More) => {
                if answer_bytes > MAX_ANSWER_BYTES {
                    self.fail(|failures, host| failures.too_large(host, MAX_ANSWER_BYTES));
                }
            }
            Err(ProviderError::Unreadable(_)) if self.is_web_page() => {
                self.fail(FailureContext::web_page_error);
            }
            Err(error) => self.fail(|failures, host| failures.provider_error(host, error)),
        }
    }

    /// Returns true if the body begins like an HTML page.
    fn is_web_page(&self) -> bool {
        is_html(&String::from_utf8_lossy(&self.sample))
    }

    /// Handles the end of the body. The answer is complete if the provider announced its end, or sent
    /// one whole JSON object.
    fn end_of_body(&mut self) {
        if self.outcome.is_some() {
            return;
        }
        if self.data_count == 0 {
            self.decode_whole_body();
        }
        if self.has_ended() {
            self.complete()
        } else {
            self.fail(FailureContext::broken_stream_error)
        }
    }

    /// Decodes the body of a server that ignores `stream` and answers with one JSON value. If the body
    /// is not an answer, puts it back into `sample` for the error message.
    fn decode_whole_body(&mut self) {
        let body = std::mem::take(&mut self.sample);
        let text = std::str::from_utf8(&body)
            .ok()
            .filter(|_| is_json_start(&body));
        let Some((data, answer)) = text.zip(self.answer.as_mut()) else {
            self.sample = body;
            return;
        };
        let decoded = self.decoder.decode(WireEvent { name: None, data }, answer);
        while let Some(chunk) = answer.next_chunk() {
            self.ready.push_back(chunk);
        }
        let is_answer = !answer.is_empty();
        match decoded {
            Err(error @ ProviderError::Reported(_)) => {
                self.fail(|failures, host| failures.error_instead_of_stream(host, error));
            }
            Ok(_) if is_answer => self.complete(),
            _ => self.sample = body,
        }
    }

    /// Ends the answer successfully, unless it already ended.
    fn complete(&mut self) {
        if self.outcome.is_some() {
            return;
        }
        if let (Some(answer), Some(completion)) = (self.answer.take(), self.completion.take()) {
            let completed =
                completion(answer).map_err(|error| self.failures.provider_error(&self.host, error));
            self.outcome = Some(completed);
        }
    }

    /// Ends the answer with `error`, unless it already ended.
    fn fail(&mut self, error: impl FnOnce(&FailureContext, &str) -> ModelError) {
        if self.outcome.is_none() {
            self.outcome = Some(Err(error(&self.failures, &self.host)));
        }
    }
}

/// Returns true if a body begins like a JSON object or list.
fn is_json_start(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns true if an event only keeps the connection open.
fn is_keep_alive(event: WireEvent<'_>) -> bool {
    event.name == Some("ping") || event.data.len() < 64 && event.data.contains("\"ping\"")
}

/// Reads the rest of the body, in the background if it has not arrived yet. Only a connection whose
/// body was read completely can serve another call.
fn drain_body(mut response: Response) {
    loop {
        match response.chunk().now_or_never() {
            Some(Ok(Some(_))) => {}
            Some(_) => return,
            None => break,
        }
    }
    tokio::spawn(timeout(DRAIN_TIMEOUT, async move {
        while let Ok(Some(_)) = response.chunk().await {}
    }));
}

#[cfg(test)]
mod tests;
