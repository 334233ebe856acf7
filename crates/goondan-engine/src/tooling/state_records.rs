//! Names of the store records with the states of tools.

/// Returns the record name of a tool's state. Extension names contain no dot, so the names cannot
/// collide.
pub(crate) fn record_name(name: &str) -> String {
    format!("tool.{name}")
}
