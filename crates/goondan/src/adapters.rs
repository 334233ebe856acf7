//! Which adapter serves which form of entry.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use goondan_dylib::{HostCommand, Libraries, Limits};
use goondan_runtime::ports::tool::{OpenError, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::{Entry, Isolation, Tool};
use goondan_tools::{BuiltinTools, ExecutableTools, HelperCommand};

/// How long libraries may take to end what they do when a swarm ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens tools by the form of their entry (rule T2). Lives as long as its swarm: a library that did not change is opened
/// once, however often the swarm reloads.
pub(crate) struct ToolSources {
    builtin: BuiltinTools,
    executable: ExecutableTools,
    libraries: Libraries,
    /// Libraries in processes of their own, where this program can be such a process.
    hosted: Option<Libraries>,
}

impl ToolSources {
    /// Copies of libraries are kept below `staging`.
    pub(crate) fn new(staging: &Path, host: Option<HostCommand>, helper: Option<HelperCommand>) -> Self {
        ToolSources {
            builtin: BuiltinTools::new().with_helper(helper.clone()),
            executable: ExecutableTools::new(helper),
            libraries: Libraries::new(staging, Limits::default()),
            hosted: host.map(|host| Libraries::hosted(staging, Limits::default(), host)),
        }
    }

    /// Closes all libraries.
    pub(crate) async fn shutdown(&self) {
        let mut stuck = self.libraries.shutdown(PATIENCE).await;
        if let Some(hosted) = &self.hosted {
            stuck.extend(hosted.shutdown(PATIENCE).await);
        }
        for library in stuck {
            tracing::warn!(library, "a library did not end when it was asked to");
        }
    }

    async fn open_library(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        match (tool.spec.isolation, &self.hosted) {
            (Isolation::None, _) => self.libraries.open(tool, bundle_root).await,
            (Isolation::Process, Some(hosted)) => hosted.open(tool, bundle_root).await,
            (Isolation::Process, None) => Err(OpenError {
                tool: tool.id.clone(),
                message: "`isolation: process` needs a program that can host libraries, and this one cannot".to_owned(),
                suggestion: Some("give `SwarmBuilder::tool_host` a command, or leave `isolation` out".to_owned()),
            }),
        }
    }
}

#[async_trait]
impl ToolSource for ToolSources {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        match &tool.spec.entry {
            Entry::Builtin(_) => self.builtin.open(tool, bundle_root).await,
            Entry::Library(_) => self.open_library(tool, bundle_root).await,
            Entry::Executable(_) => self.executable.open(tool, bundle_root).await,
        }
    }
}
