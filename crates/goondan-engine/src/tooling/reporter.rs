//! Logs and progress of one tool call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Engine;
use crate::tooling::dispatch::{ToolCallContext, TurnFacts};
use crate::tooling::registry::RegisteredTool;
use crate::turn::TurnContext;
use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ids::TraceContext;
use goondan_core::ports::tool::{LogLevel, ProgressSink, ToolLogger};

/// The most updates of a call that are passed on in a second. Who watches keeps all that it has not looked at yet.
const MOST_UPDATES: u32 = 100;

/// Passes on what a tool tells while it runs.
pub(crate) struct Reporter {
    engine: Arc<Engine>,
    facts: Arc<TurnFacts>,
    trace: TraceContext,
    tool_call_id: String,
    tool_name: String,
    rate: Mutex<Rate>,
}

impl Reporter {
    /// For a call of `tool`.
    pub(crate) fn of(context: &ToolCallContext, tool: &RegisteredTool) -> Self {
        Reporter {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            trace: context.trace.clone(),
            tool_call_id: context.call.tool_call_id.clone(),
            tool_name: tool.name.to_string(),
            rate: Mutex::default(),
        }
    }
}

/// How many updates came in the second that began at a time.
#[derive(Default)]
struct Rate(Option<(Instant, u32)>);

impl Rate {
    /// Whether one more may pass now.
    fn allows(&mut self, now: Instant) -> bool {
        match &mut self.0 {
            Some((since, count)) if now.duration_since(*since) < Duration::from_secs(1) => {
                *count += 1;
                *count <= MOST_UPDATES
            }
            other => {
                *other = Some((now, 1));
                true
            }
        }
    }
}

impl ToolLogger for Reporter {
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        let (instance, trace_id) = (&self.facts.instance, &self.trace.trace_id);
        let (tool, call) = (&self.tool_name, &self.tool_call_id);
        let mut fields = serde_json::Value::Object(fields);
        self.engine.redactor.clean_value(&mut fields);
        let message = self.engine.redactor.text(message);
        macro_rules! emit {
            ($macro:ident) => {
                tracing::$macro!(target: "gdn::tool", %instance, trace_id, tool, call, %fields, "{message}")
            };
        }
        match level {
            LogLevel::Debug => emit!(debug),
            LogLevel::Info => emit!(info),
            LogLevel::Warn => emit!(warn),
            LogLevel::Error => emit!(error),
        }
    }
}

/// Passes on what an extension logs.
pub(crate) struct ExtensionLog {
    engine: Arc<Engine>,
    facts: Arc<TurnFacts>,
    extension: String,
}

impl ExtensionLog {
    /// For an extension of the turn.
    pub(crate) fn of(context: &TurnContext, extension: &str) -> Self {
        ExtensionLog {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            extension: extension.to_owned(),
        }
    }
}

impl ToolLogger for ExtensionLog {
    fn log(&self, level: LogLevel, message: &str, fields: JsonObject) {
        let (instance, trace_id, extension) = (
            &self.facts.instance,
            &self.facts.trace.trace_id,
            &self.extension,
        );
        let mut fields = serde_json::Value::Object(fields);
        self.engine.redactor.clean_value(&mut fields);
        let message = self.engine.redactor.text(message);
        macro_rules! emit {
            ($macro:ident) => {
                tracing::$macro!(target: "gdn::extension", %instance, trace_id, extension, %fields, "{message}")
            };
        }
        match level {
            LogLevel::Debug => emit!(debug),
            LogLevel::Info => emit!(info),
            LogLevel::Warn => emit!(warn),
            LogLevel::Error => emit!(error),
        }
    }
}

impl ProgressSink for Reporter {
    fn update(&self, title: &str, metadata: JsonObject) {
        if !self
            .rate
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .allows(Instant::now())
        {
            return;
        }
        let kind = RuntimeEventKind::ToolProgress {
            tool_call_id: self.tool_call_id.clone(),
            tool_name: self.tool_name.clone(),
            turn_id: self.facts.turn_id.clone(),
            title: goondan_core::limits::head(title, 200).to_owned(),
            metadata: goondan_core::limits::bounded(&metadata),
        };
        self.facts.life.show();
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.trace, kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_updates_is_thinned_out() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let passed = |rate: &mut Rate, at| (0..10_000).filter(|_| rate.allows(at)).count();
        assert_eq!(passed(&mut rate, start), 100);
        assert_eq!(passed(&mut rate, start + Duration::from_millis(999)), 0);
        assert_eq!(passed(&mut rate, start + Duration::from_secs(1)), 100);
    }
}
