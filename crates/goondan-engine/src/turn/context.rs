//! State of a running turn, and its operations on the conversation.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use goondan_core::JsonObject;
use goondan_core::agent_event::AgentEvent;
use goondan_core::conversation::Conversation;
use goondan_core::event::{FinishReason, RuntimeEventKind, TurnError, UsageCost};
use goondan_core::ids::message_id;
use goondan_core::message::{
    Message, MessageData, MessageEvent, MessagePart, MessageRole, MessageSource,
};
use goondan_core::ports::journal::TurnJournal;
use goondan_core::ports::model::{ModelFinishReason, TokenUsage};
use goondan_core::ports::store::OpenConversation;
use goondan_spec::Code;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::step_messages::message;
use super::turn_errors::store_failure_error;
use crate::engine::Engine;
use crate::middleware::{ExtensionStates, TurnNotes};
use crate::tooling::dispatch::TurnScope;
use crate::tooling::registry::{RegisteredTool, ToolCatalog};
use crate::turn::joining_events::JoiningEvents;
use crate::turn::repetition::RepetitionGuard;

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
    pub(super) async fn log_event(&mut self, event: MessageEvent) -> Result<(), TurnError> {
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
    pub(super) fn create_message(
        &mut self,
        role: MessageRole,
        content: Vec<MessagePart>,
        source: MessageSource,
        metadata: JsonObject,
    ) -> Message {
        let id = message_id(&self.facts.turn_id, self.progress.next_message);
        self.progress.next_message += 1;
        let recorded_time = self.recorded_times.get(&id).copied();
        let message = message(id, role, content, source, self);
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
    pub(super) async fn open_with_history(&mut self, event: &AgentEvent) -> Result<(), TurnError> {
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
    pub(super) fn publish(&self, kind: RuntimeEventKind) {
        self.engine
            .bus
            .runtime(&self.facts.instance, &self.facts.trace, kind);
    }
}
