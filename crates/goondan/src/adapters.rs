//! Which adapter serves which form of entry.

use std::path::Path;

use async_trait::async_trait;
use goondan_runtime::ports::tool::{OpenError, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::{Entry, Tool};
use goondan_tools::BuiltinTools;

/// Opens tools by the form of their entry (rule T2).
#[derive(Default)]
pub(crate) struct ToolSources {
    builtin: BuiltinTools,
}

#[async_trait]
impl ToolSource for ToolSources {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        match &tool.spec.entry {
            Entry::Builtin(_) => self.builtin.open(tool, bundle_root).await,
            Entry::Library(path) => Err(not_yet(tool, path, "a dynamic library")),
            Entry::Executable(path) => Err(not_yet(tool, path, "an executable custom tool")),
        }
    }
}

fn not_yet(tool: &Resource<Tool>, path: &str, what: &str) -> OpenError {
    OpenError {
        tool: tool.id.clone(),
        message: format!("`{path}` is {what}, which this version can check but not run"),
        suggestion: Some("use a built-in entry such as `builtin:bash`".to_owned()),
    }
}
