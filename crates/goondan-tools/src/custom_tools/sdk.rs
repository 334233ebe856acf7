//! Where a new library takes `goondan-abi` from.
//!
//! It is on no registry. A program that was built from a checkout points at that checkout while it is there, so that tool
//! and program fit; any other points at the repository.

use std::path::Path;

/// The crate beside this one, where this program was built.
const BUILT_BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../goondan-abi");

/// What stands between the braces of the dependency.
pub(super) fn dependency() -> String {
    match Path::new(BUILT_BESIDE).canonicalize() {
        Ok(folder) => format!("path = {}", quoted(&folder.to_string_lossy())),
        Err(_) => format!("git = {}", quoted(env!("CARGO_PKG_REPOSITORY"))),
    }
}

/// A text as TOML reads it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
