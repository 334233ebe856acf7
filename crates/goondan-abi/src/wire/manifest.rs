//! What a library says of itself.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Features that a manifest may name.
pub mod feature {
    /// `extend` takes the messages of an extension. A library that names no feature and has `extend` takes them, too.
    pub const EXTENSION: &str = "extension";
    /// `extend` takes `connect`.
    pub const CONNECTOR: &str = "connector";
}

/// What `describe` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// What the library is called.
    pub name: String,
    /// Its own version.
    #[serde(default)]
    pub version: String,
    /// What it was made with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sdk: Option<Sdk>,
    /// Optional behaviour that it knows, by name. Unknown names are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub features: Vec<String>,
    /// What can be called.
    pub exports: Vec<Export>,
}

/// What a library was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sdk {
    /// Such as `rust`.
    pub language: String,
    /// The SDK's version.
    #[serde(default)]
    pub version: String,
}

/// One callable export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// Unique in its library, without `__`.
    pub name: String,
    /// Shown to the model.
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of type object; without one the export takes no arguments.
    #[serde(default = "no_arguments")]
    pub parameters: Value,
    /// What it needs.
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// What it makes use of where that is allowed; `CallContext::permissions` says of each call whether it is.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional_permissions: BTreeSet<Permission>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Running it twice is the same as running it once.
    #[serde(default)]
    pub idempotent: bool,
}

/// What an export needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Runs programs.
    Execute,
    /// Talks to the network.
    Network,
}

fn no_arguments() -> Value {
    serde_json::json!({ "type": "object", "properties": {} })
}
