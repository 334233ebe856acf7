//! Libraries of this repository that trials load.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::nested_cargo::nested_cargo;

/// Builds a package with the profile of this program, and says where its library is.
pub(crate) fn build(package: &str) -> anyhow::Result<PathBuf> {
    let mut command = nested_cargo();
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit());
    command.args([
        "build",
        "--quiet",
        "--message-format=json-render-diagnostics",
    ]);
    // With the command: what lies below has the same features then, and is not built a second time.
    command.args(["-p", package, "-p", "goondan-cli", "--lib"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().context("cargo builds the library")?;
    ensure!(output.status.success(), "the library is not built");
    let lines = String::from_utf8(output.stdout)?;
    let mut messages = lines
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_library = |message: &Value| {
        message["target"]["name"] == package && message["reason"] == "compiler-artifact"
    };
    let artifact = messages
        .find(of_library)
        .context("cargo tells of the library")?;
    artifact["filenames"][0]
        .as_str()
        .map(PathBuf::from)
        .context("the library has a path")
}
