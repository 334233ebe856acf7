//! Manifest of a built-in tool.

use serde::{Deserialize, Serialize};

use super::lazy_exports::LazyExports;

/// Self-description of a handler set: a built-in, a library or a `tool.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolManifest {
    /// Resource name, such as `text-transform`.
    pub name: String,
    /// Exports of the set.
    pub exports: LazyExports,
    /// Maximum length of error messages, in characters.
    pub error_message_limit: Option<usize>,
    /// Maximum length of output, in characters.
    #[serde(default)]
    pub output_limit: Option<usize>,
    /// Time limit of a call, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Environment variables that the set reads without configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}
