//! How a question to a model went, and what is told of it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_spec::Code;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::turn::model_call::{ModelAnswer, ModelCall, NoAnswer, turn_error};
use crate::turn::said::said;
use goondan_core::event::{RuntimeEventKind, ShownModelCall};

/// How a question goes. It outlives the question, which may be dropped at any point.
#[derive(Debug, Default)]
pub(crate) struct Course(Mutex<Taken>);

#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    retries: u32,
    /// From the last attempt to the first piece of its answer.
    first: Option<Duration>,
}

impl Course {
    /// The model is asked again.
    pub(crate) fn again(&self) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = Taken {
            retries: taken.retries + 1,
            first: None,
        };
    }

    /// A piece of the answer to the attempt that began at `begun`.
    pub(crate) fn piece(&self, begun: Instant) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .first
            .get_or_insert_with(|| begun.elapsed());
    }

    fn taken(&self) -> Taken {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a question was put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    at: DateTime<Utc>,
    since: Instant,
}

impl Asked {
    /// Now.
    pub(crate) fn now(engine: &Engine) -> Self {
        Asked {
            at: engine.clock.now(),
            since: Instant::now(),
        }
    }

    /// Tells what came of it.
    pub(crate) fn tell(
        self,
        engine: &Engine,
        call: &ModelCall<'_>,
        answer: &Result<ModelAnswer, NoAnswer>,
    ) {
        let turn_id = call.turn_id.to_owned();
        let kind = match answer {
            Ok(answer) => RuntimeEventKind::ModelCompleted {
                turn_id,
                call: self.shown(engine, call, Some(answer)),
            },
            Err(NoAnswer::Failed(error)) => {
                let error = turn_error(error.clone());
                let (error_message, error_code) = (error.message, error.code);
                RuntimeEventKind::ModelFailed {
                    turn_id,
                    error_message,
                    error_code,
                    call: self.shown(engine, call, None),
                }
            }
            Err(NoAnswer::Cancelled) => RuntimeEventKind::ModelFailed {
                turn_id,
                error_message: "the turn was cancelled".to_owned(),
                error_code: Code::TURN_CANCELLED.into(),
                call: self.shown(engine, call, None),
            },
        };
        engine
            .bus
            .runtime(&call.request.instance, &call.trace, kind);
    }

    fn shown(
        self,
        engine: &Engine,
        call: &ModelCall<'_>,
        answer: Option<&ModelAnswer>,
    ) -> Box<ShownModelCall> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let Taken { retries, first } = call.course.taken();
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
            said: said(engine, call, answer),
        })
    }
}
