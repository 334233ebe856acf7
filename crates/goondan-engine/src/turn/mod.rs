//! One turn: an event goes in, steps follow each other, a [`TurnResult`] comes out (rule M1).

pub(crate) mod budget;
pub(crate) mod facts;
pub(crate) mod instance;
pub mod instructions;
pub(crate) mod model_call;
pub(crate) mod model_course;
pub(crate) mod pace;
mod said;
pub mod step;
mod warm;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_spec::Code;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Spending};
use crate::middleware::{self, ExtensionStates, Notes, TurnNext};
use crate::tooling::dispatch::TurnFacts;
use crate::tooling::registry::Catalog;
use crate::turn::budget::Spent;
pub(crate) use crate::turn::warm::Warm;
use goondan_core::JsonObject;
use goondan_core::conversation::Conversation;
use goondan_core::event::{Cost, FinishReason, RuntimeEventKind, TurnError, TurnResult};
use goondan_core::ids::message_id;
use goondan_core::inbound::AgentEvent;
use goondan_core::message::{Message, MessageData, MessageEvent, MessageSource, Part, Role};
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, TurnJournal, WhenInterrupted};
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use goondan_core::ports::store::{OpenConversation, StoreError};

/// That many empty answers in a row end a turn (rule T10).
const MAX_EMPTY_ANSWERS: u32 = 3;

const EMPTY_ANSWER_REMINDER: &str = "Your last answer was empty. Answer with text, or call a tool.";

/// Answers to asynchronous requests that arrive while a turn runs (rule A5). The orchestrator puts them in; the turn
/// takes them out before a step.
#[derive(Clone, Default)]
pub(crate) struct JoinBox(Arc<Joined>);

#[derive(Default)]
struct Joined {
    events: Mutex<Vec<AgentEvent>>,
    came: Notify,
}

impl JoinBox {
    pub(crate) fn put(&self, event: AgentEvent) {
        self.events().push(event);
        self.0.came.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<AgentEvent> {
        std::mem::take(&mut *self.events())
    }

    /// What lies behind the first `count`. For a turn that runs elsewhere: it takes nothing out here.
    pub(crate) fn behind(&self, count: usize) -> Vec<AgentEvent> {
        self.events().iter().skip(count).cloned().collect()
    }

    /// Waits until something may have come.
    pub(crate) async fn came(&self) {
        self.0.came.notified().await;
    }

    fn is_empty(&self) -> bool {
        self.events().is_empty()
    }

    pub(crate) fn forget(&self, ids: &HashSet<&str>) {
        self.events()
            .retain(|event| !ids.contains(event.id.as_str()));
    }

    fn events(&self) -> MutexGuard<'_, Vec<AgentEvent>> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on its way through middleware.
pub struct TurnContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Arc<TurnFacts>,
    pub(crate) event: Arc<AgentEvent>,
    pub(crate) journal: Arc<dyn TurnJournal>,
    pub(crate) cancel: CancellationToken,
    pub(crate) log: ConversationLog,
    pub(crate) joined: JoinBox,
    pub(crate) progress: TurnProgress,
    pub(crate) states: ExtensionStates,
    pub(crate) notes: Notes,
}

/// A conversation with the store that it is written to.
pub(crate) struct ConversationLog {
    pub(crate) conversation: Conversation,
    pub(crate) store: Box<dyn OpenConversation>,
}

/// How far a turn has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnProgress {
    pub(crate) next_message: u32,
    pub(crate) steps: u32,
    pub(crate) empty_answers: u32,
    pub(crate) usage: TokenUsage,
    /// What it cost, where the models that were asked have prices.
    pub(crate) cost: Option<Cost>,
    /// The answer as data, where the agent states its output.
    pub(crate) output: Option<Value>,
    /// Events that joined the turn after it began.
    pub(crate) joined_ids: Vec<String>,
    /// The reason why the model cut its last answer off.
    pub(crate) cut_reason: Option<ModelFinishReason>,
}

