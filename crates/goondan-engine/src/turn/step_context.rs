//! State and outcome of a step.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use goondan_core::JsonObject;
use goondan_core::event::RuntimeEventKind;
use goondan_core::ids::TraceContext;
use goondan_core::message::Message;
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use goondan_core::ports::tool::ToolCallResult;

use crate::tooling::registry::ToolCatalog;
use crate::turn::TurnContext;

/// A running step, as middleware receives it.
pub struct StepContext<'a> {
    pub(super) turn: &'a mut TurnContext,
    /// Index of the step in the turn, from 0.
    pub index: u32,
    /// Tools that the model is offered and may call in this step.
    pub catalog: ToolCatalog,
    /// Metadata that the middleware of this step share.
    pub(crate) metadata: JsonObject,
    pub(super) id: String,
    pub(super) trace: TraceContext,
    /// True if part of the step was not recorded before the turn was resumed.
    pub(crate) is_new: AtomicBool,
}

/// Result of a step.
#[derive(Debug, Clone)]
pub struct StepOutcome {
    /// True if another step follows. The core sets this field if the model called tools; middleware
    /// may change it.
    pub should_continue: bool,
    /// Message of the model; `None` for an empty answer.
    pub message: Option<Arc<Message>>,
    /// Results of the tool calls, in call order.
    pub results: Vec<ToolCallResult>,
    /// Token usage of the model call.
    pub usage: Option<TokenUsage>,
    /// Reason for the end of the answer.
    pub finish_reason: ModelFinishReason,
}

impl StepContext<'_> {
    /// Returns the turn.
    pub fn turn(&mut self) -> &mut TurnContext {
        self.turn
    }

    /// Returns the step id, `<turnId>-step-<index>`.
    pub fn step_id(&self) -> &str {
        &self.id
    }

    /// Returns all tools of the agent, without the changes of middleware.
    pub(crate) fn all_tools(&self) -> ToolCatalog {
        self.turn.current_catalog()
    }

    /// Returns the id of the journal effect `what` of this step.
    pub(super) fn effect_id(&self, what: &str) -> String {
        format!("step-{}/{what}", self.index)
    }

    /// Publishes a runtime event of this step.
    pub(super) fn publish(&self, kind: RuntimeEventKind) {
        self.turn
            .engine
            .bus
            .runtime(&self.turn.facts.instance, &self.trace, kind);
    }
}
