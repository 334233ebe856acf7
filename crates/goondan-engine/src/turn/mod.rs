//! One turn: takes an event, runs steps, and returns a [`TurnResult`] (rule M1).

pub(crate) mod budget;
mod call_order;
mod context;
pub(crate) mod context_usage;
mod conversation_cache;
mod conversation_operations;
mod effects;
pub(crate) mod facts;
pub(crate) mod instance;
pub mod instructions;
mod joining_events;
mod joining_inputs;
mod journal_repair;
pub(crate) mod model_call;
pub(crate) mod model_call_timing;
mod poison;
mod prompt_excerpt;
pub(crate) mod rate_limiter;
mod recorded_call;
mod repetition;
pub mod step;
mod step_context;
mod step_messages;
pub(crate) mod store_retry;

use std::sync::Arc;

use goondan_spec::Code;
use goondan_spec::kinds::SwarmPolicy;

pub(crate) use self::context::{ConversationLog, TurnProgress};
pub use self::context::{TurnContext, TurnOutcome};
pub(crate) use self::effects::{model_effect, step_id, tool_effect};
pub(crate) use self::turn_errors::{cancelled_error, store_failure_error};
use crate::engine::Engine;
use crate::middleware::{self, TurnNext};
use crate::tooling::dispatch::TurnScope;
use crate::turn::budget::UsageTotals;
pub(crate) use crate::turn::conversation_cache::ConversationCache;
pub(crate) use crate::turn::joining_events::JoiningEvents;
pub(crate) use crate::turn::poison::TurnInterruption;
use crate::usage_increment::UsageIncrement;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{FinishReason, RuntimeEventKind, TurnError, TurnResult, UsageCost};
use goondan_core::message::{MessagePart, MessageRole, MessageSource};
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};

/// Consecutive empty answers after which a turn ends (rule T10).
const MAX_EMPTY_ANSWERS: u32 = 3;

const EMPTY_ANSWER_REMINDER: &str = "Your last answer was empty. Answer with text, or call a tool.";

/// Runs the turn of `event` through the agent's middleware, with its runtime events. The user
/// message is appended first.
pub(crate) async fn run(context: &mut TurnContext, event: &AgentEvent) -> TurnResult {
    let turn_id = context.facts.turn_id.clone();
    context.publish(RuntimeEventKind::TurnStarted {
        turn_id: turn_id.clone(),
        event_id: event.id.clone(),
        event_type: event.event_type.clone(),
    });
    let outcome = match event.operation() {
        Some(operation) => conversation_operations::run(context, operation).await,
        None => handle_event(context, event).await,
    };
    let layers = Arc::clone(&context.facts.layers);
    context.keep_states(&layers);
    let outcome = outcome.map_err(|mut error| {
        context.engine.redactor.clean(&mut error.message);
        error
    });
    let (finish_reason, response, error) = match outcome {
        Ok(outcome) => (outcome.finish_reason, outcome.response, None),
        Err(error) if error.code == Code::TURN_CANCELLED => {
            (FinishReason::Cancelled, None, Some(error))
        }
        Err(error) => (FinishReason::Error, None, Some(error)),
    };
    TurnResult {
        turn_id,
        model_finish_reason: context
            .progress
            .cut_reason
            .take()
            .filter(|_| finish_reason != FinishReason::Error),
        finish_reason,
        response_message: response.map(Arc::unwrap_or_clone),
        output: context.progress.output.take(),
        error,
        usage: context.progress.usage,
        step_count: context.progress.steps,
    }
}

/// Appends the messages of `event`, and runs the turn through the agent's middleware.
async fn handle_event(
    context: &mut TurnContext,
    event: &AgentEvent,
) -> Result<TurnOutcome, TurnError> {
    context.open_with_history(event).await?;
    context.append_event(event).await?;
    middleware::attach_extensions(context).await?;
    let layers = Arc::clone(&context.facts.layers);
    TurnNext::new(&layers.turn, |context| Box::pin(steps(context)))
        .run(context)
        .await
}

