//! Conversion of runtime events to spans.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use goondan_core::event::{
    FinishReason, RuntimeEvent, RuntimeEventKind as Kind, ShownError, ShownModelCall, ShownResult,
};
use goondan_core::ports::model::ModelFinishReason;
use goondan_spec::Code;
use serde_json::Value;

use crate::attributes::{SpanAttributes, unix_nanos};
use crate::message_attributes;
use crate::names;
use crate::otlp::{OtlpSpan, SpanEvent, SpanKind, SpanStatus};

/// Maximum number of open spans. Turns of a crashed process never end, so the oldest half is
/// dropped.
const MAX_OPEN_SPANS: usize = 20_000;

/// Trace flag of a sampled trace.
const SAMPLED_FLAG: u32 = 1;

/// Builds spans from the events that begin and end a unit of work.
#[derive(Debug, Default)]
pub struct SpanAssembler {
    /// Open spans, by span id.
    open: HashMap<String, OpenSpan>,
    /// Includes the content of model calls and tool calls.
    content: bool,
}

/// A span before its end.
#[derive(Debug)]
struct OpenSpan {
    began: DateTime<Utc>,
    /// Attributes from events during the span.
    attributes: SpanAttributes,
    events: Vec<SpanEvent>,
    /// For a turn or a step: provider and model of its first model call.
    model: Option<(String, String)>,
}

/// End of a unit of work.
struct SpanEnd {
    name: String,
    kind: SpanKind,
    /// Duration in milliseconds, used if the beginning is unknown.
    duration: u64,
    attributes: SpanAttributes,
    /// Error code and message of a failure.
    error: Option<(String, String)>,
}

impl SpanAssembler {
    /// Returns an assembler without open spans. With `content`, spans contain the arguments and
    /// results of tool calls and the messages of model calls.
    pub fn new(content: bool) -> Self {
        SpanAssembler {
            open: HashMap::new(),
            content,
        }
    }

    /// Handles an event; returns the span that it ends, if any.
    pub fn note(&mut self, event: &RuntimeEvent) -> Option<OtlpSpan> {
        match &event.kind {
            Kind::TurnStarted {
                event_id,
                event_type,
                ..
            } => {
                let open = self.begin(event)?;
                open.attributes
                    .set("goondan.event.id", event_id)
                    .set("goondan.event.type", event_type);
                None
            }
            Kind::StepStarted { .. } => self.begin(event).and(None),
            Kind::ToolCalled { arguments, .. } => {
                let shown_arguments = self.content.then(|| content(arguments)).flatten();
                self.begin(event)?
                    .attributes
                    .set_optional("gen_ai.tool.call.arguments", shown_arguments);
                None
            }
            Kind::ApprovalRequested { approval_id, .. } => {
                self.add_span_event(event, "goondan.approval.requested", approval_id, None)
            }
            Kind::ApprovalResolved {
                approval_id,
                answer,
                ..
            } => self.add_span_event(
                event,
                "goondan.approval.resolved",
                approval_id,
                Some(answer),
            ),
            Kind::ModelCompleted { call, .. } => Some(self.model_call(event, call, None)),
            Kind::ModelFailed {
                call,
                error_code,
                error_message,
                ..
            } => Some(self.model_call(
                event,
                call,
                Some((error_code.clone(), error_message.clone())),
            )),
            _ => self
                .span_end(event)
                .and_then(|ending| self.end(event, ending)),
        }
    }

    /// Opens the span of the event, or returns it if it is already open.
    fn begin(&mut self, event: &RuntimeEvent) -> Option<&mut OpenSpan> {
        if self.open.len() >= MAX_OPEN_SPANS {
            self.forget_the_oldest();
        }
        let open = || OpenSpan {
            began: event.timestamp,
            attributes: SpanAttributes::default(),
            events: Vec::new(),
            model: None,
        };
        // A resumed turn starts again, but keeps its first start time.
        Some(
            self.open
                .entry(event.trace.span_id.clone())
                .or_insert_with(open),
        )
    }

