//! `policy.repetition` of a Swarm.

use std::collections::BTreeSet;

use schemars::JsonSchema;

use crate::decode::{FieldReader, MapReader};
use crate::diagnostic_sink::DiagnosticSink;

/// Limits on tool calls that a turn repeats with the same arguments and the same result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepetitionPolicy {
    /// Number of equal calls in a row from which the model gets a warning instead of the result.
    /// The turn ends at twice the number. 0: no limit. Default: 4.
    pub limit: u32,
    /// Tools that may be repeated, such as `tracker__status`.
    pub exclude: BTreeSet<String>,
}

impl Default for RepetitionPolicy {
    fn default() -> Self {
        RepetitionPolicy {
            limit: 4,
            exclude: BTreeSet::new(),
        }
    }
}

/// Reads the limits on repeated tool calls.
pub(super) fn read(policy: &mut MapReader<'_>, findings: &mut DiagnosticSink) -> RepetitionPolicy {
    let mut repetition = RepetitionPolicy::default();
    let fields = policy
        .optional("repetition")
        .and_then(|field| field.fields(findings));
    let Some(mut fields) = fields else {
        return repetition;
    };
    if let Some(limit) = fields.optional("limit") {
        match limit.unsigned_as(0, findings) {
            // With 1, no call would have a result.
            Some(1) => findings.add(
                limit
                    .invalid_value(format!(
                        "`{}` must be 0 or at least 2, but is 1.",
                        limit.path
                    ))
                    .suggest("write `0` to turn this limit off"),
            ),
            number => repetition.limit = number.unwrap_or(repetition.limit),
        }
    }
    if let Some(tools) = fields.optional("exclude") {
        repetition.exclude = read_tool_names(&tools, findings);
    }
    fields.finish(findings);
    repetition
}

/// Reads a list of tool names, such as `tracker__status`; reports and skips invalid ones.
fn read_tool_names(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in field.unique_strings(findings).unwrap_or_default() {
        match item.node.text().filter(|name| name.contains("__")) {
            Some(name) => {
                names.insert(name.to_owned());
            }
            None => findings.add(
                item.invalid_value(format!("`{}` must be the name of a tool.", item.path))
                    .suggest("write the resource and the export, such as `tracker__status`"),
            ),
        }
    }
    names
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Repetition")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct RepetitionShape {
    /// The number of equal calls in a row from which the model gets a warning instead of the result.
    /// The turn ends with `E_TURN_REPETITION` at twice the number. 0 turns the guard off; 1 is not
    /// allowed.
    #[schemars(extend("default" = RepetitionPolicy::default().limit))]
    limit: Option<u32>,
    /// Tools, written `tool__export`, that may be repeated because they poll for a change.
    /// `wait__seconds` and `runtime__process` are always excluded.
    exclude: Option<Vec<String>>,
}
