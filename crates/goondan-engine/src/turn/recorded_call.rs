//! Records of model calls for people who inspect them, without secrets.

use std::time::Duration;

use chrono::{DateTime, Utc};
use goondan_core::limits::head;
use goondan_core::model_calls::{RecordedModelCall, RecordedRequest, RecordedResponse};
use goondan_core::ports::model::{ModelRequest, ToolDefinition};

use crate::engine::Engine;
use crate::policy::redact::SecretRedactor;
use crate::turn::model_call::{ModelAnswer, ModelCall, ModelCallError};
use crate::turn::prompt_excerpt::{MAX_EXCERPT_BYTES, newest_messages, redact_part};

/// Start, duration and retries of a finished call.
pub(crate) struct CallCourse {
    pub(crate) started_at: DateTime<Utc>,
    pub(crate) duration: Duration,
    pub(crate) retries: u32,
}

/// Adds a finished call to the log of this node, if the call has a recorder. Secrets are masked
/// first.
pub(crate) fn record(
    engine: &Engine,
    call: &ModelCall<'_>,
    course: &CallCourse,
    answer: &Result<ModelAnswer, ModelCallError>,
) {
    let Some(recorder) = &call.request.exchange else {
        return;
    };
    let redactor = &engine.redactor;
    let mut http = recorder.take();
    if let Some(http) = http.as_mut() {
        http.clean(redactor);
    }
    let (response, error) = match answer {
        Ok(answer) => (Some(response(redactor, answer)), None),
        Err(ModelCallError::Failed(error)) => {
            (None, Some(redactor.text(&error.message).into_owned()))
        }
        Err(ModelCallError::Cancelled) => (None, Some("The turn was cancelled.".to_owned())),
    };
    let instance = &call.request.instance;
    let recorded = RecordedModelCall {
        span_id: call.trace.span_id.clone(),
        trace_id: call.trace.trace_id.clone(),
        agent_name: instance.agent.clone(),
        instance_key: instance.instance_key.clone(),
        turn_id: call.turn_id.to_owned(),
        step_id: call.step_id.map(str::to_owned),
        provider: call.model.name.provider.clone(),
        model: call.model.name.model.clone(),
        started_at: course.started_at,
        duration_ms: u64::try_from(course.duration.as_millis()).unwrap_or(u64::MAX),
        retries: course.retries,
        request: request(redactor, &call.request),
        response,
        error,
        http,
    };
    let limit = engine.generation.load().policy.recorded_model_calls;
    engine.model_calls.add(recorded, limit);
}

/// Returns the request to record, without secrets. Only the newest messages are kept, up to the
/// limits of prompt excerpts.
fn request(redactor: &SecretRedactor, request: &ModelRequest) -> RecordedRequest {
    let messages = &request.messages;
    let kept_messages =
        newest_messages(messages.iter().rev().map(|message| &message.data), redactor);
    let mut params = (*request.params).clone();
    for stop in &mut params.stop {
        redactor.clean(stop);
    }
    RecordedRequest {
        system: request
            .system
            .as_ref()
            .map(|text| head(&redactor.text(text), MAX_EXCERPT_BYTES).to_owned()),
        left_out: messages.len() - kept_messages.len(),
        messages: kept_messages,
        tools: request
            .tools
            .iter()
            .map(|tool| redact_tool(redactor, tool))
            .collect(),
        params,
        output: request.output.as_deref().cloned().map(|mut schema| {
            redactor.clean_value(&mut schema);
            schema
        }),
    }
}

/// Returns a tool without secrets.
fn redact_tool(redactor: &SecretRedactor, tool: &ToolDefinition) -> ToolDefinition {
    let mut tool = tool.clone();
    redactor.clean(&mut tool.description);
    redactor.clean_value(&mut tool.parameters);
    tool
}

/// Returns the answer to record, without secrets.
fn response(redactor: &SecretRedactor, answer: &ModelAnswer) -> RecordedResponse {
    let mut parts = answer.parts.clone();
    for part in &mut parts {
        redact_part(redactor, part);
    }
    RecordedResponse {
        parts,
        finish_reason: answer.finish_reason.clone(),
        usage: answer.usage,
        cost: answer.cost.clone(),
    }
}
