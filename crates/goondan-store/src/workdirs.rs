//! Working directories of tools, below the workspace directory.

use std::path::PathBuf;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::Workspace;

use crate::jsonl::layout;

/// The directories of a workspace, independent of the conversation store.
#[derive(Debug, Clone)]
pub struct Workdirs(PathBuf);

impl Workdirs {
    pub fn below(workspace: PathBuf) -> Self {
        Workdirs(workspace)
    }
}

impl Workspace for Workdirs {
    fn workdir(&self, id: &InstanceId) -> PathBuf {
        layout::instance_dir(&self.0, id).join(layout::WORKDIR)
    }

    fn output_file(&self, id: &InstanceId, name: &str) -> PathBuf {
        layout::instance_dir(&self.0, id)
            .join(layout::FILES)
            .join(layout::file_name(name))
    }
}
