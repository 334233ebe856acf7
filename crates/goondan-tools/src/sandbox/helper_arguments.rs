//! Command line of the helper.

use std::path::PathBuf;
use std::process::Stdio;

use goondan_spec::kinds::ProcessLimits;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::sandbox_layer::SandboxLayer;
use crate::process;
use crate::running_programs::LockFile;

/// Exit code of a helper that failed.
pub(super) const HELPER_FAILED_CODE: i32 = 125;

/// Prefix of the helper's error message.
pub(super) const HELPER_ERROR_PREFIX: &str = "gdn-sandbox: ";

/// The command that starts this program as the helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperCommand {
    /// The program, preferably as an absolute path.
    pub program: PathBuf,
    /// The arguments before the restrictions.
    pub args: Vec<String>,
}

/// The helper's argument, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProcessRestrictions {
    pub(super) limits: ProcessLimits,
    /// Layers that apply together.
    pub(super) layers: Vec<SandboxLayer>,
}

/// Returns the output of a watcher process: the lock file, so that its locks remain until the watcher
/// has ended the programs of a killed process.
pub(super) fn watcher_output() -> Stdio {
    let file = LockFile::of_user().ok().flatten();
    let descriptor = file.and_then(|file| file.duplicate_descriptor().ok());
    descriptor.map_or_else(Stdio::null, Stdio::from)
}

/// Returns the command that starts the helper, which becomes `command`.
pub(super) fn helper_command(
    helper: &HelperCommand,
    restrictions: &str,
    command: Command,
) -> Command {
    let inner = command.as_std();
    let mut outer = Command::new(&helper.program);
    outer
        .args(&helper.args)
        .arg(restrictions)
        .arg("--")
        .arg(inner.get_program())
        .args(inner.get_args());
    outer.env_clear();
    outer.envs(
        inner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    if let Some(folder) = inner.get_current_dir() {
        outer.current_dir(folder);
    }
    process::pipe_outputs(&mut outer);
    outer
}
