//! Model calls and their retries (rule M4).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use goondan_spec::kinds::RateLimits;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityTracker;
use crate::cluster::LeaderClient;
use crate::cluster::protocol::RateLimitRequest;
use crate::delivery::bus::EventBus;
use crate::plan::{ModelName, ModelPlan};
use crate::turn::model_call_timing::ModelCallTiming;
use crate::turn::rate_limiter::{RateLimitHit, RateLimiter};
use goondan_core::event::{RateScope, RuntimeEventKind, SwarmEvent, TurnError, UsageCost};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::message::MessagePart;
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelError, ModelErrorKind, ModelFinishReason, ModelRequest,
    TokenUsage,
};

/// First wait between two attempts. The wait doubles after each attempt, up to [`MAX_RETRY_WAIT`].
const FIRST_RETRY_WAIT: Duration = Duration::from_millis(500);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(30);

/// Time during which a server that refuses connections or loads its model is retried, regardless of
/// `maxRetries`.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Time during which a server that ended in the middle of a call is retried, regardless of
/// `maxRetries`. It is longer than [`SERVER_START_TIMEOUT`], because the server worked before and is
/// probably restarting.
const SERVER_RESTART_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest wait between two calls to a server that is starting.
const MAX_SERVER_START_WAIT: Duration = Duration::from_secs(4);

/// Larger answers are refused: no model produces them, and they would fill memory.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A complete answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelAnswer {
    pub(crate) parts: Vec<MessagePart>,
    #[serde(default)]
    pub(crate) finish_reason: ModelFinishReason,
    pub(crate) usage: Option<TokenUsage>,
    /// Computed from the prices of the model that answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cost: Option<UsageCost>,
}

/// Reason for a missing answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ModelCallError {
    Failed(ModelError),
    Cancelled,
}

/// One model call of a turn.
pub(crate) struct ModelCall<'a> {
    pub(crate) model: &'a ModelPlan,
    pub(crate) request: ModelRequest,
    pub(crate) turn_id: &'a str,
    /// Step of the call; `None` for a call outside the conversation.
    pub(crate) step_id: Option<&'a str>,
    pub(crate) trace: TraceContext,
    pub(crate) course: ModelCallTiming,
    /// Receives streamed text; `None` for a call outside the conversation, whose text is not shown.
    pub(crate) bus: Option<&'a EventBus>,
    /// Rate limiter and limits of the whole swarm.
    pub(crate) swarm: (&'a RateLimiter, RateLimits),
    /// Receives retry and waiting events.
    pub(crate) engine_bus: &'a EventBus,
    pub(crate) cancel: &'a CancellationToken,
    /// Activity of the calling instance.
    pub(crate) tracker: &'a Arc<ActivityTracker>,
    /// True if another model follows when this one fails.
    pub(crate) has_fallback: bool,
}

impl ModelCallError {
    /// Combines the error with `failures` of earlier models. The message names every model. Kind
    /// and suggestion come from the first model, which was the intended one.
    pub(crate) fn after_failures(
        self,
        failures: Vec<(Arc<ModelName>, ModelError)>,
        last: &ModelName,
    ) -> ModelCallError {
        let ModelCallError::Failed(error) = self else {
            return self;
        };
        let Some((_, first)) = failures.first() else {
            return ModelCallError::Failed(error);
        };
        let (kind, suggestion) = (first.kind, first.suggestion.clone());
        let attempts = failures
            .iter()
            .map(|(name, error)| (&**name, error))
            .chain([(last, &error)]);
        let attempts = attempts
            .map(|(name, error)| format!("{} {}: {}", name.provider, name.model, error.message));
        let message = format!(
            "no model answered; {}",
            attempts.collect::<Vec<_>>().join("; ")
        );
        ModelCallError::Failed(ModelError {
            suggestion,
            ..ModelError::new(kind, message)
        })
    }
}

