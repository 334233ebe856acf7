//! Spans of runtime events.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use goondan_core::event::{
    FinishReason, RuntimeEvent, RuntimeEventKind as Kind, ShownError, ShownModelCall, ShownResult,
};
use goondan_core::ports::model::ModelFinishReason;
use goondan_spec::Code;
use serde_json::Value;

use crate::attributes::{Attributes, nanos};
use crate::names;
use crate::otlp::{Span, SpanEvent, SpanKind, Status};
use crate::said;

/// So many spans are open at a time. Of a turn that never ends (its process died), what began is forgotten then.
const MOST_OPEN: usize = 20_000;

/// The flag of a trace that its caller sends, too.
const SAMPLED: u32 = 1;

/// Makes spans of the events that begin and end something.
#[derive(Debug, Default)]
pub struct Assembler {
    /// What has begun, by the id of its span.
    open: HashMap<String, Open>,
    /// Whether what models and tools say goes along.
    content: bool,
}

/// What is known of a span before it ends.
#[derive(Debug)]
struct Open {
    began: DateTime<Utc>,
    /// What came to be known meanwhile.
    attributes: Attributes,
    events: Vec<SpanEvent>,
    /// Of a turn: the model that it asked first.
    model: Option<(String, String)>,
}

/// How something ended.
struct Ending {
    name: String,
    kind: SpanKind,
    /// Its length, where its beginning was not seen.
    duration: u64,
    attributes: Attributes,
    /// The code and the message of a failure.
    error: Option<(String, String)>,
}

impl Assembler {
    /// Knows of nothing yet. With `content`, arguments and results go into the spans of tool calls, and what is said into those of
    /// questions to models.
    pub fn new(content: bool) -> Self {
        Assembler {
            open: HashMap::new(),
            content,
        }
    }

    /// Takes note of an event; a span, where it ends one.
    pub fn note(&mut self, event: &RuntimeEvent) -> Option<Span> {
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
                let shown = self.content.then(|| content(arguments)).flatten();
                self.begin(event)?
                    .attributes
                    .maybe("gen_ai.tool.call.arguments", shown);
                None
            }
            Kind::ApprovalRequested { approval_id, .. } => {
                self.moment(event, "goondan.approval.requested", approval_id, None)
            }
            Kind::ApprovalResolved {
                approval_id,
                answer,
                ..
            } => self.moment(
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
                .ending(event)
                .and_then(|ending| self.end(event, ending)),
        }
    }

    fn begin(&mut self, event: &RuntimeEvent) -> Option<&mut Open> {
        if self.open.len() >= MOST_OPEN {
            self.forget_the_oldest();
        }
        let open = || Open {
            began: event.timestamp,
            attributes: Attributes::default(),
            events: Vec::new(),
            model: None,
        };
        // A turn that is resumed starts again: it began when it began.
        Some(
            self.open
                .entry(event.trace.span_id.clone())
                .or_insert_with(open),
        )
    }

    fn forget_the_oldest(&mut self) {
        let mut times: Vec<_> = self.open.values().map(|open| open.began).collect();
        times.sort_unstable();
        let Some(middle) = times.get(times.len() / 2).copied() else {
            return;
        };
        self.open.retain(|_, open| open.began > middle);
    }

    /// Something that happened in a tool call.
    fn moment(
        &mut self,
        event: &RuntimeEvent,
        name: &str,
        approval: &str,
        answer: Option<&String>,
    ) -> Option<Span> {
        let open = self.open.get_mut(&event.trace.span_id)?;
        let mut attributes = Attributes::default();
        attributes
            .set("goondan.approval.id", approval)
            .maybe("goondan.approval.answer", answer);
        open.events.push(SpanEvent {
            time_unix_nano: nanos(event.timestamp),
            name: name.to_owned(),
            attributes: attributes.done(),
        });
        None
    }

    fn model_call(
        &mut self,
        event: &RuntimeEvent,
        call: &ShownModelCall,
        error: Option<(String, String)>,
    ) -> Span {
        let provider = names::provider(&call.provider);
        let mut attributes = Attributes::default();
        attributes.set("gen_ai.operation.name", "chat");
        attributes
            .set("gen_ai.provider.name", provider)
            .set("gen_ai.request.model", &call.model);
        attributes.set("gen_ai.request.stream", true);
        let seconds = |millis: u64| millis as f64 / 1_000.0;
        attributes.maybe(
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
        attributes.maybe(
            "gen_ai.response.finish_reasons",
            reason.map(|reason| vec![reason]),
        );
        attributes.usage(call.token_usage, call.cost.as_ref());
        attributes.set("goondan.model.retries", call.retries);
        if let Some(words) = call.said.as_ref().filter(|_| self.content) {
            said::tell(&mut attributes, words, reason);
        }
        self.tell_turn(event, call, provider);
        let kind = if names::is_inside(&call.provider) {
            SpanKind::Internal
        } else {
            SpanKind::Client
        };
        let ending = Ending {
            name: format!("chat {}", call.model),
            kind,
            duration: call.duration,
            attributes,
            error,
        };
        span(event, call.started_at, ending, Vec::new())
    }

    /// A turn takes the name of the model from its first question. A question of a step is two below its turn.
    fn tell_turn(&mut self, event: &RuntimeEvent, call: &ShownModelCall, provider: &str) {
        let Some(parent) = &event.trace.parent_span_id else {
            return;
        };
        let model = || (provider.to_owned(), call.model.clone());
        if let Some(open) = self.open.get_mut(parent) {
            open.model.get_or_insert_with(model);
        }
    }

    /// How what `event` ends has ended; `None` for an event that ends nothing.
    fn ending(&self, event: &RuntimeEvent) -> Option<Ending> {
        let mut attributes = Attributes::default();
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
                turn(&mut attributes, turn_id, reason(*finish_reason));
                let cut = model_finish_reason.as_ref().map(ModelFinishReason::as_str);
                attributes.maybe("goondan.turn.model_finish_reason", cut);
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
                turn(&mut attributes, turn_id, reason(FinishReason::Error));
                attributes.usage(*token_usage, cost.as_ref());
                let error = failure(error_code.as_ref(), error_message);
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
                    Some(failure(error_code.as_ref(), error_message)),
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
                    Some(failure(None, error_message)),
                )
            }
            _ => return None,
        };
        Some(Ending {
            name,
            kind: SpanKind::Internal,
            duration,
            attributes,
            error,
        })
    }

    fn result(&self, attributes: &mut Attributes, shown: &ShownResult) {
        if self.content {
            attributes.maybe("gen_ai.tool.call.result", content(&shown.output));
        }
    }

    fn end(&mut self, event: &RuntimeEvent, mut ending: Ending) -> Option<Span> {
        let open = self.open.remove(&event.trace.span_id);
        let began = open
            .as_ref()
            .map(|open| open.began)
            .unwrap_or_else(|| before(event.timestamp, ending.duration));
        let mut events = Vec::new();
        if let Some(open) = open {
            ending.attributes.append(open.attributes);
            events = open.events;
            if let Some((provider, model)) = open.model {
                self.pass_up(event, &mut ending, provider, model);
            }
        }
        Some(span(event, began, ending, events))
    }

    /// What a step knows of its model, its turn learns; what a turn knows, its span says.
    fn pass_up(
        &mut self,
        event: &RuntimeEvent,
        ending: &mut Ending,
        provider: String,
        model: String,
    ) {
        if matches!(
            event.kind,
            Kind::StepCompleted { .. } | Kind::StepFailed { .. }
        ) {
            let turn = event
                .trace
                .parent_span_id
                .as_ref()
                .and_then(|parent| self.open.get_mut(parent));
            if let Some(turn) = turn {
                turn.model.get_or_insert((provider, model));
            }
            return;
        }
        ending
            .attributes
            .set("gen_ai.provider.name", provider)
            .set("gen_ai.request.model", model);
    }
}

