//! Timing and retries of a model call, and the events about its result.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_spec::Code;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::turn::context_usage;
use crate::turn::model_call::{ModelAnswer, ModelCall, ModelCallError, turn_error};
use crate::turn::prompt_excerpt::prompt_excerpt;
use crate::turn::recorded_call::{CallCourse, record};
use goondan_core::event::{RuntimeEventKind, ShownModelCall};

/// Progress of a model call. Separate from the call, which may be dropped at any point.
#[derive(Debug, Default)]
pub(crate) struct ModelCallTiming(Mutex<AttemptTiming>);

#[derive(Debug, Clone, Copy, Default)]
struct AttemptTiming {
    retries: u32,
    /// Time from the start of the last attempt to the first part of the answer.
    first: Option<Duration>,
}

impl ModelCallTiming {
    /// Counts a retry; the time to the first token starts again.
    pub(crate) fn record_retry(&self) {
        let mut timing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *timing = AttemptTiming {
            retries: timing.retries + 1,
            first: None,
        };
    }

    /// Records a part of the answer to the attempt that began at `begun`. Only the first part
    /// counts.
    pub(crate) fn record_first_part(&self, begun: Instant) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .first
            .get_or_insert_with(|| begun.elapsed());
    }

    /// Returns the times of the current attempt.
    fn attempt_timing(&self) -> AttemptTiming {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Start time of a model call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelCallStart {
    at: DateTime<Utc>,
    since: Instant,
}

impl ModelCallStart {
    /// Records the start of a model call.
    pub(crate) fn now(engine: &Engine) -> Self {
        ModelCallStart {
            at: engine.clock.now(),
            since: Instant::now(),
        }
    }

    /// Records the call for people who inspect it.
    pub(crate) fn record(
        self,
        engine: &Engine,
        call: &ModelCall<'_>,
        answer: &Result<ModelAnswer, ModelCallError>,
    ) {
        let course = CallCourse {
            started_at: self.at,
            duration: self.since.elapsed(),
            retries: call.course.attempt_timing().retries,
        };
        record(engine, call, &course, answer);
    }

    /// Publishes the result of the call.
    pub(crate) fn publish_result(
        self,
        engine: &Engine,
        call: &ModelCall<'_>,
        answer: &Result<ModelAnswer, ModelCallError>,
    ) {
        let turn_id = call.turn_id.to_owned();
        let kind = match answer {
            Ok(answer) => RuntimeEventKind::ModelCompleted {
                turn_id,
                call: self.into_shown_call(engine, call, Some(answer)),
            },
            Err(ModelCallError::Failed(error)) => {
                let error = turn_error(error.clone());
                let (error_message, error_code) = (error.message, error.code);
                RuntimeEventKind::ModelFailed {
                    turn_id,
                    error_message,
                    error_code,
                    call: self.into_shown_call(engine, call, None),
                }
            }
            Err(ModelCallError::Cancelled) => RuntimeEventKind::ModelFailed {
                turn_id,
                error_message: "the turn was cancelled".to_owned(),
                error_code: Code::TURN_CANCELLED.into(),
                call: self.into_shown_call(engine, call, None),
            },
        };
        engine
            .bus
            .runtime(&call.request.instance, &call.trace, kind);
    }

    /// Returns the data of a model call for its event; `answer` is `None` for a failed call.
    fn into_shown_call(
        self,
        engine: &Engine,
        call: &ModelCall<'_>,
        answer: Option<&ModelAnswer>,
    ) -> Box<ShownModelCall> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let AttemptTiming { retries, first } = call.course.attempt_timing();
        let token_usage = answer.and_then(|answer| answer.usage);
        Box::new(ShownModelCall {
            step_id: call.step_id.map(str::to_owned),
            provider: call.model.name.provider.clone(),
            model: call.model.name.model.clone(),
            started_at: self.at,
            duration: millis(self.since.elapsed()),
            time_to_first_token: first.map(millis),
            retries,
            finish_reason: answer.map(|answer| answer.finish_reason.clone()),
            token_usage,
            cost: answer.and_then(|answer| answer.cost.clone()),
            context: call
                .step_id
                .map(|_| context_usage::of_request(&call.request, call.model.context_window)),
            said: prompt_excerpt(engine, call, answer),
        })
    }
}
