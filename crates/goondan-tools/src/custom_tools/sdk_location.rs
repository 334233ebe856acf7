//! Determines the source of `goondan-abi` for a new library.
//!
//! The crate is not published. A program built from a checkout uses that checkout while it exists,
//! so that tool and program match. Otherwise the repository is used.

use std::path::Path;

/// The `goondan-abi` crate of the checkout that this program was built from.
const BUILD_TIME_SDK_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../goondan-abi");

/// Returns the contents of the dependency's braces in `Cargo.toml`.
pub(super) fn sdk_dependency() -> String {
    match Path::new(BUILD_TIME_SDK_DIR).canonicalize() {
        Ok(folder) => format!("path = {}", quote_toml(&folder.to_string_lossy())),
        Err(_) => format!("git = {}", quote_toml(env!("CARGO_PKG_REPOSITORY"))),
    }
}

fn quote_toml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
