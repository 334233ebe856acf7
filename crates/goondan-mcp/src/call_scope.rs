//! The access of a server's callers. Callers with equal access share a process.

use std::path::PathBuf;

use goondan_core::ports::tool::ToolContext;
use goondan_spec::kinds::SandboxSettings;

/// The sandboxes of a call and their writable directory. All calls without a sandbox are equal.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallScope {
    pub(crate) sandboxes: Vec<SandboxSettings>,
    /// Empty without a sandbox.
    pub(crate) workdir: PathBuf,
}

impl CallScope {
    /// Returns the access of a tool call.
    pub(crate) fn from_context(ctx: &ToolContext) -> Self {
        match ctx.sandboxes.is_empty() {
            true => CallScope::default(),
            false => CallScope {
                sandboxes: ctx.sandboxes.clone(),
                workdir: ctx.workdir.clone(),
            },
        }
    }
}
