//! Tool results that a test case states in place of real calls.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::matcher::ValueMatcher;

/// Mocked result of a tool call. The handler does not run, but arguments and permissions are
/// checked.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MockedResult {
    /// Id of the call to answer. Default: any call. Ignored with `--live`, because the provider
    /// generates the ids.
    pub call: Option<String>,
    /// Matcher for the arguments. Default: any arguments.
    pub args: Option<ValueMatcher>,
    /// Output of the tool.
    #[serde(default, deserialize_with = "some_value")]
    pub output: Option<Value>,
    /// Error of the tool.
    pub error: Option<MockedError>,
}

/// Error of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MockedError {
    /// Message for the model.
    pub message: String,
    /// Stable error code. Default: `E_TOOL`.
    pub code: Option<String>,
    /// Error type.
    pub name: Option<String>,
    /// Suggested fix.
    pub suggestion: Option<String>,
    /// Link to the documentation of the error.
    pub help_url: Option<String>,
}

/// Distinguishes an explicit `null` from an absent value.
fn some_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Returns the errors that the types do not exclude: names that models do not use, and results
/// without exactly one of `output` and `error`.
pub(super) fn validation_errors(
    tools: &BTreeMap<String, Vec<MockedResult>>,
) -> impl Iterator<Item = String> + '_ {
    let wrong_names = tools.keys().filter(|name| !name.contains("__"));
    let name_errors = wrong_names.map(|name| {
        format!("`{name}` is not a tool name that models use, such as `file-system__read`")
    });
    let result_errors = tools.iter().flat_map(|(name, results)| {
        let wrong_results = results
            .iter()
            .filter(|result| result.output.is_some() == result.error.is_some());
        wrong_results.map(move |_| format!("{name}: a result needs either `output` or `error`"))
    });
    name_errors.chain(result_errors)
}