impl<'a> ModelCall<'a> {
    /// Returns the same call for a fallback model and retracts the streamed text of the failed one.
    pub(crate) fn with_fallback(self, model: &'a ModelPlan) -> ModelCall<'a> {
        self.publish(|instance, turn_id| SwarmEvent::TextReset { instance, turn_id });
        tracing::warn!(
            instance = %self.request.instance,
            failed = %self.model.name.model,
            next = %model.name.model,
            "calling the fallback model"
        );
        let trace = self
            .trace
            .sibling(&format!("{}-{}", self.trace.span_id, model.name.model));
        ModelCall {
            model,
            trace,
            course: ModelCallTiming::default(),
            ..self
        }
    }

    /// Returns the answer, after retries if they are necessary and allowed.
    pub(crate) async fn run(&self) -> Result<ModelAnswer, ModelCallError> {
        tokio::select! {
            answer = self.call_with_retries() => answer.map_err(ModelCallError::Failed),
            () = self.cancel.cancelled() => Err(ModelCallError::Cancelled),
        }
    }

    /// Calls the model; retries errors that may be temporary.
    async fn call_with_retries(&self) -> Result<ModelAnswer, ModelError> {
        let mut retries = 0;
        let mut start_deadline = None;
        loop {
            let error = match self.call_once().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let deadline =
                *start_deadline.get_or_insert_with(|| Instant::now() + start_timeout(&error));
            let wait = wait_before_retry(&error, retries);
            if !self.may_retry(&error, retries, deadline) || wait > self.model.max_retry_wait {
                return Err(error);
            }
            retries += 1;
            self.publish(|instance, turn_id| SwarmEvent::TextReset { instance, turn_id });
            self.report_retry(&error, retries, wait);
            tokio::time::sleep(wait).await;
            self.course.record_retry();
        }
    }

    /// Returns true if another attempt is allowed after `retries` retries. While the server is
    /// starting, attempts are allowed until `start_deadline`.
    fn may_retry(&self, error: &ModelError, retries: u32, start_deadline: Instant) -> bool {
        let max_retries = self.model.max_retries;
        if !error.is_transient() || max_retries == 0 {
            return false;
        }
        let is_starting =
            error.is_starting() && !self.has_fallback && Instant::now() < start_deadline;
        retries < max_retries || is_starting
    }

    /// Logs a retry and publishes it.
    fn report_retry(&self, error: &ModelError, attempt: u32, wait: Duration) {
        let (instance, name) = (&self.request.instance, &self.model.name);
        tracing::info!(%instance, model = %name.model, %error, ?wait, attempt, "Retrying a model \
            call.");
        let kind = RuntimeEventKind::ModelRetrying {
            turn_id: self.turn_id.to_owned(),
            step_id: self.step_id.map(str::to_owned),
            provider: name.provider.clone(),
            model: name.model.clone(),
            attempt,
            of: self.model.max_retries.max(attempt),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            reason: error.message.clone(),
        };
        self.engine_bus.runtime(instance, &self.trace, kind);
    }

    /// Waits until the rate limits allow another call.
    async fn wait_for_room(&self) {
        let publish_wait = |scope: RateScope, full: RateLimitHit| {
            let wait = full.until.saturating_duration_since(Instant::now());
            let kind = RuntimeEventKind::ModelWaiting {
                turn_id: self.turn_id.to_owned(),
                step_id: self.step_id.map(str::to_owned),
                provider: self.model.name.provider.clone(),
                model: self.model.name.model.clone(),
                scope,
                limit: full.limit.to_owned(),
                wait: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            };
            self.engine_bus
                .runtime(&self.request.instance, &self.trace, kind);
        };
        let (rate_limiter, limits) = self.swarm;
        if let Some(leader_client) = self.leader_if_limited() {
            let waits = self.tracker.pause();
            leader_client
                .acquire_rate_limit(self.rate_limit_request())
                .await;
            drop(waits);
            return;
        }
        // The model's limiter comes last because a request counts from the time at which it admits
        // the call.
        rate_limiter
            .acquire(limits, self.tracker, |full| {
                publish_wait(RateScope::Swarm, full)
            })
            .await;
        self.model
            .rate_limiter
            .acquire(self.model.limits, self.tracker, |full| {
                publish_wait(RateScope::Model, full)
            })
            .await;
    }

    /// Returns the connection to the leader on a worker, if a rate limit applies.
    fn leader_if_limited(&self) -> Option<&Arc<LeaderClient>> {
        let is_limited = !(self.model.limits.is_none() && self.swarm.1.is_none());
        self.engine_bus.leader_client().filter(|_| is_limited)
    }

    /// Builds the rate-limit request to the leader, which also publishes the waiting event.
    fn rate_limit_request(&self) -> RateLimitRequest {
        RateLimitRequest {
            identity: self.model.identity.clone(),
            provider: self.model.name.provider.clone(),
            model: self.model.name.model.clone(),
            instance: self.request.instance.clone(),
            trace: self.trace.clone(),
            turn_id: self.turn_id.to_owned(),
            step_id: self.step_id.map(str::to_owned),
        }
    }

    /// Calls the model once, within its time limit.
    async fn call_once(&self) -> Result<ModelAnswer, ModelError> {
        self.wait_for_room().await;
        let limit = self.model.total_timeout;
        match tokio::time::timeout(limit, self.answer()).await {
            Ok(answer) => answer,
            Err(_) => Err(over_time(limit)),
        }
    }

    /// Reads the answer of the model and publishes the streamed text.
    async fn answer(&self) -> Result<ModelAnswer, ModelError> {
        let begun = Instant::now();
        let mut stream = self.model.client.stream(self.request.clone()).await?;
        let mut text = self.bus.map(EventBus::text_stream);
        let mut reasoning = self.bus.map(EventBus::text_stream);
        let mut streamed_bytes = 0;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            self.tracker.record_heartbeat();
            self.course.record_first_part(begun);
            match chunk {
                ModelChunk::Text(delta) => {
                    check_size(&mut streamed_bytes, delta.len())?;
                    if let Some(text) = text.as_mut() {
                        self.show_text(text.push(&delta));
                    }
                }
                ModelChunk::Reasoning(delta) => {
                    check_size(&mut streamed_bytes, delta.len())?;
                    if let Some(stream) = reasoning.as_mut() {
                        self.show_reasoning(stream.push(&delta));
                    }
                }
                ModelChunk::Finish(answer) => {
                    if let Some(stream) = reasoning.as_mut() {
                        self.show_reasoning(stream.finish());
                    }
                    if let Some(text) = text.as_mut() {
                        self.show_text(text.finish());
                    }
                    return self.record_answer(*answer);
                }
            }
        }
        Err(ModelError::new(
            ModelErrorKind::Connection,
            "The model's answer broke off before it was complete.",
        ))
    }

