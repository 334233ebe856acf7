//! Every built-in tool, by name.

use std::time::Duration;

use goondan_runtime::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::define::Export;
use crate::{agents, bash, file_system, fs, http_fetch, json_query, text_transform, wait};

/// A row of the table.
pub(crate) struct Builtin {
    /// The resource's name, and what stands behind `builtin:`.
    pub(crate) name: &'static str,
    /// A sentence for the documentation.
    pub(crate) about: &'static str,
    /// Keys of `spec.config` with their meaning.
    pub(crate) config: &'static [(&'static str, &'static str)],
    /// Error messages are cut to that many characters, where the default does not fit.
    pub(crate) error_message_limit: Option<usize>,
    /// How long a call may take, where the default of two minutes does not fit.
    pub(crate) timeout: Option<Duration>,
    /// Makes the exports from a config; the error says what is wrong with it.
    pub(crate) open: fn(&JsonObject) -> Result<Vec<Export>, String>,
}

/// All of them, alphabetically.
pub(crate) const BUILTINS: &[Builtin] = &[
    agents::BUILTIN,
    bash::BUILTIN,
    file_system::BUILTIN,
    fs::BUILTIN,
    http_fetch::BUILTIN,
    json_query::BUILTIN,
    text_transform::BUILTIN,
    wait::BUILTIN,
];

/// Reads a `spec.config`. Unknown keys are errors, so that a typing mistake is seen.
pub(crate) fn read_config<C: DeserializeOwned>(config: &JsonObject) -> Result<C, String> {
    serde_json::from_value(Value::Object(config.clone())).map_err(|error| error.to_string())
}

/// The config of a tool that takes none.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoConfig {}
