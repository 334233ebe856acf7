//! Ids of conversations, spans, turns and messages.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::caller::{CallerTrace, TraceParent};

/// Id of a conversation of one agent: the unit that handles one event at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceId {
    /// Name of the Agent resource.
    pub agent: String,
    /// Key of the conversation, such as `main` or `telegram:12345`.
    pub instance_key: String,
}

impl InstanceId {
    /// Returns the id of the instance of `agent` with `instance_key`.
    pub fn new(agent: impl Into<String>, instance_key: impl Into<String>) -> Self {
        InstanceId {
            agent: agent.into(),
            instance_key: instance_key.into(),
        }
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.agent, self.instance_key)
    }
}

/// Position in a causal chain (rule A7). Ids are lower-case hex: 32 digits for a trace, 16 for a
/// span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceContext {
    /// Identical in the complete chain, from the first input on.
    pub trace_id: String,
    /// Id of this unit of work.
    pub span_id: String,
    /// Id of the unit that caused this unit; absent for an input from outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_span_id: Option<String>,
    /// Client that submitted the first input of the chain, if it has its own trace.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<Arc<CallerTrace>>,
}

impl TraceContext {
    /// Returns the root span of a unit that the span `parent_span_id` or an input from outside
    /// caused.
    ///
    /// Span ids are derived from `name`, not random, so a resumed turn has the same spans.
    pub fn root(trace_id: &str, parent_span_id: Option<&str>, name: &str) -> Self {
        TraceContext {
            trace_id: trace_id.to_owned(),
            span_id: span_id(&[trace_id, parent_span_id.unwrap_or_default(), name]),
            parent_span_id: parent_span_id.map(str::to_owned),
            caller: None,
        }
    }

    /// Returns this context with another caller.
    #[must_use]
    pub fn called_by(self, caller: Option<Arc<CallerTrace>>) -> Self {
        TraceContext { caller, ..self }
    }

    /// Returns a span inside this one.
    pub fn child(&self, name: &str) -> Self {
        TraceContext::root(&self.trace_id, Some(&self.span_id), name).called_by(self.caller.clone())
    }

    /// Returns another span of the unit that caused this one.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        let parent = self.parent_span_id.as_deref();
        TraceContext::root(&self.trace_id, parent, name).called_by(self.caller.clone())
    }

    /// Returns this span in the form for external systems, and the `tracestate`. Uses the trace of
    /// the caller, if there is one.
    pub fn external_context(&self) -> (TraceParent, Option<&str>) {
        let Some(caller) = self.caller.as_deref() else {
            return (TraceParent::of(&self.trace_id, &self.span_id, true), None);
        };
        let parent = &caller.traceparent;
        let own_context = TraceParent::of(parent.trace_id(), &self.span_id, parent.is_sampled());
        (own_context, caller.tracestate.as_deref())
    }
}

/// Returns the id of a span, identical in every version of the program. Ids must only be distinct
/// in a trace, and every step and call needs one. So this is FNV-1a with the finalizer of
/// MurmurHash3, not a cryptographic hash. The standard forbids the all-zero id.
fn span_id(parts: &[&str]) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut hash = BASIS;
    for part in parts {
        // No part contains this byte, so different parts never have the same bytes.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    format!("{:016x}", (hash ^ (hash >> 33)).max(1))
}

/// Formats bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// Returns an id that depends only on `parts`: 24 hex digits.
pub fn derived_id(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize()[..12])
}

/// Returns the id of a numbered message of a turn. A resumed turn uses the same ids.
pub fn message_id(turn_id: &str, number: u32) -> String {
    format!("{turn_id}-m{number}")
}

/// Returns the id of the turn in which a message is numbered.
pub fn turn_of_message(message_id: &str) -> Option<&str> {
    let (turn_id, number) = message_id.rsplit_once("-m")?;
    number.parse::<u32>().is_ok().then_some(turn_id)
}

/// Returns true if a turn appended the message. Messages of middleware can have other ids.
pub fn is_message_of(message_id: &str, turn_id: &str) -> bool {
    turn_of_message(message_id) == Some(turn_id)
}
