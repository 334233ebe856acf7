//! Working directories of tools, below the workspace directory.

use std::path::PathBuf;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::WorkspacePaths;

use crate::jsonl::layout;

/// The directories of a workspace, independent of the conversation store.
#[derive(Debug, Clone)]
pub struct WorkspaceDirectories(PathBuf);

impl WorkspaceDirectories {
    /// Returns the paths of a workspace whose directory is `workspace`.
    pub fn below(workspace: PathBuf) -> Self {
        WorkspaceDirectories(workspace)
    }
}

impl WorkspacePaths for WorkspaceDirectories {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.0, id).join(layout::WORKDIR)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        layout::instance_dir(&self.0, id)
            .join(layout::FILES)
            .join(layout::file_name(name))
    }
}
