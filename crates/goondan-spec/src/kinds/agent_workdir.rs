//! Working directory of an agent.

use std::path::PathBuf;

/// Working directory of an agent's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentWorkdir {
    /// Separate directory per conversation, below the state root (default).
    Instance,
    /// Bundle directory.
    Project,
    /// Directory in the bundle, relative to its root.
    Path(String),
    /// Directory outside the bundle, in the surrounding git repository. Absolute, without symbolic
    /// links.
    Repository(PathBuf),
}
