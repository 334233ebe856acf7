//! Optional capabilities of the host. A missing one results in an error.

use goondan_core::ports::powers::{Embeddings, Schedules, Sessions, ToolState};
use goondan_core::ports::tool::{ToolContext, ToolError};
use goondan_spec::Code;

pub(crate) fn sessions(ctx: &ToolContext) -> Result<&dyn Sessions, ToolError> {
    ctx.runtime
        .sessions()
        .ok_or_else(|| lacks("look at conversations"))
}

pub(crate) fn state(ctx: &ToolContext) -> Result<&dyn ToolState, ToolError> {
    ctx.runtime.state().ok_or_else(|| lacks("keep anything"))
}

pub(crate) fn schedules(ctx: &ToolContext) -> Result<&dyn Schedules, ToolError> {
    ctx.runtime
        .schedules()
        .ok_or_else(|| lacks("be called by the clock"))
}

pub(crate) fn embeddings(ctx: &ToolContext) -> Result<&dyn Embeddings, ToolError> {
    ctx.runtime
        .embeddings()
        .ok_or_else(|| lacks("ask embedding models"))
}

fn lacks(what: &str) -> ToolError {
    ToolError::new(format!("tools cannot {what} here")).code(Code::TOOL_UNAVAILABLE)
}