    /// Drops the older half of the open spans.
    fn forget_the_oldest(&mut self) {
        let mut times: Vec<_> = self.open.values().map(|open| open.began).collect();
        times.sort_unstable();
        let Some(middle) = times.get(times.len() / 2).copied() else {
            return;
        };
        self.open.retain(|_, open| open.began > middle);
    }

    /// Adds a span event to a tool call.
    fn add_span_event(
        &mut self,
        event: &RuntimeEvent,
        name: &str,
        approval: &str,
        answer: Option<&String>,
    ) -> Option<OtlpSpan> {
        let open = self.open.get_mut(&event.trace.span_id)?;
        let mut attributes = SpanAttributes::default();
        attributes
            .set("goondan.approval.id", approval)
            .set_optional("goondan.approval.answer", answer);
        open.events.push(SpanEvent {
            time_unix_nano: unix_nanos(event.timestamp),
            name: name.to_owned(),
            attributes: attributes.into_key_values(),
        });
        None
    }

    /// Returns the span of a model call, whose start and end are in one event.
    fn model_call(
        &mut self,
        event: &RuntimeEvent,
        call: &ShownModelCall,
        error: Option<(String, String)>,
    ) -> OtlpSpan {
        let provider = names::provider(&call.provider);
        let mut attributes = SpanAttributes::default();
        attributes.set("gen_ai.operation.name", "chat");
        attributes
            .set("gen_ai.provider.name", provider)
            .set("gen_ai.request.model", &call.model);
        attributes.set("gen_ai.request.stream", true);
        let seconds = |millis: u64| millis as f64 / 1_000.0;
        attributes.set_optional(
            "gen_ai.response.time_to_first_chunk",
            call.time_to_first_token.map(seconds),
        );
        let is_declined = error
            .as_ref()
            .is_some_and(|(code, _)| Code::find(code) == Some(Code::MODEL_DECLINED));
        let reason = match &call.finish_reason {
            _ if is_declined => Some("content_filter"),
            reason => reason.as_ref().map(names::finish_reason),
        };
        attributes.set_optional(
            "gen_ai.response.finish_reasons",
            reason.map(|reason| vec![reason]),
        );
        attributes.usage(call.token_usage, call.cost.as_ref());
        attributes.set("goondan.model.retries", call.retries);
        if let Some(content) = call.said.as_ref().filter(|_| self.content) {
            message_attributes::add_content(&mut attributes, content, reason);
        }
        self.set_turn_model(event, call, provider);
        let kind = if names::is_inside(&call.provider) {
            SpanKind::Internal
        } else {
            SpanKind::Client
        };
        let ending = SpanEnd {
            name: format!("chat {}", call.model),
            kind,
            duration: call.duration,
            attributes,
            error,
        };
        build_span(event, call.started_at, ending, Vec::new())
    }

    /// Sets the model of the parent span, from its first model call. For a model call of a step,
    /// the parent is the step.
    fn set_turn_model(&mut self, event: &RuntimeEvent, call: &ShownModelCall, provider: &str) {
        let Some(parent) = &event.trace.parent_span_id else {
            return;
        };
        let model = || (provider.to_owned(), call.model.clone());
        if let Some(open) = self.open.get_mut(parent) {
            open.model.get_or_insert_with(model);
        }
    }

