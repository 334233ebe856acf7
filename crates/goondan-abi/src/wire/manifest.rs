//! A library's description of itself.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The features that a manifest may name.
pub mod feature {
    /// `extend` accepts the messages of an extension. This is the default of a library with
    /// `extend` that names no feature.
    pub const EXTENSION: &str = "extension";
    /// `extend` accepts `connect`.
    pub const CONNECTOR: &str = "connector";
}

/// The output of `describe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The name of the library.
    pub name: String,
    /// The version of the library.
    #[serde(default)]
    pub version: String,
    /// The SDK that created the library.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sdk: Option<SdkInfo>,
    /// The names of supported optional features. Unknown names are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub features: Vec<String>,
    /// The callable exports.
    pub exports: Vec<Export>,
}

/// The SDK that created a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SdkInfo {
    /// The language, such as `rust`.
    pub language: String,
    /// The version of the SDK.
    #[serde(default)]
    pub version: String,
}

/// One callable export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// A name without `__`, unique in its library.
    pub name: String,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of type object. Default: no arguments.
    #[serde(default = "no_arguments")]
    pub parameters: Value,
    /// The required permissions.
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// The permissions that are used only if granted; `CallContext::permissions` lists the granted
    /// ones of each call.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional_permissions: BTreeSet<Permission>,
    /// True if the export changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// True if repeating a call has no further effect.
    #[serde(default)]
    pub idempotent: bool,
}

/// A permission of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Runs programs.
    Execute,
    /// Accesses the network.
    Network,
}

fn no_arguments() -> Value {
    serde_json::json!({ "type": "object", "properties": {} })
}
