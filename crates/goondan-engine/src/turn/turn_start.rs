//! Inputs and end of one turn of an instance.

use std::sync::Arc;

use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{FinishReason, TurnError, TurnResult, UsageCost};
use goondan_core::ports::model::TokenUsage;
use goondan_core::ports::store::InstanceMeta;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::tooling::dispatch::TurnScope;
use crate::turn::{ConversationLog, JoiningEvents, TurnInterruption};

/// Input of a turn from the orchestrator.
pub(crate) struct TurnStart {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnScope>,
    pub(crate) event: AgentEvent,
    pub(crate) meta: InstanceMeta,
    /// The store has no entry for the instance yet.
    pub(crate) is_new: bool,
    pub(crate) joined: JoiningEvents,
    pub(crate) cancel: CancellationToken,
    /// Interruption of the turn by the end of an earlier process; `None` at the first start.
    pub(crate) interruption: Option<TurnInterruption>,
    /// Conversation from the in-memory cache.
    pub(crate) warm: Option<ConversationLog>,
}

/// Result of a turn for the orchestrator.
pub(crate) struct TurnEnd {
    pub(crate) result: TurnResult,
    /// Ids of the handled events; empty if the outcome could not be stored.
    pub(crate) handled: Vec<String>,
    /// Answer to an asynchronous request. The store has already accepted the answer.
    pub(crate) answer: Option<AgentEvent>,
    pub(crate) warm: Option<ConversationLog>,
    pub(crate) meta: InstanceMeta,
    /// Cost of the turn, if prices are known.
    pub(crate) cost: Option<UsageCost>,
}

/// Returns the result of a turn that ended before its first step.
pub(crate) fn failed_result(turn_id: String, error: TurnError) -> TurnResult {
    TurnResult {
        turn_id,
        finish_reason: FinishReason::Error,
        model_finish_reason: None,
        response_message: None,
        output: None,
        error: Some(error),
        usage: TokenUsage::default(),
        step_count: 0,
    }
}
