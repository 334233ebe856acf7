//! Access of a program in one sandbox.

use std::path::{Path, PathBuf};

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use serde::{Deserialize, Serialize};

use crate::running_programs::{WriteAccess, protect_lock_directory};
use crate::state_directory;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SandboxLayer {
    pub(super) network: bool,
    #[serde(with = "goondan_core::path_json")]
    pub(super) read: Vec<PathBuf>,
    #[serde(with = "goondan_core::path_json")]
    pub(super) write: Vec<PathBuf>,
    /// The permitted programs; `None` permits all readable ones.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "goondan_core::path_json"
    )]
    pub(super) execute: Option<Vec<PathBuf>>,
    /// Places that agents or other users may replace. They and the paths below them must not contain
    /// links.
    #[serde(with = "goondan_core::path_json")]
    pub(super) exact: Vec<PathBuf>,
    /// Refuses the system calls with which a stopped program could continue itself.
    #[serde(default)]
    pub(super) stays_stopped: bool,
}

impl SandboxLayer {
    /// Removes the state of `gdn` from the readable places.
    ///
    /// # Errors
    ///
    /// Fails if a writable place contains the state.
    pub(super) fn without_state(mut self) -> Result<SandboxLayer, HandlerError> {
        protect_lock_directory();
        for folder in &self.write {
            if let Some(state) = state_directory::in_folder(folder).first() {
                return Err(state_in_sandbox_error(folder, state));
            }
        }
        let parts = |folder: &PathBuf| state_directory::readable_parts(folder);
        self.read = self.read.iter().flat_map(parts).collect();
        Ok(self)
    }
}

#[cfg(target_os = "linux")]
impl SandboxLayer {
    /// Returns all paths: readable, writable, and executable ones.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.read
            .iter()
            .chain(&self.write)
            .chain(self.execute.iter().flatten())
    }
}

/// Returns the access of a program in these sandboxes; `None` without a sandbox.
pub(crate) fn write_access(layers: &[SandboxLayer]) -> Option<WriteAccess> {
    let access = WriteAccess::from_sandboxes(layers.iter().map(|layer| layer.write.clone()));
    access.is_sandboxed().then_some(access)
}

pub(crate) fn sandbox_error(reason: &str) -> HandlerError {
    HandlerError::new(format!(
        "the program was not run, because its sandbox or limits cannot be applied: {reason}"
    ))
    .code(Code::TOOL_SANDBOX)
    .suggest(
        "The operator can run the swarm on a system that supports them, or remove `sandbox` or \
        `limits` from its YAML.",
    )
}

fn state_in_sandbox_error(folder: &Path, state: &Path) -> HandlerError {
    let (folder, state) = (folder.display(), state.display());
    sandbox_error(&format!(
        "programs in the sandbox may write to `{folder}`, which contains gdn's own state in `{state}`"
    ))
    .suggest(
        "The operator can remove this directory from the sandbox, or start gdn with a `--state-root` \
        outside of this directory.",
    )
}
