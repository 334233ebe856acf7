//! Check of the trajectory: tool calls and requests between agents.

use std::collections::{BTreeMap, BTreeSet};

use goondan::event::{RuntimeEvent, RuntimeEventKind as Kind};
use goondan::message::MessageSource;
use serde_json::{Value, json};

use super::evidence::{CaseEvidence, Conversations};
use crate::case::trajectory::{CallExpectation, CallPattern, TrajectoryExpectation};
use crate::matcher::ValueMatcher;
use crate::report::CheckFailure;

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelToolCall {
    /// Agent of the model.
    pub(crate) agent: String,
    /// Turn of the call.
    pub(crate) turn_id: String,
    /// Tool name, as `resource__export`.
    pub(crate) tool: String,
    /// Arguments, as the model wrote them.
    pub(crate) args: Value,
    /// `ok` or `error`; absent while the call runs.
    pub(crate) status: Option<Value>,
}

/// An agent that received a request or a message from another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AgentDelegation {
    agent: String,
    /// Agent that sent the request.
    by: Option<String>,
}

/// Returns all tool calls of models, in the order in which they began. Excludes direct calls of the
/// test case.
pub(crate) fn calls(events: &[RuntimeEvent], conversations: &Conversations) -> Vec<ModelToolCall> {
    let written = arguments(conversations);
    let turns: BTreeSet<&str> = events
        .iter()
        .filter_map(|event| started_turn_id(&event.kind))
        .collect();
    let statuses: BTreeMap<(&str, &str), Value> = events
        .iter()
        .filter_map(|event| match &event.kind {
            Kind::ToolCompleted {
                tool_call_id,
                step_id,
                status,
                ..
            } => Some(((step_id.as_str(), tool_call_id.as_str()), json!(status))),
            _ => None,
        })
        .collect();
    let call = |event: &RuntimeEvent| match &event.kind {
        Kind::ToolCalled {
            tool_call_id,
            tool_name,
            step_id,
            turn_id,
            arguments,
            ..
        } if turns.contains(turn_id.as_str()) => {
            let key = (step_id.as_str(), tool_call_id.as_str());
            Some(ModelToolCall {
                agent: event.agent_name.clone(),
                turn_id: turn_id.clone(),
                tool: tool_name.clone(),
                args: written.get(&key).copied().unwrap_or(arguments).clone(),
                status: statuses.get(&key).cloned(),
            })
        }
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

/// Returns the turn id of a `turn.started` event; `None` for other events.
fn started_turn_id(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::TurnStarted { turn_id, .. } => Some(turn_id),
        _ => None,
    }
}

/// Returns the complete arguments of all calls, by step and call id. Events contain only truncated
/// arguments.
fn arguments(conversations: &Conversations) -> BTreeMap<(&str, &str), &Value> {
    let messages = conversations.values().flatten();
    let of_steps = messages.filter_map(|message| match &message.source {
        MessageSource::Assistant { step_id } => Some((step_id.as_str(), message)),
        _ => None,
    });
    of_steps
        .flat_map(|(step, message)| {
            message
                .tool_calls()
                .map(move |call| ((step, &*call.tool_call_id), &call.input))
        })
        .collect()
}

/// Returns the turns that calls caused.
fn delegations(events: &[RuntimeEvent]) -> Vec<AgentDelegation> {
    let callers: BTreeMap<&str, &str> = events
        .iter()
        .filter(|event| matches!(event.kind, Kind::ToolCalled { .. }))
        .map(|event| (event.trace.span_id.as_str(), event.agent_name.as_str()))
        .collect();
    let caused = events
        .iter()
        .filter(|event| started_turn_id(&event.kind).is_some());
    caused
        .filter_map(|event| {
            let by = callers
                .get(event.trace.parent_span_id.as_deref()?)
                .map(|agent| (*agent).to_owned());
            Some(AgentDelegation {
                agent: event.agent_name.clone(),
                by,
            })
        })
        .collect()
}

/// Returns the name of a check in reports.
pub(crate) fn place(index: usize) -> String {
    format!("expect.trajectory[{index}]")
}

/// Returns all failed checks.
pub(super) fn judge(
    expected: &[TrajectoryExpectation],
    evidence: &CaseEvidence<'_>,
) -> Vec<CheckFailure> {
    if expected.is_empty() {
        return Vec::new();
    }
    let (calls, delegations) = (
        calls(&evidence.events, &evidence.conversations),
        delegations(&evidence.events),
    );
    let check = |(index, expectation): (usize, &TrajectoryExpectation)| {
        let problem = problem(expectation, &calls, &delegations)?;
        Some(CheckFailure::new(place(index), problem))
    };
    expected.iter().enumerate().filter_map(check).collect()
}

/// Returns the failure of a check as a sentence.
fn problem(
    expectation: &TrajectoryExpectation,
    calls: &[ModelToolCall],
    asked: &[AgentDelegation],
) -> Option<String> {
    let is_of = |agent: &str| {
        expectation
            .agent
            .as_deref()
            .is_none_or(|wanted| wanted == agent)
    };
    let calls: Vec<&ModelToolCall> = calls.iter().filter(|call| is_of(&call.agent)).collect();
    match &expectation.expected {
        CallExpectation::Called(pattern, times) => {
            let count = calls.iter().filter(|call| pattern.fits(call)).count();
            let wrong = wrong_number("called", times.as_ref(), count)?;
            Some(format!(
                "{} was {wrong}; the calls were{}",
                pattern.words(),
                listing(&calls)
            ))
        }
        CallExpectation::InOrder(patterns) => {
            let mut rest = calls.iter();
            let missing = patterns
                .iter()
                .find(|pattern| !rest.any(|call| pattern.fits(call)))?;
            Some(format!(
                "there is no call of {} in this order; the calls were{}",
                missing.words(),
                listing(&calls)
            ))
        }
        CallExpectation::Only(tools) => {
            let other = calls.iter().find(|call| !tools.contains(&call.tool))?;
            Some(format!(
                "{} was called, but is not one of {}",
                other.tool,
                tools.join(", ")
            ))
        }
        CallExpectation::Asked(agent, times) => {
            let by = |asked: &&AgentDelegation| {
                asked
                    .by
                    .as_deref()
                    .map_or(expectation.agent.is_none(), is_of)
            };
            let count = asked
                .iter()
                .filter(|asked| asked.agent == *agent)
                .filter(by)
                .count();
            let wrong = wrong_number("asked", times.as_ref(), count)?;
            let names: Vec<&str> = asked.iter().map(|asked| asked.agent.as_str()).collect();
            let names = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            Some(format!(
                "{agent} was {wrong}; the requested agents were: {names}"
            ))
        }
    }
}

/// Returns the message for a wrong number of occurrences, such as `never called (expected once)`.
fn wrong_number(done: &str, times: Option<&ValueMatcher>, count: usize) -> Option<String> {
    let actual_count = match count {
        0 => format!("never {done}"),
        count => format!("{done} {}", times_in_words(count as u64)),
    };
    match times {
        None => (count == 0).then_some(actual_count),
        Some(times) if times.matches(Some(&json!(count))) => None,
        Some(times) => {
            let expected = times.to_value();
            let expected = expected
                .as_u64()
                .map_or_else(|| expected.to_string(), times_in_words);
            Some(format!("{actual_count} (expected {expected})"))
        }
    }
}

/// Formats a count: "never", "once" or "3 times".
fn times_in_words(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

impl CallPattern {
    /// Returns whether the call has the expected tool, arguments and status.
    fn fits(&self, call: &ModelToolCall) -> bool {
        self.tool == call.tool
            && self
                .args
                .as_ref()
                .is_none_or(|args| args.matches(Some(&call.args)))
            && self
                .status
                .as_ref()
                .is_none_or(|status| status.matches(call.status.as_ref()))
    }

    /// Describes the expected call for messages.
    fn words(&self) -> String {
        let args = self
            .args
            .as_ref()
            .map(|args| format!(" with {}", args.to_value()))
            .unwrap_or_default();
        let status = self
            .status
            .as_ref()
            .map(|status| format!(" (status {})", status.to_value()))
            .unwrap_or_default();
        format!("{}{args}{status}", self.tool)
    }
}

/// Maximum length in characters of arguments in a message.
const MAX_ARGUMENT_CHARS: usize = 200;

/// Lists calls for messages, with shortened arguments.
fn listing(calls: &[&ModelToolCall]) -> String {
    if calls.is_empty() {
        return ": none".to_owned();
    }
    let line = |call: &&ModelToolCall| {
        let args: String = call
            .args
            .to_string()
            .chars()
            .take(MAX_ARGUMENT_CHARS)
            .collect();
        format!("\n  {} {args}", call.tool)
    };
    calls.iter().map(line).collect()
}
