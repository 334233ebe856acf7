//! The onion around a turn, a step and a tool call.
//!
//! Each middleware may act before and after what it wraps. `next` is consumed by running it, so the core runs at most
//! once. The first of an agent's extensions is the outermost.
//!
//! Middleware belongs to the plan of an agent: all of its instances and turns share it. What it has to know about a turn
//! it finds in the conversation, notes with [`TurnContext::note`], or keeps with [`TurnContext::set_state`]; so nothing has to be cleaned up, and a resumed
//! turn does what it did before.
//!
//! The code of other extensions is not part of this program (`hosted/`). It takes its seat at each turn, and its layers stand
//! among those of the built-in ones in the order of their priorities (`layers.rs`).

mod builtin;
mod chain;
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
pub(crate) use chain::{Sources, chain};
pub use context::Question;
pub(crate) use context::{ExtensionStates, Notes};
pub(crate) use hosted::Journalist;
pub use layers::Extensions;
pub(crate) use layers::{Layers, attach};
pub(crate) use structured_output::StructuredOutput;

/// Wraps what an agent does.
#[async_trait]
pub trait Middleware: Send + Sync {
    /// For messages and logs.
    fn name(&self) -> &str;

    /// Tools that it adds to those of its agent.
    fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        Vec::new()
    }

    /// Around a whole turn. The user message is there already.
    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        next.run(context).await
    }

    /// Around one step: one model call and the tool calls that it asks for.
    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        next.run(context).await
    }

    /// Around one tool call. Calls of one step run at the same time.
    async fn tool_call(
        &self,
        context: &mut ToolCallContext,
        next: ToolCallNext<'_>,
    ) -> ToolCallResult {
        next.run(context).await
    }
}

/// The rest of a chain.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [Arc<dyn Middleware>]);

impl<'a> Rest<'a> {
    fn split(self) -> Option<(&'a Arc<dyn Middleware>, Rest<'a>)> {
        self.0
            .split_first()
            .map(|(first, rest)| (first, Rest(rest)))
    }
}

/// What a turn middleware wraps.
pub struct TurnNext<'a>(Rest<'a>);

impl<'a> TurnNext<'a> {
    pub(crate) fn new(chain: &'a [Arc<dyn Middleware>]) -> Self {
        TurnNext(Rest(chain))
    }

    /// Runs it.
    pub async fn run(self, context: &mut TurnContext) -> Result<TurnOutcome, TurnError> {
        match self.0.split() {
            Some((middleware, rest)) => middleware.turn(context, TurnNext(rest)).await,
            None => turn::steps(context).await,
        }
    }
}

/// What a step middleware wraps.
pub struct StepNext<'a>(Rest<'a>);

impl<'a> StepNext<'a> {
    pub(crate) fn new(chain: &'a [Arc<dyn Middleware>]) -> Self {
        StepNext(Rest(chain))
    }

    /// Runs it.
    pub async fn run(self, context: &mut StepContext<'_>) -> Result<StepOutcome, TurnError> {
        match self.0.split() {
            Some((middleware, rest)) => middleware.step(context, StepNext(rest)).await,
            None => step::core(context).await,
        }
    }
}

/// What a tool-call middleware wraps.
pub struct ToolCallNext<'a>(Rest<'a>);

impl<'a> ToolCallNext<'a> {
    pub(crate) fn new(chain: &'a [Arc<dyn Middleware>]) -> Self {
        ToolCallNext(Rest(chain))
    }

    /// Runs it.
    pub async fn run(self, context: &mut ToolCallContext) -> ToolCallResult {
        match self.0.split() {
            Some((middleware, rest)) => middleware.tool_call(context, ToolCallNext(rest)).await,
            None => dispatch::core(context).await,
        }
    }
}