impl TurnProgress {
    /// Adds what an answer cost. All models of an agent have their prices in one currency.
    pub(crate) fn pay(&mut self, cost: Option<Cost>) {
        match (&mut self.cost, cost) {
            (Some(paid), Some(cost)) => paid.amount += cost.amount,
            (nothing @ None, cost) => *nothing = cost,
            (Some(_), None) => {}
        }
    }
}

/// How a turn ended, as middleware sees it.
#[derive(Debug, Clone)]
pub struct TurnOutcome {
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The model's last message.
    pub response: Option<Arc<Message>>,
}

impl TurnContext {
    /// The turn's id.
    pub fn turn_id(&self) -> &str {
        &self.facts.turn_id
    }

    /// Base and events as they stand.
    pub fn conversation(&self) -> &Conversation {
        &self.log.conversation
    }

    /// Changes the conversation; the change is appended to the turn's events. An unknown target changes nothing, nor does a
    /// new message whose id is taken.
    pub async fn emit(&mut self, event: MessageEvent) -> Result<(), TurnError> {
        if let Some(message_id) = self.conversation().taken_id(&event) {
            let instance = &self.facts.instance;
            tracing::warn!(%instance, message_id, "a message was left out: the conversation has one with that id");
            return Ok(());
        }
        self.log_event(event).await
    }

    async fn log_event(&mut self, event: MessageEvent) -> Result<(), TurnError> {
        self.log
            .store
            .append(&event)
            .await
            .map_err(|error| store_failed(&error))?;
        let told = self
            .facts
            .layers
            .transcript()
            .map(|transcript| (transcript, event.clone()));
        match self.log.conversation.apply(event) {
            Ok(()) => {
                if let Some((transcript, event)) = told {
                    transcript.push(event);
                }
            }
            Err(missing) => tracing::warn!(
                code = Code::MESSAGE_TARGET_NOT_FOUND.as_str(),
                instance = %self.facts.instance,
                target_id = missing.target_id,
                "a message event changed nothing"
            ),
        }
        Ok(())
    }

    /// A text message of a middleware, with the next id of the turn. [`TurnContext::emit`] puts it in place.
    pub fn new_message(
        &mut self,
        role: Role,
        extension: &str,
        text: &str,
        metadata: JsonObject,
    ) -> Message {
        let source = MessageSource::Extension {
            extension_name: extension.to_owned(),
        };
        self.numbered(role, vec![Part::text(text)], source, metadata)
    }

    /// Appends a text message of a middleware.
    pub async fn append_text(
        &mut self,
        role: Role,
        extension: &str,
        text: &str,
    ) -> Result<(), TurnError> {
        let message = self.new_message(role, extension, text, JsonObject::new());
        self.emit(MessageEvent::Append { message }).await
    }

    pub(crate) async fn append(
        &mut self,
        role: Role,
        content: Vec<Part>,
        source: MessageSource,
    ) -> Result<Arc<Message>, TurnError> {
        self.append_with(role, content, source, JsonObject::new())
            .await
    }

    pub(crate) async fn append_with(
        &mut self,
        role: Role,
        content: Vec<Part>,
        source: MessageSource,
        metadata: JsonObject,
    ) -> Result<Arc<Message>, TurnError> {
        let message = self.numbered(role, content, source, metadata);
        // The id is new: no need to look for it in a long conversation.
        self.log_event(MessageEvent::Append { message }).await?;
        Ok(Arc::clone(
            self.conversation()
                .last()
                .expect("a message was just appended"),
        ))
    }

    fn numbered(
        &mut self,
        role: Role,
        content: Vec<Part>,
        source: MessageSource,
        metadata: JsonObject,
    ) -> Message {
        let id = message_id(&self.facts.turn_id, self.progress.next_message);
        self.progress.next_message += 1;
        let message = step::message(id, role, content, source, self);
        Message {
            metadata,
            ..message
        }
    }

