//! `kind: Tool`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;

/// Callable exports behind one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Where the handlers are.
    pub entry: Entry,
    /// Free settings for the handlers.
    pub config: JsonObject,
    /// Error messages are cut to that many characters (default 1000).
    pub error_message_limit: usize,
    /// Output is cut to that many characters (default 100000).
    pub output_limit: usize,
    /// How long a call may take (default 120 s).
    pub timeout: Duration,
    /// Selected and overridden exports. Empty where the entry describes itself and nothing was said (rule L9a):
    /// for a built-in entry it is filled in, for a library it becomes known when the library is opened.
    pub exports: Vec<ExportSpec>,
}

/// Where the handlers of a tool are (rule T2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A handler set of this program.
    Builtin(String),
    /// A dynamic library, relative to the bundle.
    Library(String),
    /// A folder with a `tool.yaml`, relative to the bundle.
    Executable(String),
}

/// One callable export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportSpec {
    /// Unique in its tool, without `__`.
    pub name: String,
    /// Shown to the model.
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
    /// What it needs (rule S1).
    #[serde(default)]
    pub permissions: BTreeSet<Permission>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Running it twice is the same as running it once.
    #[serde(default)]
    pub idempotent: bool,
}

/// What an export needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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

/// A handler set that describes itself: a built-in, a library or a `tool.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolManifest {
    /// The resource name, such as `text-transform`.
    pub name: String,
    /// What it can do.
    pub exports: Vec<ExportSpec>,
    /// Error messages are cut to that many characters, where the set says so.
    pub error_message_limit: Option<usize>,
    /// How long a call may take in milliseconds, where the set says so.
    pub timeout_ms: Option<u64>,
}
