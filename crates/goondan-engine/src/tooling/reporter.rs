//! Logs and progress of one tool call.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::tooling::dispatch::{ToolCallContext, TurnScope};
use crate::tooling::live_output::{LiveOutput, OUTPUT_INTERVAL, ShownLines};
use crate::tooling::registry::RegisteredTool;
use crate::turn::TurnContext;
use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ids::TraceContext;
use goondan_core::ports::tool::{LogLevel, OutputStream, ProgressSink, ToolLogger};

/// Maximum progress updates of a call per second. Slow subscribers buffer all updates, so a flood
/// would fill memory.
const MAX_UPDATES_PER_SECOND: u32 = 100;

/// Forwards progress and logs of a running tool.
pub(crate) struct ToolCallReporter {
    engine: Arc<Engine>,
    facts: Arc<TurnScope>,
    trace: TraceContext,
    tool_call_id: String,
    tool_name: String,
    rate: Mutex<UpdateRate>,
    live: Mutex<LiveOutput>,
    /// Notified when the command of the call has written output.
    has_output: Notify,
}

impl ToolCallReporter {
    /// Creates the reporter of a tool call.
    pub(crate) fn for_call(context: &ToolCallContext, tool: &RegisteredTool) -> Self {
        ToolCallReporter {
            engine: Arc::clone(&context.engine),
            facts: Arc::clone(&context.facts),
            trace: context.trace.clone(),
            tool_call_id: context.call.tool_call_id.clone(),
            tool_name: tool.name.to_string(),
            rate: Mutex::default(),
            live: Mutex::new(LiveOutput::new(&context.engine.redactor)),
            has_output: Notify::new(),
        }
    }

    /// Publishes the output of the command as it arrives, until the future is dropped.
    pub(crate) async fn publish_output(&self) -> Infallible {
        loop {
            self.has_output.notified().await;
            let update = self.lock_live_output().next_update();
            if let Some(update) = update {
                let clock = &self.engine.clock;
                // After a clock was set back, `update` is too far away to wait for.
                let is_due_soon = || {
                    let wait = (update - clock.now()).to_std();
                    wait.is_ok_and(|wait| !wait.is_zero() && wait <= OUTPUT_INTERVAL)
                };
                while is_due_soon() {
                    clock.sleep_until(update).await;
                }
            }
            let lines = self.lock_live_output().take(self.engine.clock.now());
            self.publish_lines(lines);
        }
    }

    /// Publishes the output that waits, at the end of the call.
    pub(crate) fn publish_rest(&self) {
        let lines = self.lock_live_output().take_rest();
        self.publish_lines(lines);
    }

    /// Publishes lines of a command, if there are any. The last one is the title.
    fn publish_lines(&self, lines: Option<ShownLines>) {
        if let Some(lines) = lines {
            self.publish(&lines.title(), lines.into_metadata());
        }
    }

    /// Publishes an update.
    fn publish(&self, title: &str, metadata: JsonObject) {
        let kind = RuntimeEventKind::ToolProgress {
            tool_call_id: self.tool_call_id.clone(),
            tool_name: self.tool_name.clone(),
            turn_id: self.facts.turn_id.clone(),
            title: goondan_core::limits::head(title, 200).to_owned(),
            metadata: goondan_core::limits::bounded_metadata(&metadata),
        };
        self.facts.tracker.record_heartbeat();
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.trace, kind);
    }

    /// Returns the output that waits, locked.
    fn lock_live_output(&self) -> MutexGuard<'_, LiveOutput> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of updates in the second that began at the given time.
#[derive(Default)]
struct UpdateRate(Option<(Instant, u32)>);

impl UpdateRate {
    /// Counts an update; false if more than the maximum number of updates came within a second.
    fn allows_update(&mut self, now: Instant) -> bool {
        match &mut self.0 {
            Some((since, count)) if now.duration_since(*since) < Duration::from_secs(1) => {
                *count += 1;
                *count <= MAX_UPDATES_PER_SECOND
            }
            other => {
                *other = Some((now, 1));
                true
            }
        }
    }
}

impl ToolLogger for ToolCallReporter {
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

/// Forwards the logs of an extension.
pub(crate) struct ExtensionLog {
    engine: Arc<Engine>,
    facts: Arc<TurnScope>,
    extension: String,
}

impl ExtensionLog {
    /// Creates the log of an extension.
    pub(crate) fn for_extension(context: &TurnContext, extension: &str) -> Self {
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

impl ProgressSink for ToolCallReporter {
    fn update(&self, title: &str, metadata: JsonObject) {
        if !self
            .rate
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .allows_update(Instant::now())
        {
            return;
        }
        self.publish(title, metadata);
    }

    fn output(&self, stream: OutputStream, piece: &str) {
        self.lock_live_output().push(stream, piece);
        self.has_output.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_limited_to_100_per_second() {
        let mut rate = UpdateRate::default();
        let start = Instant::now();
        let passed =
            |rate: &mut UpdateRate, at| (0..10_000).filter(|_| rate.allows_update(at)).count();
        assert_eq!(passed(&mut rate, start), 100);
        assert_eq!(passed(&mut rate, start + Duration::from_millis(999)), 0);
        assert_eq!(passed(&mut rate, start + Duration::from_secs(1)), 100);
    }
}
