//! Guard against a model that repeats a tool call and gets the same result each time.
//!
//! The count is not stored: a resumed turn replays its recorded steps and counts them again.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use goondan_core::event::TurnError;
use goondan_core::message::{Message, ToolCall};
use goondan_core::ports::tool::{HandlerError, ToolCallResult};
use goondan_spec::Code;
use goondan_spec::kinds::RepetitionPolicy;
use serde_json::Value;

use crate::tooling::dispatch;
use crate::tooling::registry::ToolCatalog;

/// Built-in tools whose purpose is to be called again and again.
const POLLING_TOOLS: [&str; 2] = ["wait__seconds", "runtime__process"];

/// Field of command results that differs between equal runs.
const DURATION_FIELD: &str = "durationMs";

/// Calls that the steps of a turn repeat without a new result.
#[derive(Clone, Default)]
pub(crate) struct RepetitionGuard {
    /// Number of repetitions by fingerprint of a call and its result.
    counts: HashMap<u64, u32>,
    /// Tool and number of its calls, once the turn must end.
    exceeded: Option<(String, u32)>,
}

impl RepetitionGuard {
    /// Counts the calls of a step. From the limit on, a repeated call gets a failed result that
    /// states the repetition.
    ///
    /// A step with a new call, a new result or an excluded tool starts the count again.
    pub(crate) fn check(
        &mut self,
        policy: &RepetitionPolicy,
        catalog: &ToolCatalog,
        message: &Message,
        results: &mut [ToolCallResult],
    ) {
        let is_polled = |call: &ToolCall| {
            let builtin = catalog
                .get(&call.tool_name)
                .and_then(|tool| tool.builtin.as_deref());
            policy.exclude.contains(&call.tool_name)
                || builtin.is_some_and(|name| POLLING_TOOLS.contains(&name))
        };
        if policy.limit == 0 || message.tool_calls().any(is_polled) {
            self.counts.clear();
            return;
        }
        let calls = message.tool_calls().zip(results.iter());
        let fingerprints: Vec<u64> = calls
            .map(|(call, result)| fingerprint(call, result))
            .collect();
        if fingerprints
            .iter()
            .any(|call| !self.counts.contains_key(call))
        {
            self.counts.clear();
        }
        // Equal calls in one answer count once: the model has not read a result in between.
        for fingerprint in fingerprints.iter().copied().collect::<HashSet<u64>>() {
            let count = self.counts.entry(fingerprint).or_default();
            *count = count.saturating_add(1);
        }
        let calls = message.tool_calls().zip(results);
        for ((call, result), fingerprint) in calls.zip(fingerprints) {
            let count = &self.counts[&fingerprint];
            if *count >= policy.limit {
                *result = dispatch::error_result(call, usize::MAX, repeated_error(call, *count));
            }
            if *count >= policy.limit.saturating_mul(2) {
                self.exceeded = Some((call.tool_name.clone(), *count));
            }
        }
    }

    /// Returns the error that ends the turn, if the model continued after the warning.
    pub(crate) fn check_exceeded(&self) -> Result<(), TurnError> {
        let Some((tool, count)) = &self.exceeded else {
            return Ok(());
        };
        let message = format!(
            "The model called `{tool}` {count} times in a row with the same arguments and got the \
            same result."
        );
        Err(
            TurnError::new(Code::TURN_REPETITION, message).suggest(format!(
                "Change the input or the prompt. If `{tool}` polls for a change, add it to \
            `policy.repetition.exclude` of the Swarm."
            )),
        )
    }
}

/// Returns the error for a call that was repeated `count` times.
fn repeated_error(call: &ToolCall, count: u32) -> HandlerError {
    HandlerError::new(format!(
        "{} returned the same result {count} times in a row for the same arguments",
        call.tool_name
    ))
    .code(Code::TURN_REPETITION)
    .suggest(
        "Use the result that you already have. Change the arguments, use another tool, or answer. \
        The turn ends if you repeat the call.",
    )
}

