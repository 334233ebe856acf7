//! Events as lines for people: the time, the conversation, the type, and the details.

use chrono::Local;
use goondan::event::{FinishReason, RuntimeEvent, RuntimeEventKind, ShownModelCall, ShownResult};
use goondan::internal::untrusted_text;
use goondan::notices::retry_notice;
use goondan::ports::model::TokenUsage;

use crate::output::{counted, duration, shorten, style};

pub(super) fn event_line(event: &RuntimeEvent, kind: &str) -> String {
    let color = if kind.ends_with(".failed") {
        style::ERROR
    } else {
        style::NAME
    };
    let faint = style::FAINT;
    let time = event
        .timestamp
        .with_timezone(&Local)
        .format("%Y-%m-%d %H:%M:%S");
    let line = format!(
        "{faint}{time}{faint:#} {} {color}{kind}{color:#} {}",
        untrusted_text::line(event.instance()),
        untrusted_text::line(details(&event.kind)),
    );
    line.trim_end().to_owned()
}

/// Describes an event in a few words.
fn details(kind: &RuntimeEventKind) -> String {
    match kind {
        RuntimeEventKind::TurnStarted { event_type, .. } => event_type.clone(),
        RuntimeEventKind::InputJoined { event_id, .. } => event_id.clone(),
        RuntimeEventKind::TurnCompleted {
            step_count,
            duration: millis,
            finish_reason,
            token_usage,
            ..
        } => {
            let reason = match finish_reason {
                FinishReason::TextResponse => None,
                FinishReason::MaxSteps => Some("reached the step limit".to_owned()),
                FinishReason::Error => Some("failed".to_owned()),
                FinishReason::Cancelled => Some("cancelled".to_owned()),
            };
            join_parts([
                Some(duration(*millis)),
                Some(counted(*step_count as usize, "step")),
                tokens(token_usage.as_ref()),
                reason,
            ])
        }
        RuntimeEventKind::TurnFailed {
            duration: millis,
            error_message,
            error_code,
            ..
        } => failure_text(*millis, error_code.as_deref(), error_message),
        RuntimeEventKind::StepStarted { step_index, .. } => {
            format!("step {}", step_index.saturating_add(1))
        }
        RuntimeEventKind::StepCompleted {
            step_index,
            tool_call_count,
            duration: millis,
            ..
        } => join_parts([
            Some(format!("step {}", step_index.saturating_add(1))),
            Some(duration(*millis)),
            (*tool_call_count > 0).then(|| counted(*tool_call_count, "call")),
        ]),
        RuntimeEventKind::StepFailed {
            duration: millis,
            error_message,
            error_code,
            ..
        } => failure_text(*millis, error_code.as_deref(), error_message),
        RuntimeEventKind::ModelWaiting {
            provider,
            model,
            wait,
            limit,
            ..
        } => format!(
            "{provider} {model}, {} for the limit {limit}",
            duration(*wait)
        ),
        RuntimeEventKind::ModelRetrying { .. } => retry_notice(kind).unwrap_or_default(),
        RuntimeEventKind::ModelCompleted { call, .. } => model_call(call),
        RuntimeEventKind::ModelFailed {
            call,
            error_message,
            error_code,
            ..
        } => format!("{}: [{error_code}] {error_message}", model_call(call)),
        RuntimeEventKind::ToolCalled { tool_name, .. } => tool_name.clone(),
        RuntimeEventKind::ToolCompleted {
            tool_name,
            duration: millis,
            shown,
            ..
        } => join_parts([
            Some(tool_name.clone()),
            Some(duration(*millis)),
            result(shown),
        ]),
        RuntimeEventKind::ToolFailed {
            tool_name,
            duration: millis,
            error_message,
            ..
        } => format!(
            "{tool_name}, {}",
            failure_text(*millis, None, error_message)
        ),
        RuntimeEventKind::ToolProgress {
            tool_name, title, ..
        } => format!("{tool_name}: {title}"),
        RuntimeEventKind::AgentSpawned {
            target,
            target_instance_key,
            ..
        } => format!("{target}:{target_instance_key}"),
        RuntimeEventKind::ReloadCompleted {
            generation,
            duration: millis,
            ..
        } => format!("generation {generation}, {}", duration(*millis)),
        RuntimeEventKind::ReloadFailed {
            diagnostics,
            messages,
            ..
        } => join_parts([
            Some(counted(*diagnostics, "error")),
            messages.first().cloned(),
        ]),
        RuntimeEventKind::ApprovalRequested { tool_name, .. } => tool_name.clone(),
        RuntimeEventKind::ApprovalResolved {
            tool_name, answer, ..
        } => format!("{tool_name}: {answer}"),
        RuntimeEventKind::ApprovalRemembered { grants, .. } => grants.join(", "),
    }
}

/// Describes a model call.
fn model_call(call: &ShownModelCall) -> String {
    let cost = call
        .cost
        .as_ref()
        .map(|cost| format!("{:.4} {}", cost.amount, cost.currency));
    join_parts([
        Some(format!("{} {}", call.provider, call.model)),
        Some(duration(call.duration)),
        tokens(call.token_usage.as_ref()),
        cost,
        (call.retries > 0).then(|| format!("retried {}", call.retries)),
    ])
}

/// Describes a result by its title or its first line.
fn result(shown: &ShownResult) -> Option<String> {
    if let Some(error) = &shown.error {
        return Some(format!("[{}] {}", error.code, error.message));
    }
    let first_line = || shown.output.as_str()?.lines().next().map(str::to_owned);
    shown
        .title
        .clone()
        .or_else(first_line)
        .map(|text| shorten(&text))
}

fn failure_text(millis: u64, code: Option<&str>, message: &str) -> String {
    let code = code.map_or_else(String::new, |code| format!("[{code}] "));
    format!("{}: {code}{message}", duration(millis))
}

fn tokens(usage: Option<&TokenUsage>) -> Option<String> {
    usage.map(|usage| {
        counted(
            usize::try_from(usage.total_tokens).unwrap_or(usize::MAX),
            "token",
        )
    })
}

fn join_parts<const COUNT: usize>(parts: [Option<String>; COUNT]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_line_has_the_details_and_the_duration() {
        let event =
            |fields: serde_json::Value| serde_json::from_value::<RuntimeEventKind>(fields).unwrap();
        for (fields, expected) in [
            (
                json!({"type": "turn.completed", "turnId": "t", "stepCount": 1, "duration": 1234, "finishReason": "max_steps"}),
                "1.2 s, 1 step, reached the step limit",
            ),
            (
                json!({"type": "tool.failed", "toolCallId": "c", "toolName": "bash__exec", "stepId": "s", "turnId": "t", "duration": 3, "errorMessage": "no way"}),
                "bash__exec, 3 ms: no way",
            ),
            (
                json!({"type": "approval.requested", "approvalId": "a", "toolCallId": "c", "toolName": "fs__write"}),
                "fs__write",
            ),
        ] {
            assert_eq!(details(&event(fields)), expected);
        }
    }
}
