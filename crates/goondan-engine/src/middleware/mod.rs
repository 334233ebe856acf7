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

use std::sync::Arc;

use async_trait::async_trait;

use crate::tooling::dispatch::{self, ToolCallContext};
use crate::tooling::registry::RegisteredTool;
use crate::turn::step::{self, StepContext, StepOutcome};
use crate::turn::{self, TurnContext, TurnOutcome};
use goondan_core::event::TurnError;
use goondan_core::ports::tool::ToolCallResult;

pub use builtin::names as builtin_names;
pub(crate) use chain::{ExtensionInputs, build_chain};
pub use context::ModelQuery;
pub(crate) use context::{ExtensionStates, TurnNotes};
pub(crate) use hosted::StateJournal;
pub use layers::AgentExtensions;
pub(crate) use layers::{MiddlewareStack, attach_extensions};
pub(crate) use structured_output::StructuredOutput;

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

/// Compacts all messages with the agent's `message-compaction`, or with its default config.
pub(crate) async fn compact_all(context: &mut TurnContext) -> Result<(), TurnError> {
    let layers = Arc::clone(&context.facts.layers);
    for middleware in layers.turn.iter() {
        if middleware.compact_all(context).await? {
            return Ok(());
        }
    }
    message_compaction::compact_by_default(context).await
}

/// Remaining middleware of a chain.
#[derive(Clone, Copy)]
struct RemainingChain<'a>(&'a [Arc<dyn Middleware>]);

impl<'a> RemainingChain<'a> {
    /// Returns the next middleware and the chain after it; `None` at the end.
    fn split(self) -> Option<(&'a Arc<dyn Middleware>, RemainingChain<'a>)> {
        self.0
            .split_first()
            .map(|(first, rest)| (first, RemainingChain(rest)))
    }
}

/// The part that turn middleware wraps.
pub struct TurnNext<'a>(RemainingChain<'a>);

impl<'a> TurnNext<'a> {
    pub(crate) fn new(chain: &'a [Arc<dyn Middleware>]) -> Self {
        TurnNext(RemainingChain(chain))
    }

    /// Runs the wrapped part.
    pub async fn run(self, context: &mut TurnContext) -> Result<TurnOutcome, TurnError> {
        match self.0.split() {
            Some((middleware, rest)) => middleware.turn(context, TurnNext(rest)).await,
            None => turn::steps(context).await,
        }
    }
}

/// The part that step middleware wraps.
pub struct StepNext<'a>(RemainingChain<'a>);

impl<'a> StepNext<'a> {
    pub(crate) fn new(chain: &'a [Arc<dyn Middleware>]) -> Self {
        StepNext(RemainingChain(chain))
    }

    /// Runs the wrapped part.
    pub async fn run(self, context: &mut StepContext<'_>) -> Result<StepOutcome, TurnError> {
        match self.0.split() {
            Some((middleware, rest)) => middleware.step(context, StepNext(rest)).await,
            None => step::run_core(context).await,
        }
    }
}

/// The part that tool-call middleware wraps.
pub struct ToolCallNext<'a>(RemainingChain<'a>);

impl<'a> ToolCallNext<'a> {
    pub(crate) fn new(chain: &'a [Arc<dyn Middleware>]) -> Self {
        ToolCallNext(RemainingChain(chain))
    }

    /// Runs the wrapped part.
    pub async fn run(self, context: &mut ToolCallContext) -> ToolCallResult {
        match self.0.split() {
            Some((middleware, rest)) => middleware.tool_call(context, ToolCallNext(rest)).await,
            None => dispatch::run_core(context).await,
        }
    }
}
