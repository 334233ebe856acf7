//! Results of tools that are played instead of being made.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::matcher::Matcher;

/// What a call of a tool comes to, without its handler. Arguments and permissions are still checked.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlayedResult {
    /// The id of the call that it answers; any by default. With `--live` it does not count: ids are the provider's there.
    pub call: Option<String>,
    /// What the arguments must look like; anything by default.
    pub args: Option<Matcher>,
    /// What the tool returns.
    #[serde(default, deserialize_with = "stated")]
    pub output: Option<Value>,
    /// Why it fails.
    pub error: Option<PlayedError>,
}

/// Why a tool fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlayedError {
    /// For the model.
    pub message: String,
    /// A stable code; `E_TOOL` by default.
    pub code: Option<String>,
    /// The type of error.
    pub name: Option<String>,
    /// How to go on.
    pub suggestion: Option<String>,
    /// Where to read more.
    pub help_url: Option<String>,
}

/// A value that is written down, also where it is `null`.
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What is wrong with results that are well-formed.
pub(super) fn problems(
    tools: &BTreeMap<String, Vec<PlayedResult>>,
) -> impl Iterator<Item = String> + '_ {
    let names = tools.keys().filter(|name| !name.contains("__"));
    let names = names.map(|name| {
        format!("`{name}` is not a tool as models see it, such as `file-system__read`")
    });
    let results = tools.iter().flat_map(|(name, results)| {
        let both = results
            .iter()
            .filter(|result| result.output.is_some() == result.error.is_some());
        both.map(move |_| format!("{name}: a result has either `output` or `error`"))
    });
    names.chain(results)
}
