//! `kind: Extension`.

use crate::JsonObject;

/// Middleware of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// `builtin:NAME`, or a path in the bundle that a later version will load.
    pub entry: String,
    /// Free settings.
    pub config: JsonObject,
}
