//! Others that stand in for the handlers of tools: cases play results instead of running what gave them.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::ports::tool::{OpenError, ToolHandler, ToolSet, ToolSource};
use goondan_spec::Resource;
use goondan_spec::kinds::Tool;

/// Says which handlers are stood in for. Everything else about a tool stays as it is: its schema, its permissions, its limits.
pub trait ToolStandIns: Send + Sync {
    /// What is called instead of the handler of that export; `None` where nobody stands in.
    fn handler(&self, tool: &str, export: &str) -> Option<Arc<dyn ToolHandler>>;
}

/// Opens tools and puts stand-ins in the place of their handlers.
pub(crate) struct StoodIn {
    pub(crate) source: Arc<dyn ToolSource>,
    pub(crate) stand_ins: Arc<dyn ToolStandIns>,
}

#[async_trait]
impl ToolSource for StoodIn {
    async fn open(&self, tool: &Resource<Tool>, bundle_root: &Path) -> Result<ToolSet, OpenError> {
        let mut set = self.source.open(tool, bundle_root).await?;
        for (export, handler) in &mut set.exports {
            if let Some(stand_in) = self.stand_ins.handler(&tool.id.name, &export.name) {
                *handler = stand_in;
            }
        }
        Ok(set)
    }
}
