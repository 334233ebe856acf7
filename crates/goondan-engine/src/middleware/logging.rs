//! `logging`: log lines for turns, steps and tool calls of an agent, in addition to runtime events.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::builtin::{ConfigProblem, decode};
use super::{Middleware, StepNext, ToolCallNext, TurnNext};
use crate::tooling::dispatch::ToolCallContext;
use crate::tooling::registry::ToolCatalog;
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::limits::head;
use goondan_core::ports::tool::{LogLevel, ToolCallResult};

pub(super) const NAME: &str = "logging";

/// Length limit of arguments and metadata in a log line, in characters.
const MAX_LOGGED_CHARS: usize = 2_000;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct LoggingConfig {
    /// Minimum level; lines below it are omitted.
    level: LogLevel,
    /// Off by default: arguments may contain data that must not be logged.
    include_tool_args: bool,
    include_turn_metadata: bool,
}

impl Default for LoggingConfig {
    fn default() -> Self {
        LoggingConfig {
            level: LogLevel::Info,
            include_tool_args: false,
            include_turn_metadata: true,
        }
    }
}

struct LoggingMiddleware {
    config: LoggingConfig,
}

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    _tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    Ok(Arc::new(LoggingMiddleware {
        config: decode(config)?,
    }))
}

/// Logs to the target `gdn::agent` if the config enables the level. This is a macro because
/// `tracing` requires a constant level.
macro_rules! line {
    ($logging:expr, Debug, $($rest:tt)*) => { line!($logging, Debug => debug, $($rest)*) };
    ($logging:expr, Info, $($rest:tt)*) => { line!($logging, Info => info, $($rest)*) };
    ($logging:expr, Error, $($rest:tt)*) => { line!($logging, Error => error, $($rest)*) };
    ($logging:expr, $level:ident => $macro:ident, $($rest:tt)*) => {
        if $logging.config.level <= LogLevel::$level {
            tracing::$macro!(target: "gdn::agent", $($rest)*);
        }
    };
}

impl LoggingMiddleware {
    /// Returns the source of a turn, if the config enables it.
    fn turn_origin(&self, context: &TurnContext) -> Option<String> {
        if !self.config.include_turn_metadata {
            return None;
        }
        let event = context.event();
        let caller = event
            .caller()
            .map_or_else(|| "outside".to_owned(), ToString::to_string);
        let metadata = serde_json::Value::Object(event.metadata.clone()).to_string();
        Some(format!(
            "event={} type={} from={caller} trace={} metadata={}",
            event.id,
            event.event_type,
            context.trace_id(),
            head(&metadata, MAX_LOGGED_CHARS)
        ))
    }
}

#[async_trait]
impl Middleware for LoggingMiddleware {
    fn name(&self) -> &str {
        NAME
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let (instance, turn) = (context.instance().clone(), context.turn_id().to_owned());
        let origin = self.turn_origin(context);
        line!(self, Info, %instance, turn, origin = origin.as_deref(), "turn started");
        let outcome = next.run(context).await;
        match &outcome {
            Ok(outcome) => {
                let (reason, steps) = (outcome.finish_reason, context.steps());
                line!(self, Info, %instance, turn, ?reason, steps, "turn completed");
            }
            Err(error) => {
                line!(self, Error, %instance, turn, code = error.code, error = error.message, "turn failed")
            }
        }
        outcome
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        let (instance, step) = (
            context.turn().instance().clone(),
            context.step_id().to_owned(),
        );
        line!(self, Info, %instance, step, "step started");
        let outcome = next.run(context).await;
        match &outcome {
            Ok(outcome) => {
                line!(self, Info, %instance, step, calls = outcome.results.len(), "step completed")
            }
            Err(error) => {
                line!(self, Error, %instance, step, code = error.code, error = error.message, "step failed")
            }
        }
        outcome
    }

    async fn tool_call(
        &self,
        context: &mut ToolCallContext,
        next: ToolCallNext<'_>,
    ) -> ToolCallResult {
        let instance = context.instance().clone();
        let (tool, call) = (
            context.call.tool_name.clone(),
            context.call.tool_call_id.clone(),
        );
        let arguments = self
            .config
            .include_tool_args
            .then(|| context.call.input.to_string());
        let arguments = arguments
            .as_deref()
            .map(|arguments| head(arguments, MAX_LOGGED_CHARS));
        line!(self, Debug, %instance, tool, call, arguments, "tool called");
        let result = next.run(context).await;
        match &result.error {
            None => line!(self, Debug, %instance, tool, call, "tool completed"),
            Some(error) => {
                line!(self, Error, %instance, tool, call, code = error.code, error = error.message, "tool failed")
            }
        }
        result
    }
}
