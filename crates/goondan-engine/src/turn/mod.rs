//! One turn: takes an event, runs steps, and returns a [`TurnResult`] (rule M1).

pub(crate) mod budget;
mod call_order;
pub(crate) mod context_usage;
mod conversation_cache;
mod conversation_operations;
pub(crate) mod facts;
pub(crate) mod instance;
pub mod instructions;
mod joining_events;
mod journal_repair;
pub(crate) mod model_call;
pub(crate) mod model_call_timing;
mod poison;
mod prompt_excerpt;
pub(crate) mod rate_limiter;
mod recorded_call;
mod repetition;
pub mod step;
pub(crate) mod store_retry;

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_spec::Code;
use goondan_spec::kinds::SwarmPolicy;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, UsageIncrement};
use crate::middleware::{self, ExtensionStates, TurnNext, TurnNotes};
use crate::tooling::dispatch::TurnScope;
use crate::tooling::registry::{RegisteredTool, ToolCatalog};
use crate::turn::budget::UsageTotals;
pub(crate) use crate::turn::conversation_cache::ConversationCache;
pub(crate) use crate::turn::joining_events::JoiningEvents;
pub(crate) use crate::turn::poison::TurnInterruption;
use crate::turn::repetition::RepetitionGuard;
use goondan_core::JsonObject;
use goondan_core::agent_event::AgentEvent;
use goondan_core::conversation::Conversation;
use goondan_core::event::{FinishReason, RuntimeEventKind, TurnError, TurnResult, UsageCost};
use goondan_core::ids::message_id;
use goondan_core::message::{
    Message, MessageData, MessageEvent, MessagePart, MessageRole, MessageSource,
};
use goondan_core::ports::journal::TurnJournal;
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use goondan_core::ports::store::{OpenConversation, StoreError};

/// Consecutive empty answers after which a turn ends (rule T10).
const MAX_EMPTY_ANSWERS: u32 = 3;

const EMPTY_ANSWER_REMINDER: &str = "Your last answer was empty. Answer with text, or call a tool.";

/// A running turn, as middleware receives it.
pub struct TurnContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnScope>,
    pub(crate) event: Arc<AgentEvent>,
    pub(crate) journal: Arc<dyn TurnJournal>,
    pub(crate) cancel: CancellationToken,
    pub(crate) log: ConversationLog,
    /// Times of the messages that the turn made before it was interrupted, by message id. A resumed
    /// turn makes the same messages again, and they keep their times.
    pub(crate) recorded_times: HashMap<String, DateTime<Utc>>,
    pub(crate) joined: JoiningEvents,
    pub(crate) progress: TurnProgress,
    pub(crate) states: ExtensionStates,
    pub(crate) notes: TurnNotes,
}

pub(crate) struct ConversationLog {
    pub(crate) conversation: Conversation,
    pub(crate) store: Box<dyn OpenConversation>,
}

/// Progress of a turn.
#[derive(Clone, Default)]
pub(crate) struct TurnProgress {
    pub(crate) next_message: u32,
    pub(crate) steps: u32,
    pub(crate) empty_answers: u32,
    pub(crate) usage: TokenUsage,
    /// Cost of the turn, if the models have prices.
    pub(crate) cost: Option<UsageCost>,
    /// Structured answer, if the agent defines an output schema.
    pub(crate) output: Option<Value>,
    pub(crate) joined_ids: Vec<String>,
    /// Limit that truncated the last answer.
    pub(crate) cut_reason: Option<ModelFinishReason>,
    pub(crate) answer_fallback: AnswerFallback,
    pub(crate) repetition: RepetitionGuard,
}

/// Tool for structured answers that is used if a server refuses the schema.
#[derive(Clone, Default)]
pub(crate) struct AnswerFallback {
    pub(crate) tool: Option<Arc<RegisteredTool>>,
    pub(crate) is_active: bool,
}

impl AnswerFallback {
    /// Returns the answer tool; `None` while the model answers as text.
    pub(crate) fn active_tool(&self) -> Option<&Arc<RegisteredTool>> {
        self.tool.as_ref().filter(|_| self.is_active)
    }
}

