//! The onion around a turn, a step and a tool call.
//!
//! Each middleware may act before and after what it wraps. `next` is consumed by running it, so the core runs at most
//! once. The first of an agent's middleware is the outermost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::dispatch::{self, ToolCallContext};
use crate::event::TurnError;
use crate::message::Role;
use crate::ports::tool::{ToolCallResult, ToolCallStatus};
use crate::step::{self, StepContext, StepOutcome};
use crate::turn::{self, TurnContext, TurnOutcome};

/// Wraps what an agent does.
#[async_trait]
pub trait Middleware: Send + Sync {
    /// For messages and logs.
    fn name(&self) -> &str;

    /// Around a whole turn. The user message is there already.
    async fn turn(&self, context: &mut TurnContext, next: TurnNext<'_>) -> Result<TurnOutcome, TurnError> {
        next.run(context).await
    }

    /// Around one step: one model call and the tool calls that it asks for.
    async fn step(&self, context: &mut StepContext<'_>, next: StepNext<'_>) -> Result<StepOutcome, TurnError> {
        next.run(context).await
    }

    /// Around one tool call. Calls of one step run at the same time.
    async fn tool_call(&self, context: &mut ToolCallContext, next: ToolCallNext<'_>) -> ToolCallResult {
        next.run(context).await
    }
}

/// The rest of a chain.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [Arc<dyn Middleware>]);

impl<'a> Rest<'a> {
    fn split(self) -> Option<(&'a Arc<dyn Middleware>, Rest<'a>)> {
        self.0.split_first().map(|(first, rest)| (first, Rest(rest)))
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

/// A text answer does not end a turn before any of the required tools has succeeded in it (rule M5).
pub struct RequiredToolsGuard {
    tools: BTreeSet<String>,
    /// Turns in which one has succeeded.
    satisfied: Mutex<BTreeSet<String>>,
}

impl RequiredToolsGuard {
    /// A guard for these tools.
    pub fn new(tools: impl IntoIterator<Item = String>) -> Self {
        RequiredToolsGuard { tools: tools.into_iter().collect(), satisfied: Mutex::default() }
    }

    fn satisfied(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.satisfied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reminder(&self) -> String {
        let names = self.tools.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("Before you answer, call at least one of these tools successfully: {names}.")
    }
}

#[async_trait]
impl Middleware for RequiredToolsGuard {
    fn name(&self) -> &str {
        "required-tools-guard"
    }

    async fn turn(&self, context: &mut TurnContext, next: TurnNext<'_>) -> Result<TurnOutcome, TurnError> {
        let turn_id = context.turn_id().to_owned();
        let outcome = next.run(context).await;
        self.satisfied().remove(&turn_id);
        outcome
    }

    async fn step(&self, context: &mut StepContext<'_>, next: StepNext<'_>) -> Result<StepOutcome, TurnError> {
        let mut outcome = next.run(context).await?;
        let turn_id = context.turn().turn_id().to_owned();
        let succeeded = outcome
            .results
            .iter()
            .any(|result| result.status == ToolCallStatus::Ok && self.tools.contains(&result.tool_name));
        if succeeded {
            self.satisfied().insert(turn_id);
        } else if !outcome.should_continue && !self.satisfied().contains(&turn_id) {
            context.turn().append_text(Role::User, self.name(), &self.reminder())?;
            outcome.should_continue = true;
        }
        Ok(outcome)
    }
}
