//! Middleware around a turn, a step and a tool call.
//!
//! Each middleware may act before and after the part that it wraps. Running `next` consumes it, so
//! the core runs at most once. The first extension of an agent is the outermost.
//!
//! Middleware is part of the agent plan: all instances and turns share it. Its data about a turn
//! comes from the conversation, from [`TurnContext::note`] or from [`TurnContext::set_state`].
//! Therefore it needs no cleanup, and a resumed turn behaves in the same way.
//!
//! The code of other extensions runs outside this program (`hosted/`). It attaches to each turn,
//! and its layers are sorted among the built-in ones by priority (`layers.rs`).

mod attachment;
mod builtin;
mod chain;
mod compaction_config;
mod context;
mod context_message;
mod hosted;
mod inter_agent_response_format;
mod layers;
mod logging;
mod message_compaction;
mod message_window;
mod required_tools_guard;
mod structured_output;
mod summary;
mod tool_search;
mod trim;
mod turn_state;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::tooling::dispatch::ToolCallContext;
use crate::tooling::registry::RegisteredTool;
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::event::TurnError;
use goondan_core::ports::tool::ToolCallResult;

pub(crate) use attachment::attach_extensions;
pub use builtin::names as builtin_names;
pub(crate) use chain::{ExtensionInputs, build_chain};
pub use context::ModelQuery;
pub(crate) use hosted::StateJournal;
pub use layers::AgentExtensions;
pub(crate) use layers::MiddlewareStack;
pub(crate) use message_compaction::compact_conversation;
pub(crate) use structured_output::StructuredOutput;
pub(crate) use turn_state::{ExtensionStates, TurnNotes};

/// Layer around the turns, steps and tool calls of an agent.
#[async_trait]
pub trait Middleware: Send + Sync {
    /// Returns the name for messages and logs.
    fn name(&self) -> &str;

    /// Returns tools to add to the agent's tools.
    fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        Vec::new()
    }

    /// Wraps a whole turn. The user message is already in the conversation.
    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        next.run(context).await
    }

    /// Wraps one step: one model call and the tool calls that it requests.
    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        next.run(context).await
    }

    /// Shortens the conversation after the provider refused it as too long. Returns true if it is
    /// shorter.
    async fn shorten_conversation(
        &self,
        _context: &mut TurnContext,
        _step: u32,
    ) -> Result<bool, TurnError> {
        Ok(false)
    }

    /// Compacts all messages because a user requested it. Returns false if this middleware does not
    /// compact.
    async fn compact_all(&self, _context: &mut TurnContext) -> Result<bool, TurnError> {
        Ok(false)
    }

    /// Wraps one tool call. The calls of one step run concurrently.
    async fn tool_call(
        &self,
        context: &mut ToolCallContext,
        next: ToolCallNext<'_>,
    ) -> ToolCallResult {
        next.run(context).await
    }
}

/// The part that all turn middleware wraps.
type TurnCore = for<'c> fn(&'c mut TurnContext) -> BoxFuture<'c, Result<TurnOutcome, TurnError>>;

/// The part that all step middleware wraps.
type StepCore =
    for<'c> fn(&'c mut StepContext<'_>) -> BoxFuture<'c, Result<StepOutcome, TurnError>>;

/// The part that all tool-call middleware wraps.
type ToolCallCore = for<'c> fn(&'c mut ToolCallContext) -> BoxFuture<'c, ToolCallResult>;

/// The part that turn middleware wraps.
pub struct TurnNext<'a> {
    middleware: &'a [Arc<dyn Middleware>],
    core: TurnCore,
}

impl<'a> TurnNext<'a> {
    /// Creates the outermost part. All middleware wraps `core`.
    pub(crate) fn new(middleware: &'a [Arc<dyn Middleware>], core: TurnCore) -> Self {
        TurnNext { middleware, core }
    }

    /// Runs the wrapped part.
    pub async fn run(self, context: &mut TurnContext) -> Result<TurnOutcome, TurnError> {
        match self.middleware.split_first() {
            Some((first, middleware)) => first.turn(context, TurnNext { middleware, ..self }).await,
            None => (self.core)(context).await,
        }
    }
}

/// The part that step middleware wraps.
pub struct StepNext<'a> {
    middleware: &'a [Arc<dyn Middleware>],
    core: StepCore,
}

impl<'a> StepNext<'a> {
    /// Creates the outermost part. All middleware wraps `core`.
    pub(crate) fn new(middleware: &'a [Arc<dyn Middleware>], core: StepCore) -> Self {
        StepNext { middleware, core }
    }

    /// Runs the wrapped part.
    pub async fn run(self, context: &mut StepContext<'_>) -> Result<StepOutcome, TurnError> {
        match self.middleware.split_first() {
            Some((first, middleware)) => first.step(context, StepNext { middleware, ..self }).await,
            None => (self.core)(context).await,
        }
    }
}

/// The part that tool-call middleware wraps.
pub struct ToolCallNext<'a> {
    middleware: &'a [Arc<dyn Middleware>],
    core: ToolCallCore,
}

impl<'a> ToolCallNext<'a> {
    /// Creates the outermost part. All middleware wraps `core`.
    pub(crate) fn new(middleware: &'a [Arc<dyn Middleware>], core: ToolCallCore) -> Self {
        ToolCallNext { middleware, core }
    }

    /// Runs the wrapped part.
    pub async fn run(self, context: &mut ToolCallContext) -> ToolCallResult {
        match self.middleware.split_first() {
            Some((first, middleware)) => {
                first
                    .tool_call(context, ToolCallNext { middleware, ..self })
                    .await
            }
            None => (self.core)(context).await,
        }
    }
}