impl TurnProgress {
    /// Adds the cost of an answer. All models of an agent use one currency.
    pub(crate) fn add_cost(&mut self, cost: Option<UsageCost>) {
        match (&mut self.cost, cost) {
            (Some(paid), Some(cost)) => paid.amount += cost.amount,
            (nothing @ None, cost) => *nothing = cost,
            (Some(_), None) => {}
        }
    }
}

/// End of a turn, as middleware receives it.
#[derive(Debug, Clone)]
pub struct TurnOutcome {
    /// Reason for the end.
    pub finish_reason: FinishReason,
    /// Last message of the model.
    pub response: Option<Arc<Message>>,
}

impl TurnContext {
    /// Returns the turn id.
    pub fn turn_id(&self) -> &str {
        &self.facts.turn_id
    }

    /// Returns the current conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.log.conversation
    }

    /// Applies a change to the conversation and appends it to the turn's events. An unknown target
    /// or a new message with an existing id changes nothing.
    pub async fn emit(&mut self, event: MessageEvent) -> Result<(), TurnError> {
        if let Some(message_id) = self.conversation().duplicate_id(&event) {
            let instance = &self.facts.instance;
            tracing::warn!(%instance, message_id, "a message was skipped: the conversation \
                already has a message with its ID");
            return Ok(());
        }
        self.log_event(event).await
    }

    /// Stores a message event, then applies it to the conversation and passes it to the extensions.
    async fn log_event(&mut self, event: MessageEvent) -> Result<(), TurnError> {
        self.log
            .store
            .append(&event)
            .await
            .map_err(|error| store_failure_error(&error))?;
        let extension_event = self
            .facts
            .layers
            .transcript()
            .map(|transcript| (transcript, event.clone()));
        match self.log.conversation.apply(event) {
            Ok(()) => {
                if let Some((transcript, event)) = extension_event {
                    transcript.push(event);
                }
            }
            Err(missing) => tracing::warn!(
                code = Code::MESSAGE_TARGET_NOT_FOUND.as_str(),
                instance = %self.facts.instance,
                target_id = missing.target_id,
                "a message event changed nothing: its target message does not exist"
            ),
        }
        Ok(())
    }

    /// Creates a text message of a middleware with the next id of the turn. Use
    /// [`TurnContext::emit`] to add the message.
    pub fn new_message(
        &mut self,
        role: MessageRole,
        extension: &str,
        text: &str,
        metadata: JsonObject,
    ) -> Message {
        let source = MessageSource::Extension {
            extension_name: extension.to_owned(),
        };
        self.create_message(role, vec![MessagePart::text(text)], source, metadata)
    }

    /// Appends a text message of a middleware.
    pub async fn append_text(
        &mut self,
        role: MessageRole,
        extension: &str,
        text: &str,
    ) -> Result<(), TurnError> {
        let message = self.new_message(role, extension, text, JsonObject::new());
        self.emit(MessageEvent::Append { message }).await
    }

    /// Appends a message without metadata and returns it.
    pub(crate) async fn append(
        &mut self,
        role: MessageRole,
        content: Vec<MessagePart>,
        source: MessageSource,
    ) -> Result<Arc<Message>, TurnError> {
        self.append_with(role, content, source, JsonObject::new())
            .await
    }

    /// Appends a message and returns it.
    pub(crate) async fn append_with(
        &mut self,
        role: MessageRole,
        content: Vec<MessagePart>,
        source: MessageSource,
        metadata: JsonObject,
    ) -> Result<Arc<Message>, TurnError> {
        let message = self.create_message(role, content, source, metadata);
        // The id is new, so searching a long conversation for it is unnecessary.
        self.log_event(MessageEvent::Append { message }).await?;
        Ok(Arc::clone(
            self.conversation()
                .last()
                .expect("a message was just appended"),
        ))
    }

    /// Creates a message with the next id of this turn.
    fn create_message(
        &mut self,
        role: MessageRole,
        content: Vec<MessagePart>,
        source: MessageSource,
        metadata: JsonObject,
    ) -> Message {
        let id = message_id(&self.facts.turn_id, self.progress.next_message);
        self.progress.next_message += 1;
        let recorded_time = self.recorded_times.get(&id).copied();
        let message = step::message(id, role, content, source, self);
        Message {
            metadata,
            created_at: recorded_time.unwrap_or(message.created_at),
            ..message
        }
    }

    /// Appends the user message of an event.
    pub(crate) async fn append_event(&mut self, event: &AgentEvent) -> Result<(), TurnError> {
        let text = Some(&event.input).filter(|text| !text.is_empty() || event.files.is_empty());
        let text = text.map(|text| MessagePart::text(text.clone()));
        let content = text
            .into_iter()
            .chain(event.files.iter().cloned().map(MessagePart::File))
            .collect();
        self.append_with(
            MessageRole::User,
            content,
            MessageSource::User,
            event.metadata.clone(),
        )
        .await
        .map(drop)
    }

    /// Opens an empty conversation with the earlier messages of an event.
    async fn open_with_history(&mut self, event: &AgentEvent) -> Result<(), TurnError> {
        if self.conversation().last().is_some() {
            return Ok(());
        }
        for MessageData { role, content } in &event.history {
            let source = match role {
                MessageRole::Assistant => MessageSource::Assistant {
                    step_id: format!("{}-history", self.facts.turn_id),
                },
                _ => MessageSource::User,
            };
            self.append(*role, content.clone(), source).await?;
        }
        Ok(())
    }

    /// Returns the agent's current tools: tool changes apply from the next step on (rule R3).
    pub(crate) fn current_catalog(&self) -> ToolCatalog {
        let agent = self.engine.agent(&self.facts.instance.agent);
        let catalog = agent.map_or_else(
            || self.facts.agent.catalog.clone(),
            |agent| agent.catalog.clone(),
        );
        let catalog = self.facts.layers.catalog(catalog);
        let catalog = match &self.facts.narrowing {
            Some(narrowing) => catalog.filtered(|tool| narrowing.allows(tool.builtin.as_deref())),
            None => catalog,
        };
        let fallback = self.progress.answer_fallback.active_tool();
        match self.facts.agent.answer_tool.as_ref().or(fallback) {
            Some(tool) => catalog.with(std::slice::from_ref(tool)),
            None => catalog,
        }
    }

    /// Publishes a runtime event of this turn.
    fn publish(&self, kind: RuntimeEventKind) {
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.facts.trace, kind);
    }
}

