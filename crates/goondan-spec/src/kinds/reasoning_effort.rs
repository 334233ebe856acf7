//! `reasoningEffort` of a Model and of an Agent.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

/// The amount of reasoning before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// The least possible amount.
    Minimal,
    /// A small amount.
    Low,
    /// A medium amount.
    Medium,
    /// A large amount.
    High,
    /// More than `high`.
    XHigh,
    /// The greatest possible amount.
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

/// Reads the reasoning effort.
pub(super) fn read(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ReasoningEffort> {
    field.one_of(
        &ReasoningEffort::ALL.map(|effort| (effort.as_str(), effort)),
        findings,
    )
}
