//! Names of things that run.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::caller::{Caller, TraceParent};

/// A conversation of one agent: the unit that handles one event at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceId {
    /// The Agent resource's name.
    pub agent: String,
    /// The conversation's key, such as `main` or `telegram:12345`.
    pub instance_key: String,
}

impl InstanceId {
    /// The instance of `agent` under `instance_key`.
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

/// Where in a causal chain something happens (rule A7). Ids are lower-case hex: 32 digits for a trace, 16 for a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceContext {
    /// The same from the first input through every hop.
    pub trace_id: String,
    /// This unit of work.
    pub span_id: String,
    /// The unit that caused it; absent for an input from outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_span_id: Option<String>,
    /// Who handed in the input at the head of the chain, where that has a trace of its own.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<Arc<Caller>>,
}

impl TraceContext {
    /// The root span of a unit that `parent` caused, or that an input from outside caused.
    ///
    /// Span ids are derived from `name`, not drawn: a resumed turn has the spans it had before.
    pub fn root(trace_id: &str, parent_span_id: Option<&str>, name: &str) -> Self {
        TraceContext {
            trace_id: trace_id.to_owned(),
            span_id: span_id(&[trace_id, parent_span_id.unwrap_or_default(), name]),
            parent_span_id: parent_span_id.map(str::to_owned),
            caller: None,
        }
    }

    /// The same in a chain with that caller.
    #[must_use]
    pub fn called_by(self, caller: Option<Arc<Caller>>) -> Self {
        TraceContext { caller, ..self }
    }

    /// A span inside this one.
    pub fn child(&self, name: &str) -> Self {
        TraceContext::root(&self.trace_id, Some(&self.span_id), name).called_by(self.caller.clone())
    }

    /// Another span of the unit that caused this one.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        let parent = self.parent_span_id.as_deref();
        TraceContext::root(&self.trace_id, parent, name).called_by(self.caller.clone())
    }

    /// This span as receivers know it, and what goes along with it: in the trace of the caller, where there is one.
    pub fn seen_outside(&self) -> (TraceParent, Option<&str>) {
        let Some(caller) = self.caller.as_deref() else {
            return (TraceParent::of(&self.trace_id, &self.span_id, true), None);
        };
        let parent = &caller.traceparent;
        let own = TraceParent::of(parent.trace_id(), &self.span_id, parent.is_sampled());
        (own, caller.tracestate.as_deref())
    }
}

/// The id of a span: the same in every version of the program. It tells the spans of one trace apart, and every step and call
/// makes one, so it is FNV-1a with the finish of MurmurHash3 and no cryptography. Of all zeros the standard says that it is no id.
fn span_id(parts: &[&str]) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut hash = BASIS;
    for part in parts {
        // No part ends with this byte, so parts can't run into each other.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    format!("{:016x}", (hash ^ (hash >> 33)).max(1))
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// An id that is the same whenever it is derived from the same parts: 24 hex digits.
pub fn derived_id(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize()[..12])
}

/// The messages of a turn are numbered: a resumed turn gives them the same ids.
pub fn message_id(turn_id: &str, number: u32) -> String {
    format!("{turn_id}-m{number}")
}

/// The turn that a message is numbered in.
pub fn turn_of_message(message_id: &str) -> Option<&str> {
    let (turn_id, number) = message_id.rsplit_once("-m")?;
    number.parse::<u32>().is_ok().then_some(turn_id)
}

/// Whether a message was appended by a turn. Messages of middleware may have other ids.
pub fn is_message_of(message_id: &str, turn_id: &str) -> bool {
    turn_of_message(message_id) == Some(turn_id)
}