/// Returns the id of the journal effect for the model call of a step.
pub(crate) fn model_effect(step: u32) -> String {
    format!("step-{step}/model")
}

/// Returns the id of the journal effect for a tool call of a step. `index` is its position in the
/// model's answer.
pub(crate) fn tool_effect(step: u32, index: usize) -> String {
    format!("step-{step}/tool-{index}")
}

/// Returns the id of a step of a turn.
pub(crate) fn step_id(turn_id: &str, index: impl std::fmt::Display) -> String {
    format!("{turn_id}-step-{index}")
}

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
    TurnNext::new(&layers.turn).run(context).await
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
pub(crate) async fn steps(context: &mut TurnContext) -> Result<TurnOutcome, TurnError> {
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

pub(crate) fn cancelled_error() -> TurnError {
    TurnError::new(Code::TURN_CANCELLED, "the turn was cancelled")
}

/// Returns the error of a turn that could not be stored. The turn resumes at the next start.
pub(crate) fn store_failure_error(error: &StoreError) -> TurnError {
    if let StoreError::Damaged { .. } = error {
        return TurnError::new(Code::JOURNAL, error.to_string());
    }
    TurnError::new(Code::STORE, error.to_string()).suggest(
        "Free disk space or fix the permissions of the state directory; the turn resumes at the \
            next start, or when the instance receives another input",
    )
}

#[cfg(test)]
mod tests;