fn turn(attributes: &mut Attributes, turn_id: &str, reason: &str) {
    attributes.set("gen_ai.operation.name", "invoke_agent");
    attributes
        .set("goondan.turn.id", turn_id)
        .set("goondan.turn.finish_reason", reason);
}

fn tool(attributes: &mut Attributes, name: &str, call: &str) {
    attributes
        .set("gen_ai.operation.name", "execute_tool")
        .set("gen_ai.tool.type", "function");
    attributes
        .set("gen_ai.tool.name", name)
        .set("gen_ai.tool.call.id", call);
}

fn failure(code: Option<&String>, message: &str) -> (String, String) {
    (
        code.cloned().unwrap_or_else(|| "_OTHER".to_owned()),
        message.to_owned(),
    )
}

fn reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::TextResponse => "text_response",
        FinishReason::MaxSteps => "max_steps",
        FinishReason::Error => "error",
        FinishReason::Cancelled => "cancelled",
    }
}

/// A value as the conventions want it: as text that holds JSON.
fn content(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

fn before(end: DateTime<Utc>, millis: u64) -> DateTime<Utc> {
    let duration = i64::try_from(millis)
        .ok()
        .and_then(TimeDelta::try_milliseconds);
    duration
        .and_then(|duration| end.checked_sub_signed(duration))
        .unwrap_or(end)
}

fn span(
    event: &RuntimeEvent,
    began: DateTime<Utc>,
    ending: Ending,
    events: Vec<SpanEvent>,
) -> Span {
    let Ending {
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
        Status {
            message,
            code: Status::ERROR,
        }
    });
    let (seen, state) = event.trace.seen_outside();
    let caller = event
        .trace
        .caller
        .as_deref()
        .map(|caller| caller.traceparent.span_id());
    Span {
        trace_id: bytes(seen.trace_id()),
        span_id: bytes(seen.span_id()),
        trace_state: state.unwrap_or_default().to_owned(),
        parent_span_id: event
            .trace
            .parent_span_id
            .as_deref()
            .or(caller)
            .map(bytes)
            .unwrap_or_default(),
        name,
        kind: kind.into(),
        start_time_unix_nano: nanos(began.min(event.timestamp)),
        end_time_unix_nano: nanos(event.timestamp),
        attributes: attributes.done(),
        events,
        status,
        flags: if seen.is_sampled() { SAMPLED } else { 0 },
    }
}

/// The bytes of an id in hex; none of what is no hex.
fn bytes(id: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> = id
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| digit.try_into().ok()))
        .collect();
    let digits = digits
        .filter(|digits| digits.len() % 2 == 0)
        .unwrap_or_default();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

#[cfg(test)]
mod tests;
