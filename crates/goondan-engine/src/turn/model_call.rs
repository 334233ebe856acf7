//! Asks the model, and asks again where that may help (rule M4).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use goondan_spec::kinds::RateLimits;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::Uplink;
use crate::cluster::wire::RoomWanted;
use crate::delivery::bus::EventBus;
use crate::life::Life;
use crate::plan::{ModelName, ModelPlan};
use crate::turn::model_course::Course;
use crate::turn::pace::{Full, Pace};
use goondan_core::event::{Cost, RateScope, RuntimeEventKind, SwarmEvent, TurnError};
use goondan_core::ids::{InstanceId, TraceContext};
use goondan_core::message::Part;
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelError, ModelErrorKind, ModelFinishReason, ModelRequest,
    TokenUsage,
};

/// The first wait between two attempts; each later one is twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Time during which a server that refuses connections or loads its model is retried, whatever `maxRetries` is.
const STARTING_PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait between two calls to a server that is starting.
const LONGEST_STARTING_WAIT: Duration = Duration::from_secs(4);

/// An answer larger than this is refused: no model writes it, and it would fill memory.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelAnswer {
    pub(crate) parts: Vec<Part>,
    #[serde(default)]
    pub(crate) finish_reason: ModelFinishReason,
    pub(crate) usage: Option<TokenUsage>,
    /// By the prices of the model that gave it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cost: Option<Cost>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum NoAnswer {
    Failed(ModelError),
    Cancelled,
}

/// One model call of a turn.
pub(crate) struct ModelCall<'a> {
    pub(crate) model: &'a ModelPlan,
    pub(crate) request: ModelRequest,
    pub(crate) turn_id: &'a str,
    /// The step that asks; `None` for a question beside the conversation.
    pub(crate) step_id: Option<&'a str>,
    pub(crate) trace: TraceContext,
    pub(crate) course: Course,
    /// Where the text streams to; `None` for a question beside the conversation, which nobody shall see.
    pub(crate) bus: Option<&'a EventBus>,
    /// What all agents together have asked in the last minute, and may.
    pub(crate) swarm: (&'a Pace, RateLimits),
    /// Where it is told that it has to wait.
    pub(crate) engine_bus: &'a EventBus,
    pub(crate) cancel: &'a CancellationToken,
    /// Of the instance that asks.
    pub(crate) life: &'a Arc<Life>,
    /// Another model follows if this one fails.
    pub(crate) has_fallback: bool,
}

impl NoAnswer {
    /// The same where other models were asked before the `last` one: what each of them said counts, and the first is the one
    /// that was meant to answer.
    pub(crate) fn after(
        self,
        failures: Vec<(Arc<ModelName>, ModelError)>,
        last: &ModelName,
    ) -> NoAnswer {
        let NoAnswer::Failed(error) = self else {
            return self;
        };
        let Some((_, first)) = failures.first() else {
            return NoAnswer::Failed(error);
        };
        let (kind, suggestion) = (first.kind, first.suggestion.clone());
        let told = failures
            .iter()
            .map(|(name, error)| (&**name, error))
            .chain([(last, &error)]);
        let told = told
            .map(|(name, error)| format!("{} {}: {}", name.provider, name.model, error.message));
        let message = format!("no model answered; {}", told.collect::<Vec<_>>().join("; "));
        NoAnswer::Failed(ModelError {
            suggestion,
            ..ModelError::new(kind, message)
        })
    }
}

