//! Cargo inside a test or a benchmark.

use std::process::Command;

/// Returns a cargo command without the variables that the outer cargo sets for the tested package.
/// The build script of `ring` depends on these variables: with other values, cargo would build
/// `ring` and all crates that depend on it again.
pub(crate) fn nested_cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let of_package = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    });
    for name in of_package {
        command.env_remove(name);
    }
    command
}