    /// Returns the end of the span that `event` completes; `None` if it completes none.
    fn span_end(&self, event: &RuntimeEvent) -> Option<SpanEnd> {
        let mut attributes = SpanAttributes::default();
        let (name, duration, error) = match &event.kind {
            Kind::TurnCompleted {
                turn_id,
                step_count,
                duration,
                finish_reason,
                model_finish_reason,
                token_usage,
                cost,
            } => {
                turn(&mut attributes, turn_id, finish_reason_name(*finish_reason));
                let cut = model_finish_reason.as_ref().map(ModelFinishReason::as_str);
                attributes.set_optional("goondan.turn.model_finish_reason", cut);
                attributes
                    .usage(*token_usage, cost.as_ref())
                    .set("goondan.turn.steps", *step_count);
                (
                    format!("invoke_agent {}", event.agent_name),
                    *duration,
                    None,
                )
            }
            Kind::TurnFailed {
                turn_id,
                duration,
                error_message,
                error_code,
                token_usage,
                cost,
            } => {
                turn(
                    &mut attributes,
                    turn_id,
                    finish_reason_name(FinishReason::Error),
                );
                attributes.usage(*token_usage, cost.as_ref());
                let error = code_and_message(error_code.as_ref(), error_message);
                (
                    format!("invoke_agent {}", event.agent_name),
                    *duration,
                    Some(error),
                )
            }
            Kind::StepCompleted {
                step_index,
                tool_call_count,
                duration,
                ..
            } => {
                attributes
                    .set("goondan.step.index", *step_index)
                    .set("goondan.step.tool_calls", *tool_call_count as u64);
                (format!("step {step_index}"), *duration, None)
            }
            Kind::StepFailed {
                step_index,
                duration,
                error_message,
                error_code,
                ..
            } => {
                attributes.set("goondan.step.index", *step_index);
                (
                    format!("step {step_index}"),
                    *duration,
                    Some(code_and_message(error_code.as_ref(), error_message)),
                )
            }
            Kind::ToolCompleted {
                tool_call_id,
                tool_name,
                duration,
                shown,
                ..
            } => {
                tool(&mut attributes, tool_name, tool_call_id);
                self.result(&mut attributes, shown);
                let error = shown
                    .error
                    .as_ref()
                    .map(|ShownError { code, message }| (code.clone(), message.clone()));
                (format!("execute_tool {tool_name}"), *duration, error)
            }
            Kind::ToolFailed {
                tool_call_id,
                tool_name,
                duration,
                error_message,
                ..
            } => {
                tool(&mut attributes, tool_name, tool_call_id);
                (
                    format!("execute_tool {tool_name}"),
                    *duration,
                    Some(code_and_message(None, error_message)),
                )
            }
            _ => return None,
        };
        Some(SpanEnd {
            name,
            kind: SpanKind::Internal,
            duration,
            attributes,
            error,
        })
    }

    /// Adds the result of a tool call, if content is included.
    fn result(&self, attributes: &mut SpanAttributes, tool_result: &ShownResult) {
        if self.content {
            attributes.set_optional("gen_ai.tool.call.result", content(&tool_result.output));
        }
    }

    /// Closes the span of the event and returns it. Without a known start, the start is computed
    /// from the duration.
    fn end(&mut self, event: &RuntimeEvent, mut ending: SpanEnd) -> Option<OtlpSpan> {
        let open = self.open.remove(&event.trace.span_id);
        let began = open
            .as_ref()
            .map(|open| open.began)
            .unwrap_or_else(|| subtract_millis(event.timestamp, ending.duration));
        let mut events = Vec::new();
        if let Some(open) = open {
            ending.attributes.append(open.attributes);
            events = open.events;
            if let Some((provider, model)) = open.model {
                self.record_model(event, &mut ending, provider, model);
            }
        }
        Some(build_span(event, began, ending, events))
    }

    /// Records the model of an ended step or turn. The span of a turn gets the model of its first
    /// step: the end of the step stores it in the open turn, and the end of the turn adds it to the
    /// span.
    fn record_model(
        &mut self,
        event: &RuntimeEvent,
        ending: &mut SpanEnd,
        provider: String,
        model: String,
    ) {
        let is_step = matches!(
            event.kind,
            Kind::StepCompleted { .. } | Kind::StepFailed { .. }
        );
        if !is_step {
            ending
                .attributes
                .set("gen_ai.provider.name", provider)
                .set("gen_ai.request.model", model);
            return;
        }
        if let Some(turn_id) = &event.trace.parent_span_id
            && let Some(turn) = self.open.get_mut(turn_id)
            && turn.model.is_none()
        {
            turn.model = Some((provider, model));
        }
    }
}

