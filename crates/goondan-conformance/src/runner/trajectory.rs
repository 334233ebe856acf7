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
    /// Agent whose tool call sent the request; `None` if it came from elsewhere.
    by: Option<String>,
}

/// Step id and call id of a tool call. A call id alone may occur in several steps.
type StepCallId<'a> = (&'a str, &'a str);

/// Returns all tool calls of models, in the order in which they began. Excludes the calls that the
/// test case makes directly, which belong to no turn.
pub(crate) fn model_tool_calls(
    events: &[RuntimeEvent],
    conversations: &Conversations,
) -> Vec<ModelToolCall> {
    let complete_arguments = arguments_by_call(conversations);
    let statuses = statuses_by_call(events);
    let turn_ids: BTreeSet<&str> = events
        .iter()
        .filter_map(|event| started_turn_id(&event.kind))
        .collect();
    let mut calls = Vec::new();
    for event in events {
        let Kind::ToolCalled {
            tool_call_id,
            tool_name,
            step_id,
            turn_id,
            arguments: event_arguments,
            ..
        } = &event.kind
        else {
            continue;
        };
        if !turn_ids.contains(turn_id.as_str()) {
            continue;
        }
        let id: StepCallId<'_> = (step_id, tool_call_id);
        let arguments = complete_arguments.get(&id).copied();
        calls.push(ModelToolCall {
            agent: event.agent_name.clone(),
            turn_id: turn_id.clone(),
            tool: tool_name.clone(),
            args: arguments.unwrap_or(event_arguments).clone(),
            status: statuses.get(&id).cloned(),
        });
    }
    calls
}

/// Returns the statuses of all completed tool calls.
fn statuses_by_call(events: &[RuntimeEvent]) -> BTreeMap<StepCallId<'_>, Value> {
    let mut statuses = BTreeMap::new();
    for event in events {
        if let Kind::ToolCompleted {
            tool_call_id,
            step_id,
            status,
            ..
        } = &event.kind
        {
            let id: StepCallId<'_> = (step_id, tool_call_id);
            statuses.insert(id, json!(status));
        }
    }
    statuses
}

/// Returns the turn id of a `turn.started` event; `None` for other events.
fn started_turn_id(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::TurnStarted { turn_id, .. } => Some(turn_id),
        _ => None,
    }
}

/// Returns the complete arguments of all calls in stored conversations. Events contain only
/// truncated arguments.
fn arguments_by_call(conversations: &Conversations) -> BTreeMap<StepCallId<'_>, &Value> {
    let mut arguments = BTreeMap::new();
    for message in conversations.values().flatten() {
        if let MessageSource::Assistant { step_id } = &message.source {
            for call in message.tool_calls() {
                let id: StepCallId<'_> = (step_id, &call.tool_call_id);
                arguments.insert(id, &call.input);
            }
        }
    }
    arguments
}

/// Returns a delegation for each turn with a parent span, in event order. Turns of user inputs have
/// no parent span.
fn find_delegations(events: &[RuntimeEvent]) -> Vec<AgentDelegation> {
    let callers: BTreeMap<&str, &str> = events
        .iter()
        .filter(|event| matches!(event.kind, Kind::ToolCalled { .. }))
        .map(|event| (event.trace.span_id.as_str(), event.agent_name.as_str()))
        .collect();
    let started_turns = events
        .iter()
        .filter(|event| started_turn_id(&event.kind).is_some());
    started_turns
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
pub(crate) fn check_name(index: usize) -> String {
    format!("expect.trajectory[{index}]")
}

/// Returns all failed checks.
pub(super) fn check_trajectory(
    expected: &[TrajectoryExpectation],
    evidence: &CaseEvidence<'_>,
) -> Vec<CheckFailure> {
    if expected.is_empty() {
        return Vec::new();
    }
    let calls = model_tool_calls(&evidence.events, &evidence.conversations);
    let delegations = find_delegations(&evidence.events);
    let check = |(index, expectation): (usize, &TrajectoryExpectation)| {
        let problem = failure_message(expectation, &calls, &delegations)?;
        Some(CheckFailure::new(check_name(index), problem))
    };
    expected.iter().enumerate().filter_map(check).collect()
}

/// Returns the failure of a check as a sentence.
fn failure_message(
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
            let count = calls.iter().filter(|call| pattern.matches(call)).count();
            let wrong = wrong_number("called", times.as_ref(), count)?;
            Some(format!(
                "{} was {wrong}; the calls were{}",
                pattern.words(),
                format_calls(&calls)
            ))
        }
        CallExpectation::InOrder(patterns) => {
            let mut rest = calls.iter();
            let missing_pattern = patterns
                .iter()
                .find(|pattern| !rest.any(|call| pattern.matches(call)))?;
            Some(format!(
                "there is no call of {} in this order; the calls were{}",
                missing_pattern.words(),
                format_calls(&calls)
            ))
        }
        CallExpectation::Only(tools) => {
            let unexpected_call = calls.iter().find(|call| !tools.contains(&call.tool))?;
            Some(format!(
                "{} was called, but is not one of {}",
                unexpected_call.tool,
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
    /// Returns true if the call has the expected tool, arguments and status.
    fn matches(&self, call: &ModelToolCall) -> bool {
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
fn format_calls(calls: &[&ModelToolCall]) -> String {
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
