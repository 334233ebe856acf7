//! Stand-ins for tool handlers, with which test cases return recorded results.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::ports::tool::{EntryOpenError, ToolHandler, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::Tool;

/// Selects the handlers to replace. The schema, permissions and limits of a tool stay unchanged.
pub trait ToolStubs: Send + Sync {
    /// Returns the replacement for the handler of an export; `None` keeps the handler.
    fn handler(&self, tool: &str, export: &str) -> Option<Arc<dyn ToolHandler>>;
}

/// Tool source that replaces handlers with stand-ins.
pub(crate) struct StubbedToolSource {
    pub(crate) source: Arc<dyn ToolSource>,
    pub(crate) stand_ins: Arc<dyn ToolStubs>,
}

#[async_trait]
impl ToolSource for StubbedToolSource {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let mut set = self.source.open(tool, bundle_root).await?;
        for (export, handler) in &mut set.exports {
            if let Some(stand_in) = self.stand_ins.handler(&tool.id.name, &export.name) {
                *handler = stand_in;
            }
        }
        Ok(set)
    }
}