    /// The user message that an event becomes.
    pub(crate) async fn append_event(&mut self, event: &AgentEvent) -> Result<(), TurnError> {
        let text = Some(&event.input).filter(|text| !text.is_empty() || event.files.is_empty());
        let text = text.map(|text| Part::text(text.clone()));
        let content = text
            .into_iter()
            .chain(event.files.iter().cloned().map(Part::File))
            .collect();
        self.append_with(
            Role::User,
            content,
            MessageSource::User,
            event.metadata.clone(),
        )
        .await
        .map(drop)
    }

    /// What an event brings along of an earlier conversation opens this one, where nothing was said in it yet.
    async fn open_with_history(&mut self, event: &AgentEvent) -> Result<(), TurnError> {
        if self.conversation().last().is_some() {
            return Ok(());
        }
        for MessageData { role, content } in &event.history {
            let source = match role {
                Role::Assistant => MessageSource::Assistant {
                    step_id: format!("{}-history", self.facts.turn_id),
                },
                _ => MessageSource::User,
            };
            self.append(*role, content.clone(), source).await?;
        }
        Ok(())
    }

    /// The agent's tools as they are planned now: tools change at the next step (rule R3).
    pub(crate) fn current_catalog(&self) -> Catalog {
        let agent = self.engine.agent(&self.facts.instance.agent);
        let catalog = agent.map_or_else(
            || self.facts.agent.catalog.clone(),
            |agent| agent.catalog.clone(),
        );
        let catalog = self.facts.layers.catalog(catalog);
        let catalog = match &self.facts.narrowing {
            Some(left) => catalog.filtered(|tool| left.allows(tool.builtin.as_deref())),
            None => catalog,
        };
        match &self.facts.agent.answer_tool {
            Some(tool) => catalog.with(std::slice::from_ref(tool)),
            None => catalog,
        }
    }

    fn publish(&self, kind: RuntimeEventKind) {
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.facts.trace, kind);
    }

    /// Takes in what arrived since the last step. Journaled, so that a resumed turn takes in the same.
    async fn join_answers(&mut self, index: u32) -> Result<(), TurnError> {
        let id = format!("step-{index}/inbox");
        // A step that a resumed turn has behind it took in what is recorded, and nothing else.
        let is_behind = self.journal.has_outcome(&model_effect(index));
        if !self.journal.has_outcome(&id) && (is_behind || self.joined.is_empty()) {
            return Ok(());
        }
        let effect = Effect {
            id,
            kind: EffectKind::Inbox,
            intent: Value::Null,
            when_interrupted: WhenInterrupted::RunAgain,
        };
        let joined = self.joined.clone();
        let outcome = self
            .journal
            .run(effect, Box::pin(async move { joined.take() }))
            .await;
        let Outcome::Done { value: events, .. } = outcome.map_err(|error| store_failed(&error))?
        else {
            unreachable!("taking in is run again")
        };
        self.joined
            .forget(&events.iter().map(|event| event.id.as_str()).collect());
        for event in events {
            // Before its text can make a model call anything.
            Arc::make_mut(&mut self.facts).join(&event);
            self.append_event(&event).await?;
            self.progress.joined_ids.push(event.id);
        }
        Ok(())
    }
}

pub(crate) fn model_effect(step: u32) -> String {
    format!("step-{step}/model")
}