    /// Records usage and cost of a complete answer.
    fn record_answer(&self, answer: CompletedAnswer) -> Result<ModelAnswer, ModelError> {
        check_size(&mut 0, answer.parts.iter().map(part_bytes).sum())?;
        let CompletedAnswer {
            parts,
            finish_reason,
            usage,
        } = answer;
        let tokens = usage.map(|usage| usage.total_tokens).unwrap_or_default();
        let cost = usage
            .zip(self.model.pricing.as_ref())
            .map(|(usage, pricing)| UsageCost::for_usage(usage, pricing));
        match self.leader_if_limited() {
            Some(leader_client) => {
                leader_client.report_model_usage(&self.model.identity, tokens, cost.clone())
            }
            None => {
                self.model
                    .rate_limiter
                    .record_usage(self.model.limits, tokens, cost.as_ref());
                self.swarm
                    .0
                    .record_usage(self.swarm.1, tokens, cost.as_ref());
            }
        }
        Ok(ModelAnswer {
            parts: with_unique_ids(parts),
            finish_reason,
            usage,
            cost,
        })
    }

    /// Publishes a piece of text, unless it is empty.
    fn show_text(&self, delta: String) {
        if !delta.is_empty() {
            self.publish(|instance, turn_id| SwarmEvent::Text {
                instance,
                turn_id,
                delta,
            });
        }
    }

    /// Publishes a piece of reasoning, unless it is empty.
    fn show_reasoning(&self, delta: String) {
        if !delta.is_empty() {
            self.publish(|instance, turn_id| SwarmEvent::Reasoning {
                instance,
                turn_id,
                delta,
            });
        }
    }

    /// Publishes an event, unless the call is not shown.
    fn publish(&self, event: impl FnOnce(InstanceId, String) -> SwarmEvent) {
        if let Some(bus) = self.bus {
            bus.publish(event(
                self.request.instance.clone(),
                self.turn_id.to_owned(),
            ));
        }
    }
}

/// Returns the time during which a starting server is retried after this first failure of a call.
fn start_timeout(first: &ModelError) -> Duration {
    if first.is_starting() {
        SERVER_START_TIMEOUT
    } else {
        SERVER_RESTART_TIMEOUT
    }
}

