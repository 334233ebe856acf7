//! Optional capabilities of the host. A missing one results in an error.

use goondan_core::ports::capabilities::{
    ConversationAccess, EmbeddingModels, PromptScheduler, ToolStateStore,
};
use goondan_core::ports::tool::{HandlerError, ToolContext};
use goondan_spec::Code;

/// Returns the access to conversations. Fails if this program has none.
pub(crate) fn sessions(ctx: &ToolContext) -> Result<&dyn ConversationAccess, HandlerError> {
    ctx.runtime
        .sessions()
        .ok_or_else(|| missing_capability("access conversations"))
}

/// Returns the store for the state of tools. Fails if this program has none.
pub(crate) fn state(ctx: &ToolContext) -> Result<&dyn ToolStateStore, HandlerError> {
    ctx.runtime
        .state()
        .ok_or_else(|| missing_capability("store data"))
}

/// Returns the scheduler. Fails if this program has none.
pub(crate) fn prompt_scheduler(ctx: &ToolContext) -> Result<&dyn PromptScheduler, HandlerError> {
    ctx.runtime
        .prompt_scheduler()
        .ok_or_else(|| missing_capability("schedule prompts"))
}

/// Returns the embedding models. Fails if this program has none.
pub(crate) fn embeddings(ctx: &ToolContext) -> Result<&dyn EmbeddingModels, HandlerError> {
    ctx.runtime
        .embeddings()
        .ok_or_else(|| missing_capability("use embedding models"))
}

fn missing_capability(what: &str) -> HandlerError {
    HandlerError::new(format!("tools cannot {what} here")).code(Code::TOOL_UNAVAILABLE)
}
