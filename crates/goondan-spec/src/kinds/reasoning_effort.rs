//! `reasoningEffort` of a Model and of an Agent.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::Field;
use crate::findings::Findings;

/// How much a model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// A medium amount.
    Medium,
    /// Much.
    High,
    /// More than `high`.
    XHigh,
    /// As much as possible.
    Max,
}

impl ReasoningEffort {
    /// All efforts, the smallest first.
    pub const ALL: [ReasoningEffort; 7] = [
        ReasoningEffort::None,
        ReasoningEffort::Minimal,
        ReasoningEffort::Low,
        ReasoningEffort::Medium,
        ReasoningEffort::High,
        ReasoningEffort::XHigh,
        ReasoningEffort::Max,
    ];

    /// Returns the word in YAML, which most providers also use.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReasoningEffort::None => "none",
            ReasoningEffort::Minimal => "minimal",
            ReasoningEffort::Low => "low",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::High => "high",
            ReasoningEffort::XHigh => "xhigh",
            ReasoningEffort::Max => "max",
        }
    }
}

pub(super) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<ReasoningEffort> {
    field.one_of(
        &ReasoningEffort::ALL.map(|effort| (effort.as_str(), effort)),
        findings,
    )
}