/// Publishes the end of a turn that is durable.
pub(crate) fn publish_end(
    engine: &Engine,
    facts: &TurnScope,
    result: &TurnResult,
    cost: Option<UsageCost>,
    duration: u64,
) {
    let turn_id = result.turn_id.clone();
    let token_usage = (result.usage != TokenUsage::default()).then_some(result.usage);
    let kind = match (&result.error, result.finish_reason) {
        (Some(error), FinishReason::Error) => {
            let (error_message, error_code) = (error.message.clone(), Some(error.code.clone()));
            RuntimeEventKind::TurnFailed {
                turn_id,
                duration,
                error_message,
                error_code,
                token_usage,
                cost,
            }
        }
        _ => RuntimeEventKind::TurnCompleted {
            turn_id,
            step_count: result.step_count,
            duration,
            finish_reason: result.finish_reason,
            model_finish_reason: result.model_finish_reason.clone(),
            token_usage,
            cost,
        },
    };
    engine.bus.runtime(&facts.instance, &facts.trace, kind);
}

/// Runs the steps of a turn, inside all turn middleware. A turn that exceeds its duration budget is
/// cut off, including during a model or tool call.
async fn steps(context: &mut TurnContext) -> Result<TurnOutcome, TurnError> {
    let policy = context.engine.generation.load().policy.clone();
    let own_usage = UsageTotals::new(&context.facts.tracker);
    let (cancel, limit) = (context.cancel.clone(), policy.turn_budget.max_duration);
    let over_budget = async {
        own_usage.exceeded_duration(limit).await;
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    let was_cancelled = context.cancel.is_cancelled();
    let outcome = tokio::select! {
        biased;
        outcome = run_steps(context, &policy, &own_usage) => outcome,
        () = over_budget => unreachable!("it never completes"),
    };
    match outcome {
        Err(error) if error.code == Code::TURN_CANCELLED && !was_cancelled => {
            own_usage.check_duration(limit, "policy.turnBudget")?;
            Err(error)
        }
        outcome => outcome,
    }
}

/// Runs the steps of a turn.
async fn run_steps(
    context: &mut TurnContext,
    policy: &SwarmPolicy,
    own: &UsageTotals,
) -> Result<TurnOutcome, TurnError> {
    // Includes model calls of middleware before the first step.
    own.add_tokens(context.progress.usage);
    let mut response = None;
    for index in 0..policy.max_steps_per_turn {
        // A cancelled turn that is resumed first replays its recorded steps.
        if context.cancel.is_cancelled() && !context.journal.has_outcome(&model_effect(index)) {
            return Err(cancelled_error());
        }
        context.engine.check_budget(&policy.budget).await?;
        own.check(&policy.turn_budget, "policy.turnBudget")?;
        budget::check_cost(
            context.progress.cost.as_ref(),
            &policy.turn_budget,
            "policy.turnBudget",
        )?;
        context.take_joining_events(index).await?;
        context.progress.steps = index + 1;
        let outcome = step::run(context, index).await?;
        let usage = outcome.usage.unwrap_or_default();
        context.progress.usage += usage;
        context.engine.record_usage(UsageIncrement {
            usage,
            is_step: true,
            cost: None,
        });
        own.add_step(usage);
        context.progress.repetition.check_exceeded()?;
        context.progress.cut_reason = Some(outcome.finish_reason).filter(ModelFinishReason::is_cut);
        let was_empty = outcome.message.is_none();
        if let Some(message) = outcome.message.filter(|message| !message.text().is_empty()) {
            response = Some(message);
        }
        if was_empty {
            remind_of_empty_answer(context).await?;
        } else if outcome.should_continue || context.is_steered_after(index, policy) {
            context.progress.empty_answers = 0;
        } else {
            return Ok(TurnOutcome {
                finish_reason: FinishReason::TextResponse,
                response,
            });
        }
    }
    if context.cancel.is_cancelled() {
        return Err(cancelled_error());
    }
    Ok(TurnOutcome {
        finish_reason: FinishReason::MaxSteps,
        response,
    })
}

/// Appends a message that asks the model for an answer that is not empty.
async fn remind_of_empty_answer(context: &mut TurnContext) -> Result<(), TurnError> {
    context.progress.empty_answers += 1;
    if context.progress.empty_answers >= MAX_EMPTY_ANSWERS {
        let message = format!("the model gave {MAX_EMPTY_ANSWERS} empty answers in a row");
        return Err(TurnError::new(Code::MODEL_EMPTY, message)
            .suggest("Check the model's limits (`params.maxTokens`) and the prompt."));
    }
    let content = vec![MessagePart::text(EMPTY_ANSWER_REMINDER.to_owned())];
    context
        .append(MessageRole::User, content, MessageSource::System)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests;
mod turn_errors;
mod turn_start;
