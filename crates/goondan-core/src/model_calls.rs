//! The latest model calls of a run, as people inspect them.
//!
//! The log is in memory and bounded, and records only while it is switched on. Callers mask secrets
//! before they add a call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use goondan_spec::kinds::ModelParams;
use serde::Serialize;
use serde_json::Value;

use crate::event::UsageCost;
use crate::message::{MessageData, MessagePart};
use crate::ports::model::{ModelFinishReason, TokenUsage, ToolDefinition};
use crate::redact::SecretRedactor;

/// Maximum size of a recorded request body, in bytes. A larger body is not recorded.
pub const MAX_RECORDED_BODY_BYTES: usize = 1024 * 1024;

/// Maximum size of a recorded response body, in bytes. The rest is omitted.
pub const MAX_RECORDED_RESPONSE_BYTES: usize = 256 * 1024;

/// Maximum total size of the recorded calls, in bytes. The oldest calls are removed.
const MAX_LOG_BYTES: usize = 32 * 1024 * 1024;

/// A recorded model call, without secrets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedModelCall {
    /// Span of the call, which is unique.
    pub span_id: String,
    /// Trace of the call.
    pub trace_id: String,
    /// Name of the calling agent.
    pub agent_name: String,
    /// Key of the conversation.
    pub instance_key: String,
    /// Turn of the call.
    pub turn_id: String,
    /// Step of the call; absent for a call outside the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// Provider in the Model resource.
    pub provider: String,
    /// Model name in the Model resource.
    pub model: String,
    /// Start of the first attempt.
    pub started_at: DateTime<Utc>,
    /// Time until the answer was complete or the call failed, in milliseconds.
    pub duration_ms: u64,
    /// Number of retries.
    pub retries: u32,
    /// Content of the request.
    pub request: RecordedRequest,
    /// Content of the answer; absent if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
    /// Reason why the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Last HTTP exchange; absent for models that are not called over HTTP.
    #[serde(skip)]
    pub http: Option<HttpExchange>,
}

/// Content of a recorded request.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// System prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Newest messages, oldest first. Files have no data.
    pub messages: Vec<MessageData>,
    /// Number of older messages in the request that are omitted here.
    pub left_out: usize,
    /// Offered tools.
    pub tools: Vec<ToolDefinition>,
    /// Sampling settings.
    pub params: ModelParams,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// Content of a recorded answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResponse {
    /// Reasoning, text and tool calls.
    pub parts: Vec<MessagePart>,
    /// Reason why the answer ended.
    pub finish_reason: ModelFinishReason,
    /// Token counts, including cached tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Cost at the prices of the Model resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<UsageCost>,
}

/// An HTTP request to a provider, and the response. Keys in headers are variables such as
/// `$OPENAI_API_KEY`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpExchange {
    /// URL, without a password.
    pub url: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// Request body; absent if it is larger than [`MAX_RECORDED_BODY_BYTES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Status of the response; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Start of the response body, up to [`MAX_RECORDED_RESPONSE_BYTES`].
    pub response: String,
}

impl HttpExchange {
    /// Masks the secrets in all parts.
    pub fn clean(&mut self, redactor: &SecretRedactor) {
        redactor.clean(&mut self.url);
        redactor.clean(&mut self.response);
        if let Some(body) = self.body.as_mut() {
            redactor.clean(body);
        }
        for (_, value) in &mut self.headers {
            redactor.clean(value);
        }
    }
}

/// Recorder of the last HTTP exchange of one model call. A new attempt replaces the exchange.
#[derive(Debug, Default)]
pub struct ExchangeRecorder(Mutex<RecorderState>);

#[derive(Debug, Default)]
struct RecorderState {
    exchange: Option<HttpExchange>,
    response: Vec<u8>,
}

impl ExchangeRecorder {
    /// Records the request of an attempt.
    pub fn begin(&self, exchange: HttpExchange) {
        *self.state() = RecorderState {
            exchange: Some(exchange),
            response: Vec::new(),
        };
    }

    /// Records the status of the response.
    pub fn record_status(&self, status: u16) {
        if let Some(exchange) = &mut self.state().exchange {
            exchange.status = Some(status);
        }
    }

    /// Records a piece of the response body.
    pub fn record_piece(&self, piece: &[u8]) {
        let response = &mut self.state().response;
        let free_bytes = MAX_RECORDED_RESPONSE_BYTES.saturating_sub(response.len());
        response.extend_from_slice(&piece[..free_bytes.min(piece.len())]);
    }