/// Identifies a call, its arguments and its result. Ids and durations do not count.
fn fingerprint(call: &ToolCall, result: &ToolCallResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.tool_name, &call.input, result.status).hash(&mut hasher);
    match &result.output {
        Some(Value::Object(fields)) => fields
            .iter()
            .filter(|(name, _)| *name != DURATION_FIELD)
            .for_each(|field| field.hash(&mut hasher)),
        output => output.hash(&mut hasher),
    }
    (&result.error, &result.attachments).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use goondan_core::JsonObject;
    use goondan_core::message::{MessageData, MessagePart, MessageRole, MessageSource};
    use goondan_core::ports::tool::ToolCallStatus;

    /// Runs a step whose calls are `tool=result` and returns the codes of failed results.
    fn step(guard: &mut RepetitionGuard, calls: &str) -> Vec<Option<String>> {
        let policy = RepetitionPolicy {
            limit: 2,
            exclude: ["poll".to_owned()].into(),
        };
        let mut parts = Vec::new();
        let mut results = Vec::new();
        for (index, text) in calls.split(' ').enumerate() {
            let (tool, output) = text.split_once('=').unwrap();
            let id = format!("c{index}");
            parts.push(MessagePart::ToolCall(ToolCall::new(&*id, tool, json!({}))));
            results.push(ToolCallResult {
                tool_call_id: id,
                tool_name: tool.to_owned(),
                status: ToolCallStatus::Ok,
                output: Some(
                    json!({"stdout": output, DURATION_FIELD: guard.counts.values().sum::<u32>()}),
                ),
                error: None,
                title: None,
                metadata: JsonObject::new(),
                attachments: Vec::new(),
            });
        }
        let message = Message {
            id: "m".to_owned(),
            data: MessageData {
                role: MessageRole::Assistant,
                content: parts,
            },
            metadata: JsonObject::new(),
            created_at: chrono::DateTime::UNIX_EPOCH,
            source: MessageSource::User,
        };
        guard.check(
            &policy,
            &ToolCatalog::new(Vec::new()),
            &message,
            &mut results,
        );
        results
            .into_iter()
            .map(|result| result.error.map(|error| error.code))
            .collect()
    }

    /// Returns the number of warnings of each step, with `!` where the turn ends.
    fn warnings_per_step(steps: &[&str]) -> String {
        let mut guard = RepetitionGuard::default();
        let outcomes = steps.iter().map(|calls| {
            let warned = step(&mut guard, calls).into_iter().flatten().count();
            let end = if guard.check_exceeded().is_err() {
                "!"
            } else {
                ""
            };
            format!("{warned}{end}")
        });
        outcomes.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_repeated_call_gets_warnings_and_then_ends_the_turn() {
        assert_eq!(warnings_per_step(&["a=1"; 4]), "0 1 1 1!");
        assert_eq!(warnings_per_step(&["a=1 b=1"; 4]), "0 2 2 2!");
    }

    #[test]
    fn a_new_call_or_result_resets_the_count() {
        assert_eq!(warnings_per_step(&["a=1", "a=2", "a=1", "a=2"]), "0 0 0 0");
        assert_eq!(warnings_per_step(&["a=1", "a=1 b=1", "a=1 b=2"]), "0 0 0");
    }

    #[test]
    fn an_excluded_tool_resets_the_count() {
        assert_eq!(warnings_per_step(&["poll=1"; 5]), "0 0 0 0 0");
        assert_eq!(
            warnings_per_step(&["a=1", "poll=1", "a=1", "a=1 poll=1"]),
            "0 0 0 0"
        );
    }

    #[test]
    fn equal_calls_in_one_answer_count_once() {
        assert_eq!(
            warnings_per_step(&["a=1 a=1 a=1 a=1 a=1", "a=1", "a=1", "a=1"]),
            "0 1 1 1!"
        );
    }
}
