//! Which adapter serves which form of entry.

use std::path::Path;

use async_trait::async_trait;
use goondan_runtime::ports::tool::{OpenError, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::{Entry, Tool};
use goondan_tools::{BuiltinTools, ExecutableTools};

/// Opens tools by the form of their entry (rule T2).
#[derive(Default)]
pub(crate) struct ToolSources {
    builtin: BuiltinTools,
    executable: ExecutableTools,
}

#[async_trait]
impl ToolSource for ToolSources {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        match &tool.spec.entry {
            Entry::Builtin(_) => self.builtin.open(tool, bundle_root).await,
            Entry::Library(path) => Err(not_yet(tool, path)),
            Entry::Executable(_) => self.executable.open(tool, bundle_root).await,
        }
    }
}

fn not_yet(tool: &Resource<Tool>, path: &str) -> OpenError {
    OpenError {
        tool: tool.id.clone(),
        message: format!("`{path}` is a dynamic library, which this version can check but not run"),
        suggestion: Some("make it an executable custom tool: a folder with a tool.yaml".to_owned()),
    }
}