    /// Returns the exchange and removes it.
    pub fn take(&self) -> Option<HttpExchange> {
        let state = std::mem::take(&mut *self.state());
        let mut exchange = state.exchange?;
        exchange.response = String::from_utf8_lossy(&state.response).into_owned();
        Some(exchange)
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Log of the latest model calls. Clones share the log.
#[derive(Debug, Clone, Default)]
pub struct ModelCallLog(Arc<CallLogState>);

#[derive(Debug, Default)]
struct CallLogState {
    is_on: AtomicBool,
    calls: Mutex<VecDeque<(usize, Arc<RecordedModelCall>)>>,
}

impl ModelCallLog {
    /// Records calls from now on.
    pub fn switch_on(&self) {
        self.0.is_on.store(true, Ordering::Release);
    }

    /// Returns true if calls are recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Acquire)
    }

    /// Adds a call and removes the oldest calls beyond `max_calls` or the size limit.
    pub fn add(&self, call: RecordedModelCall, max_calls: usize) {
        let mut calls = self.calls();
        calls.push_back((size_of_call(&call), Arc::new(call)));
        let mut bytes: usize = calls.iter().map(|(size, _)| size).sum();
        while calls.len() > max_calls || bytes > MAX_LOG_BYTES {
            let Some((size, _)) = calls.pop_front() else {
                break;
            };
            bytes -= size;
        }
    }

    /// Returns the recorded calls, oldest first.
    pub fn all(&self) -> Vec<Arc<RecordedModelCall>> {
        self.calls()
            .iter()
            .map(|(_, call)| Arc::clone(call))
            .collect()
    }

    /// Returns the latest call with this span ID.
    pub fn find(&self, span_id: &str) -> Option<Arc<RecordedModelCall>> {
        let calls = self.calls();
        let matching_call = calls.iter().rev().find(|(_, call)| call.span_id == span_id);
        matching_call.map(|(_, call)| Arc::clone(call))
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<(usize, Arc<RecordedModelCall>)>> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the approximate size of a call in bytes.
fn size_of_call(call: &RecordedModelCall) -> usize {
    let http = call.http.as_ref().map_or(0, |http| {
        http.body.as_ref().map_or(0, String::len) + http.response.len()
    });
    serde_json::to_string(call).map_or(0, |text| text.len()) + http
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(span_id: &str, body_bytes: usize) -> RecordedModelCall {
        RecordedModelCall {
            span_id: span_id.to_owned(),
            trace_id: String::new(),
            agent_name: "desk".to_owned(),
            instance_key: "main".to_owned(),
            turn_id: String::new(),
            step_id: None,
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            started_at: DateTime::UNIX_EPOCH,
            duration_ms: 0,
            retries: 0,
            request: RecordedRequest::default(),
            response: None,
            error: None,
            http: Some(HttpExchange {
                body: Some("x".repeat(body_bytes)),
                ..HttpExchange::default()
            }),
        }
    }

    fn spans(log: &ModelCallLog) -> Vec<String> {
        log.all().iter().map(|call| call.span_id.clone()).collect()
    }

    #[test]
    fn the_log_keeps_the_latest_calls_within_its_limits() {
        let log = ModelCallLog::default();
        for span in ["a", "b", "c"] {
            log.add(call(span, 1), 2);
        }
        assert_eq!(spans(&log), ["b", "c"]);
        for span in ["d", "e", "f"] {
            log.add(call(span, MAX_LOG_BYTES / 2 - 2_000), 100);
        }
        assert_eq!(spans(&log), ["e", "f"]);
        assert!(log.find("d").is_none() && log.find("f").is_some());
    }

    #[test]
    fn an_exchange_has_the_last_attempt_and_a_bounded_response() {
        let recorder = ExchangeRecorder::default();
        assert_eq!(recorder.take(), None);
        for status in [500, 200] {
            recorder.begin(HttpExchange::default());
            recorder.record_status(status);
            recorder.record_piece(&vec![b'x'; MAX_RECORDED_RESPONSE_BYTES]);
            recorder.record_piece(b"more");
        }
        let exchange = recorder.take().unwrap();
        assert_eq!(exchange.status, Some(200));
        assert_eq!(exchange.response.len(), MAX_RECORDED_RESPONSE_BYTES);
    }
}