/// Returns the provider's `retry-after`, or a back-off with jitter.
fn wait_before_retry(error: &ModelError, retries: u32) -> Duration {
    let longest = if error.is_starting() {
        MAX_SERVER_START_WAIT
    } else {
        MAX_RETRY_WAIT
    };
    error
        .retry_after
        .unwrap_or_else(|| with_jitter(retry_wait(retries).min(longest)))
}

/// Returns the wait before a retry: doubled each time, up to the maximum.
fn retry_wait(retries: u32) -> Duration {
    FIRST_RETRY_WAIT
        .saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX))
        .min(MAX_RETRY_WAIT)
}

/// Returns a random time between half of `wait` and all of it, so that many callers do not retry at
/// the same moment.
fn with_jitter(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + rand::random::<f64>() / 2.0)
}

/// Returns the error of an answer that took longer than `limit`.
fn over_time(limit: Duration) -> ModelError {
    let message = format!(
        "The model's answer was not complete within {} seconds.",
        limit.as_secs_f64()
    );
    ModelError {
        suggestion: Some("Raise `options.totalTimeoutSeconds` of the Model.".to_owned()),
        ..ModelError::new(ModelErrorKind::Deadline, message)
    }
}

/// Adds `more` to `bytes`.
///
/// # Errors
/// The answer is larger than [`MAX_ANSWER_BYTES`].
fn check_size(bytes: &mut usize, more: usize) -> Result<(), ModelError> {
    *bytes = bytes.saturating_add(more);
    if *bytes <= MAX_ANSWER_BYTES {
        return Ok(());
    }
    let message = format!("The model's answer is larger than {MAX_ANSWER_BYTES} bytes.");
    Err(ModelError::new(ModelErrorKind::Protocol, message))
}

/// Returns the size of a part of an answer in bytes; 0 for parts that are not limited.
fn part_bytes(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text { text, .. } | MessagePart::Reasoning { text, .. } => text.len(),
        MessagePart::ToolCall(call) => call.tool_name.len() + call.input.to_string().len(),
        MessagePart::Opaque { .. } | MessagePart::ToolResult(_) | MessagePart::File(_) => 0,
    }
}

/// Replaces missing and repeated call ids, because results refer to calls by id.
fn with_unique_ids(mut parts: Vec<MessagePart>) -> Vec<MessagePart> {
    let mut seen_ids = HashSet::new();
    let calls = parts.iter_mut().filter_map(|part| match part {
        MessagePart::ToolCall(call) => Some(call),
        _ => None,
    });
    for (index, call) in calls.enumerate() {
        if call.tool_call_id.is_empty() {
            call.tool_call_id = format!("call-{index}");
        }
        while !seen_ids.insert(call.tool_call_id.clone()) {
            call.tool_call_id.push_str(&format!("-{index}"));
        }
    }
    parts
}

/// Converts the error of a model call to the error of the turn.
pub(crate) fn turn_error(error: ModelError) -> TurnError {
    TurnError {
        suggestion: error.suggestion,
        status: error.kind.status(),
        ..TurnError::new(error.kind.code(), error.message)
    }
}

#[cfg(test)]
mod tests {
    use goondan_core::message::ToolCall;
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_waits_double_up_to_a_maximum() {
        let waits: Vec<u128> = (0..8)
            .map(|retries| retry_wait(retries).as_millis())
            .collect();
        assert_eq!(
            waits,
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        assert_eq!(retry_wait(200), MAX_RETRY_WAIT);
    }

    #[test]
    fn a_server_that_ended_during_a_call_gets_the_restart_timeout() {
        let timeout = |kind| start_timeout(&ModelError::new(kind, ""));
        assert_eq!(timeout(ModelErrorKind::Starting), SERVER_START_TIMEOUT);
        assert_eq!(timeout(ModelErrorKind::Connection), SERVER_RESTART_TIMEOUT);
        // A proxy answers with 502 if the server behind it has ended.
        assert_eq!(timeout(ModelErrorKind::Status(502)), SERVER_RESTART_TIMEOUT);
    }

    #[test]
    fn missing_and_duplicate_call_ids_are_replaced() {
        let call = |id: &str| MessagePart::ToolCall(ToolCall::new(id, "a__b", json!({})));
        let parts = with_unique_ids(vec![call(""), call("x"), call("x"), call("call-0")]);
        assert_eq!(parts, ["call-0", "x", "x-2", "call-0-3"].map(call));
    }
}