/// Adds the attributes of an ended turn.
fn turn(attributes: &mut SpanAttributes, turn_id: &str, reason: &str) {
    attributes.set("gen_ai.operation.name", "invoke_agent");
    attributes
        .set("goondan.turn.id", turn_id)
        .set("goondan.turn.finish_reason", reason);
}

/// Adds the attributes of an ended tool call.
fn tool(attributes: &mut SpanAttributes, name: &str, call: &str) {
    attributes
        .set("gen_ai.operation.name", "execute_tool")
        .set("gen_ai.tool.type", "function");
    attributes
        .set("gen_ai.tool.name", name)
        .set("gen_ai.tool.call.id", call);
}

/// Returns the error code and message; `_OTHER` if the code is unknown.
fn code_and_message(code: Option<&String>, message: &str) -> (String, String) {
    (
        code.cloned().unwrap_or_else(|| "_OTHER".to_owned()),
        message.to_owned(),
    )
}

/// Returns the finish reason as an attribute value.
fn finish_reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::TextResponse => "text_response",
        FinishReason::MaxSteps => "max_steps",
        FinishReason::Error => "error",
        FinishReason::Cancelled => "cancelled",
    }
}

/// Formats a value as a JSON string, which the conventions require.
fn content(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

/// Returns the time `millis` milliseconds before `end`.
fn subtract_millis(end: DateTime<Utc>, millis: u64) -> DateTime<Utc> {
    let duration = i64::try_from(millis)
        .ok()
        .and_then(TimeDelta::try_milliseconds);
    duration
        .and_then(|duration| end.checked_sub_signed(duration))
        .unwrap_or(end)
}

/// Creates the span of a unit of work, which ends with `event`.
fn build_span(
    event: &RuntimeEvent,
    began: DateTime<Utc>,
    ending: SpanEnd,
    events: Vec<SpanEvent>,
) -> OtlpSpan {
    let SpanEnd {
        name,
        kind,
        mut attributes,
        error,
        ..
    } = ending;
    attributes.set("gen_ai.agent.name", &event.agent_name);
    attributes.set("gen_ai.conversation.id", event.instance().to_string());
    let status = error.map(|(code, message)| {
        attributes.set("error.type", code);
        SpanStatus {
            message,
            code: SpanStatus::ERROR_CODE,
        }
    });
    let (external_context, state) = event.trace.external_context();
    let caller = event
        .trace
        .caller
        .as_deref()
        .map(|caller| caller.traceparent.span_id());
    OtlpSpan {
        trace_id: decode_id(external_context.trace_id()),
        span_id: decode_id(external_context.span_id()),
        trace_state: state.unwrap_or_default().to_owned(),
        parent_span_id: event
            .trace
            .parent_span_id
            .as_deref()
            .or(caller)
            .map(decode_id)
            .unwrap_or_default(),
        name,
        kind: kind.into(),
        start_time_unix_nano: unix_nanos(began.min(event.timestamp)),
        end_time_unix_nano: unix_nanos(event.timestamp),
        attributes: attributes.into_key_values(),
        events,
        status,
        flags: if external_context.is_sampled() {
            SAMPLED_FLAG
        } else {
            0
        },
    }
}

/// Decodes a trace id or a span id from hexadecimal digits. Returns an empty list for an invalid
/// id.
fn decode_id(id: &str) -> Vec<u8> {
    decode_hex(id).unwrap_or_default()
}

/// Decodes bytes from hexadecimal digits. Returns `None` if the number of digits is odd or a
/// character is not a digit.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let mut bytes = Vec::new();
    for pair in text.as_bytes().chunks_exact(2) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