/// Runs the turn of `event` through the agent's middleware, with its events. The user message is appended first.
pub(crate) async fn run(context: &mut TurnContext, event: &AgentEvent) -> TurnResult {
    let turn_id = context.facts.turn_id.clone();
    context.publish(RuntimeEventKind::TurnStarted {
        turn_id: turn_id.clone(),
        event_id: event.id.clone(),
        event_type: event.event_type.clone(),
    });
    let begun = match context.open_with_history(event).await {
        Ok(()) => context.append_event(event).await,
        Err(error) => Err(error),
    };
    let begun = match begun {
        Ok(()) => middleware::attach(context).await,
        Err(error) => Err(error),
    };
    let layers = Arc::clone(&context.facts.layers);
    let outcome = match begun {
        Ok(()) => TurnNext::new(&layers.turn).run(context).await,
        Err(error) => Err(error),
    };
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

/// Tells that a turn is over, once it is on disk.
pub(crate) fn publish_end(
    engine: &Engine,
    facts: &TurnFacts,
    result: &TurnResult,
    cost: Option<Cost>,
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

/// The steps of a turn, behind all turn middleware.
pub(crate) async fn steps(context: &mut TurnContext) -> Result<TurnOutcome, TurnError> {
    let policy = context.engine.generation.load().policy.clone();
    let own = Spent::new(&context.facts.life);
    // What middleware has asked before the first step.
    own.add_tokens(context.progress.usage);
    let mut response = None;
    for index in 0..policy.max_steps_per_turn {
        // A turn that was begun before it was cancelled first takes up what had happened.
        if context.cancel.is_cancelled() && !context.journal.has_outcome(&model_effect(index)) {
            return Err(cancelled());
        }
        context.engine.check_budget(&policy.budget).await?;
        own.check(&policy.turn_budget, "policy.turnBudget")?;
        budget::check_cost(
            context.progress.cost.as_ref(),
            &policy.turn_budget,
            "policy.turnBudget",
        )?;
        context.join_answers(index).await?;
        context.progress.steps = index + 1;
        let outcome = step::run(context, index).await?;
        let usage = outcome.usage.unwrap_or_default();
        context.progress.usage += usage;
        context.engine.spend(Spending {
            usage,
            is_step: true,
            cost: None,
        });
        own.add_step(usage);
        context.progress.cut_reason = Some(outcome.finish_reason).filter(ModelFinishReason::is_cut);
        let was_empty = outcome.message.is_none();
        if let Some(message) = outcome.message.filter(|message| !message.text().is_empty()) {
            response = Some(message);
        }
        if was_empty {
            remind_of_empty_answer(context).await?;
        } else if !outcome.should_continue {
            return Ok(TurnOutcome {
                finish_reason: FinishReason::TextResponse,
                response,
            });
        } else {
            context.progress.empty_answers = 0;
        }
    }
    if context.cancel.is_cancelled() {
        return Err(cancelled());
    }
    Ok(TurnOutcome {
        finish_reason: FinishReason::MaxSteps,
        response,
    })
}

async fn remind_of_empty_answer(context: &mut TurnContext) -> Result<(), TurnError> {
    context.progress.empty_answers += 1;
    if context.progress.empty_answers >= MAX_EMPTY_ANSWERS {
        let message = format!("the model gave {MAX_EMPTY_ANSWERS} empty answers in a row");
        return Err(TurnError::new(Code::MODEL_EMPTY, message)
            .suggest("Look at the model's limits (`params.maxTokens`) and at the prompt."));
    }
    let content = vec![Part::text(EMPTY_ANSWER_REMINDER.to_owned())];
    context
        .append(Role::User, content, MessageSource::System)
        .await
        .map(drop)
}

pub(crate) fn cancelled() -> TurnError {
    TurnError::new(Code::TURN_CANCELLED, "the turn was cancelled")
}

/// The error of a turn that could not be put on disk. It is not over.
pub(crate) fn store_failed(error: &StoreError) -> TurnError {
    if let StoreError::Damaged { .. } = error {
        return TurnError::new(Code::JOURNAL, error.to_string());
    }
    TurnError::new(Code::STORE, error.to_string()).suggest(
        "Make room on the disk or fix the permissions of the state folder; the turn resumes at the next start, or when \
         something is sent to the instance again",
    )
}

#[cfg(test)]
mod tests;