impl<'a> ModelCall<'a> {
    /// The same question to another model, where this one has failed. What it had written is taken back.
    pub(crate) fn of_another(self, model: &'a ModelPlan) -> ModelCall<'a> {
        self.publish(|instance, turn_id| SwarmEvent::TextReset { instance, turn_id });
        tracing::warn!(instance = %self.request.instance, failed = %self.model.name.model, next = %model.name.model, "another model is asked");
        let trace = self
            .trace
            .sibling(&format!("{}-{}", self.trace.span_id, model.name.model));
        ModelCall {
            model,
            trace,
            course: Course::default(),
            ..self
        }
    }

    /// The answer, after as many attempts as it takes and is allowed.
    pub(crate) async fn run(&self) -> Result<ModelAnswer, NoAnswer> {
        tokio::select! {
            answer = self.attempts() => answer.map_err(NoAnswer::Failed),
            () = self.cancel.cancelled() => Err(NoAnswer::Cancelled),
        }
    }

    async fn attempts(&self) -> Result<ModelAnswer, ModelError> {
        let mut retries = 0;
        let mut first_failure = None;
        loop {
            let error = match self.attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let since = first_failure.get_or_insert_with(Instant::now).elapsed();
            let wait = wait_before_retry(&error, retries);
            if !self.may_retry(&error, retries, since) || wait > self.model.max_retry_wait {
                return Err(error);
            }
            retries += 1;
            self.publish(|instance, turn_id| SwarmEvent::TextReset { instance, turn_id });
            self.report_retry(&error, retries, wait);
            tokio::time::sleep(wait).await;
            self.course.again();
        }
    }

    /// Returns whether a retry is allowed after `retries` retries and `since` the first failure.
    fn may_retry(&self, error: &ModelError, retries: u32, since: Duration) -> bool {
        let max_retries = self.model.max_retries;
        if !error.is_transient() || max_retries == 0 {
            return false;
        }
        let is_starting = error.is_starting() && !self.has_fallback && since < STARTING_PATIENCE;
        retries < max_retries || is_starting
    }

    fn report_retry(&self, error: &ModelError, attempt: u32, wait: Duration) {
        let (instance, name) = (&self.request.instance, &self.model.name);
        tracing::info!(%instance, model = %name.model, %error, ?wait, attempt, "Retrying a model call.");
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

    /// Comes back once the model may be asked again in this minute.
    async fn wait_for_room(&self) {
        let tell = |scope: RateScope, full: Full| {
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
        let (pace, limits) = self.swarm;
        if let Some(uplink) = self.leader() {
            let waits = self.life.ask();
            uplink.enter(self.room()).await;
            drop(waits);
            return;
        }
        // The model comes last: what counts there is when it is asked.
        pace.enter(limits, self.life, |full| tell(RateScope::Swarm, full))
            .await;
        self.model
            .pace
            .enter(self.model.limits, self.life, |full| {
                tell(RateScope::Model, full)
            })
            .await;
    }

    /// The node that leads, where this one works for it and something is limited.
    fn leader(&self) -> Option<&Arc<Uplink>> {
        let is_limited = !(self.model.limits.is_none() && self.swarm.1.is_none());
        self.engine_bus.uplink().filter(|_| is_limited)
    }

    /// What the node that leads has to know to let it in, and to tell of it where that takes a while.
    fn room(&self) -> RoomWanted {
        RoomWanted {
            identity: self.model.identity.clone(),
            provider: self.model.name.provider.clone(),
            model: self.model.name.model.clone(),
            instance: self.request.instance.clone(),
            trace: self.trace.clone(),
            turn_id: self.turn_id.to_owned(),
            step_id: self.step_id.map(str::to_owned),
        }
    }

    async fn attempt(&self) -> Result<ModelAnswer, ModelError> {
        self.wait_for_room().await;
        let begun = Instant::now();
        let mut stream = self.model.client.stream(self.request.clone()).await?;
        let mut text = self.bus.map(EventBus::text_stream);
        let mut reasoning = self.bus.map(EventBus::text_stream);
        let mut streamed_bytes = 0;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            self.life.show();
            self.course.piece(begun);
            match chunk {
                ModelChunk::Text(delta) => {
                    check_size(&mut streamed_bytes, delta.len())?;
                    text.iter_mut()
                        .for_each(|text| self.show_text(text.push(&delta)));
                }
                ModelChunk::Reasoning(delta) => {
                    check_size(&mut streamed_bytes, delta.len())?;
                    reasoning
                        .iter_mut()
                        .for_each(|stream| self.show_reasoning(stream.push(&delta)));
                }
                ModelChunk::Finish(answer) => {
                    reasoning
                        .iter_mut()
                        .for_each(|stream| self.show_reasoning(stream.finish()));
                    text.iter_mut()
                        .for_each(|text| self.show_text(text.finish()));
                    return self.completed(*answer);
                }
            }
        }
        Err(ModelError::new(
            ModelErrorKind::Connection,
            "The model's answer broke off before it was complete.",
        ))
    }

    /// Counts and prices a complete answer.
    fn completed(&self, answer: CompletedAnswer) -> Result<ModelAnswer, ModelError> {
        check_size(&mut 0, answer.parts.iter().map(part_bytes).sum())?;
        let CompletedAnswer {
            parts,
            finish_reason,
            usage,
        } = answer;
        let tokens = usage.map(|usage| usage.total_tokens).unwrap_or_default();
        let cost = usage
            .zip(self.model.pricing.as_ref())
            .map(|(usage, pricing)| Cost::of(usage, pricing));
        match self.leader() {
            Some(uplink) => uplink.used(&self.model.identity, tokens, cost.clone()),
            None => {
                self.model
                    .pace
                    .used(self.model.limits, tokens, cost.as_ref());
                self.swarm.0.used(self.swarm.1, tokens, cost.as_ref());
            }
        }
        Ok(ModelAnswer {
            parts: with_unique_ids(parts),
            finish_reason,
            usage,
            cost,
        })
    }

    fn show_text(&self, delta: String) {
        if !delta.is_empty() {
            self.publish(|instance, turn_id| SwarmEvent::Text {
                instance,
                turn_id,
                delta,
            });
        }
    }

    fn show_reasoning(&self, delta: String) {
        if !delta.is_empty() {
            self.publish(|instance, turn_id| SwarmEvent::Reasoning {
                instance,
                turn_id,
                delta,
            });
        }
    }

    fn publish(&self, event: impl FnOnce(InstanceId, String) -> SwarmEvent) {
        if let Some(bus) = self.bus {
            bus.publish(event(
                self.request.instance.clone(),
                self.turn_id.to_owned(),
            ));
        }
    }
}

/// Returns the provider's `retry-after`, or a back-off with jitter.
fn wait_before_retry(error: &ModelError, retries: u32) -> Duration {
    let longest = if error.is_starting() {
        LONGEST_STARTING_WAIT
    } else {
        LONGEST_WAIT
    };
    error
        .retry_after
        .unwrap_or_else(|| with_jitter(back_off(retries).min(longest)))
}

fn back_off(retries: u32) -> Duration {
    FIRST_WAIT
        .saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX))
        .min(LONGEST_WAIT)
}

