//! Names of things that run.

use std::fmt;

use serde::{Deserialize, Serialize};

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
        InstanceId { agent: agent.into(), instance_key: instance_key.into() }
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
}
