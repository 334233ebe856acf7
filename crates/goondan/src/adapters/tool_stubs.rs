//! Stubs for tool handlers, which return the mocked results of test cases.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_spec::Resource;
use goondan_spec::kinds::{Tool, ToolEntry};

/// Selects the handlers to replace. The schema, permissions and limits of a tool stay unchanged.
pub trait ToolStubs: Send + Sync {
    /// Returns the replacement for the handler of an export; `None` keeps the handler.
    fn handler(&self, tool: &str, export: &str) -> Option<Arc<dyn ToolHandler>>;
}

/// Tool source that replaces handlers with stubs.
pub(crate) struct StubbedToolSource {
    pub(crate) source: Arc<dyn ToolSource>,
    pub(crate) stubs: Arc<dyn ToolStubs>,
}

#[async_trait]
impl ToolSource for StubbedToolSource {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let mut set = match tool.spec.entry {
            ToolEntry::Embedded => without_program(tool),
            _ => self.source.open(tool, bundle_root).await?,
        };
        for (export, handler) in &mut set.exports {
            if let Some(stub) = self.stubs.handler(&tool.id.name, &export.name) {
                *handler = stub;
            }
        }
        Ok(set)
    }
}

/// Returns the exports of an embedded tool, whose program is absent in a test case.
fn without_program(tool: &Resource<Tool>) -> ToolSet {
    let exports = tool.spec.exports.iter();
    ToolSet {
        exports: exports
            .map(|export| (export.clone(), Arc::new(AbsentFunction) as _))
            .collect(),
        unavailable: None,
    }
}

/// Handler of an embedded tool without a stub.
struct AbsentFunction;

#[async_trait]
impl ToolHandler for AbsentFunction {
    async fn call(&self, _: &ToolContext, _: JsonObject) -> Result<ToolOutput, HandlerError> {
        let error = HandlerError::new("the program that provides this tool does not run here");
        Err(error.suggest("add an output for the tool to the test case"))
    }
}
