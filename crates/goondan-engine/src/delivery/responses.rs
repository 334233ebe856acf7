//! Answers to requests between agents, as the caller receives them.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use goondan_spec::Code;
use serde_json::{Value, json};

use goondan_core::JsonObject;
use goondan_core::agent_event::{AgentEvent, EventTrace, RESPONSE_EVENT};
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::TraceContext;
use goondan_core::ports::model::ModelFinishReason;
use goondan_core::ports::tool::HandlerError;
use goondan_core::reserved_names::INTER_AGENT_RESPONSE_KEY;

/// Returns the answer to a request: a string, or data if the agent declares an output. Fails with
/// `AGENT_REQUEST_FAILED` if the turn failed (rule A2).
pub(crate) fn response_of(target: &str, result: &TurnResult) -> Result<Value, HandlerError> {
    if let Some(error) = &result.error
        && error.code == Code::AGENT_REQUEST_TIMEOUT
    {
        return Err(HandlerError::new(error.message.clone()).code(Code::AGENT_REQUEST_TIMEOUT));
    }
    let text = result.response_text();
    match result.finish_reason {
        FinishReason::TextResponse => {
            let text = || Value::String(with_cut_note(text, result.model_finish_reason.as_ref()));
            Ok(result.output.clone().unwrap_or_else(text))
        }
        FinishReason::MaxSteps if !text.is_empty() => Ok(Value::String(text)),
        FinishReason::MaxSteps => Err(failed_request_error(
            target,
            "it reached its step limit without an answer",
        )),
        FinishReason::Cancelled => Err(failed_request_error(target, "its turn was cancelled")),
        FinishReason::Error => {
            let message = result
                .error
                .as_ref()
                .map_or("its turn failed", |error| error.message.as_str());
            Err(failed_request_error(target, message))
        }
    }
}

/// Adds a note to an incomplete answer, so that the calling agent does not mistake it for a
/// complete answer.
fn with_cut_note(text: String, reason: Option<&ModelFinishReason>) -> String {
    match reason {
        Some(reason) => format!(
            "{text}\n\n[This answer is incomplete: it was cut off ({}).]",
            reason.as_str()
        ),
        None => text,
    }
}

/// Returns the error for a request that `target` did not answer.
fn failed_request_error(target: &str, why: &str) -> HandlerError {
    HandlerError::new(format!("agent {target} did not answer: {why}"))
        .code(Code::AGENT_REQUEST_FAILED)
        .suggest("Retry, ask another agent, or continue without the answer.")
}

/// Returns the message of a request that `target` did not answer in time.
pub(crate) fn timeout_message(target: &str, limit: Duration) -> String {
    format!(
        "agent {target} sent no answer and no progress for {} ms",
        limit.as_millis()
    )
}

/// Returns the id of the response to an event.
pub(crate) fn answer_id(event_id: &str) -> String {
    format!("{event_id}-answer")
}

/// Returns the event that delivers an asynchronous answer to its caller; `None` for any other
/// event.
pub(crate) fn answer(
    event: &AgentEvent,
    trace: &TraceContext,
    result: &TurnResult,
    now: DateTime<Utc>,
) -> Option<AgentEvent> {
    let reply_to = event.reply_to.as_ref().filter(|reply_to| reply_to.async_)?;
    let response = response_of(&event.target.agent, result);
    let mut content = json!({
        "type": "inter_agent_response",
        "requestId": reply_to.correlation_id,
        "fromAgentId": event.target.to_string(),
        "toAgentId": reply_to.caller.to_string(),
    });
    let mut metadata = json!({
        "kind": "inter_agent_response",
        "version": 1,
        "requestId": reply_to.correlation_id,
        "requestEventId": event.id,
        "responseEventId": answer_id(&event.id),
        "fromAgentId": event.target.to_string(),
        "toAgentId": reply_to.caller.to_string(),
        "async": true,
        "receivedAt": now.to_rfc3339_opts(SecondsFormat::Millis, true),
        "traceId": event.trace.trace_id,
        "requestEventType": event.event_type,
    });
    match response {
        Ok(response) => {
            metadata["status"] = json!("ok");
            content["status"] = json!("ok");
            content["response"] = response;
        }
        Err(error) => {
            metadata["status"] = json!("error");
            metadata["errorCode"] = json!(error.code);
            metadata["errorMessage"] = json!(error.message);
            content["status"] = json!("error");
            content["error"] = json!({"code": error.code, "message": error.message});
        }
    }
    Some(AgentEvent {
        id: answer_id(&event.id),
        event_type: RESPONSE_EVENT.to_owned(),
        created_at: now,
        target: reply_to.caller.clone(),
        input: content.to_string(),
        files: Vec::new(),
        history: Vec::new(),
        metadata: JsonObject::from_iter([(INTER_AGENT_RESPONSE_KEY.to_owned(), metadata)]),
        instructions: None,
        trace: EventTrace::from(trace),
        // The answer returns to the caller, so it has the call depth of the caller's turn.
        callers: event.callers[..event.callers.len().saturating_sub(1)].to_vec(),
        reply_to: None,
        terms: reply_to.terms.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::turn::instance::failed_result;
    use goondan_core::agent_event::{ReplyTo, TurnTerms};
    use goondan_core::tool_allowlist::ToolAllowlist;
    use goondan_store::suite::samples::{event, instance};

    #[test]
    fn an_answer_carries_the_terms_of_the_calling_turn() {
        let terms = TurnTerms {
            narrowing: Some(ToolAllowlist::of_exports(["fs__read"])),
            bound_by: BTreeSet::from(["careful".to_owned()]),
            ..TurnTerms::default()
        };
        let reply_to = ReplyTo {
            caller: instance("asks"),
            turn_id: "turn-1".to_owned(),
            correlation_id: "req-1".to_owned(),
            async_: true,
            timeout_ms: None,
            terms: terms.clone(),
        };
        let callers = vec![instance("above"), instance("asks")];
        let event = AgentEvent {
            reply_to: Some(reply_to),
            callers,
            ..event("evt-1", &instance("asked"))
        };
        let error = crate::turn::cancelled_error();
        let result = failed_result(event.turn_id(), error);
        let answer = answer(&event, &event.turn_trace(), &result, DateTime::UNIX_EPOCH).unwrap();
        assert_eq!(answer.terms, terms);
        assert_eq!(answer.callers, [instance("above")]);
    }
}