/// Between half of `wait` and all of it, so that many callers do not come back at the same moment.
fn with_jitter(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + rand::random::<f64>() / 2.0)
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

fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Reasoning { text, .. } => text.len(),
        Part::ToolCall(call) => call.tool_name.len() + call.input.to_string().len(),
        Part::Opaque { .. } | Part::ToolResult(_) | Part::File(_) => 0,
    }
}

/// Replaces missing and repeated call ids: results refer to calls by id.
fn with_unique_ids(mut parts: Vec<Part>) -> Vec<Part> {
    let mut seen = HashSet::new();
    let calls = parts.iter_mut().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    for (index, call) in calls.enumerate() {
        if call.tool_call_id.is_empty() {
            call.tool_call_id = format!("call-{index}");
        }
        while !seen.insert(call.tool_call_id.clone()) {
            call.tool_call_id.push_str(&format!("-{index}"));
        }
    }
    parts
}

/// Returns the turn error for a failed model call.
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
    fn waits_double_up_to_a_bound() {
        let waits: Vec<u128> = (0..8)
            .map(|retries| back_off(retries).as_millis())
            .collect();
        assert_eq!(
            waits,
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        assert_eq!(back_off(200), LONGEST_WAIT);
    }

    #[test]
    fn missing_and_repeated_call_ids_are_made_up() {
        let call = |id: &str| Part::ToolCall(ToolCall::new(id, "a__b", json!({})));
        let parts = with_unique_ids(vec![call(""), call("x"), call("x"), call("call-0")]);
        assert_eq!(parts, ["call-0", "x", "x-2", "call-0-3"].map(call));
    }
}
