//! Turn data and operations for middleware.

use std::any::{Any, TypeId};
use std::sync::Arc;

use serde_json::Value;

use super::MiddlewareStack;
use super::turn_state::StoredState;
use crate::plan::AgentPlan;
use crate::turn::model_call::ModelCall;
use crate::turn::model_call_timing::ModelCallTiming;
use crate::turn::{TurnContext, step, store_failure_error};
use crate::usage_increment::UsageIncrement;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnError;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessagePart, MessageRole, MessageSource};
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_core::ports::model::{ModelError, ModelRequest};
use goondan_core::ports::tool::AgentCatalog;
use goondan_core::reserved_names::is_extension_state;

/// Call of the agent's own model outside the conversation.
pub struct ModelQuery<'a> {
    /// Name of the calling extension.
    pub extension: &'a str,
    /// Purpose; unique among the calls of the extension in one turn.
    pub purpose: &'a str,
    /// System prompt, instead of the agent's own.
    pub instructions: String,
    /// User message.
    pub text: String,
}

impl TurnContext {
    /// Returns the instance of the turn.
    pub fn instance(&self) -> &InstanceId {
        &self.facts.instance
    }

    /// Returns the event that started the turn.
    pub fn event(&self) -> &AgentEvent {
        &self.event
    }

    /// Returns the agent in the generation in which the turn began.
    pub fn agent(&self) -> &AgentPlan {
        &self.facts.agent
    }

    /// Returns the agents of the running swarm that are visible to this agent.
    pub fn agents(&self) -> AgentCatalog {
        self.engine
            .generation
            .load()
            .seen_from(&self.facts.instance.agent)
    }

    /// Returns the trace id of the turn's causal chain.
    pub fn trace_id(&self) -> &str {
        &self.facts.trace.trace_id
    }

    /// Returns the number of steps begun so far.
    pub fn steps(&self) -> u32 {
        self.progress.steps
    }

    /// Returns true if this turn created `message`. Middleware that shortens a conversation keeps
    /// such messages.
    pub fn is_own(&self, message: &Message) -> bool {
        let number = message
            .id
            .strip_prefix(self.turn_id())
            .and_then(|rest| rest.strip_prefix("-m"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Returns the messages that this turn has created, newest first.
    pub fn own_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.conversation()
            .messages()
            .iter()
            .rev()
            .filter(|message| self.is_own(message))
    }

    /// Returns the note of type `T`, for later steps of this turn. A resumed turn starts without
    /// notes; its steps create them again.
    pub fn note<T: Any + Default + Send + Sync>(&mut self) -> &mut T {
        let note = self
            .notes
            .0
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::new(T::default()));
        note.downcast_mut()
            .expect("a note is stored under its own type")
    }

    /// Calls the agent's own model without tools. Returns its text or the model error.
    ///
    /// A finished call is not repeated when the turn resumes (rule C2b). Its cost counts for the
    /// turn, and its text is not streamed. An outer `Err` ends the turn.
    pub async fn ask_model(
        &mut self,
        question: ModelQuery<'_>,
    ) -> Result<Result<String, ModelError>, TurnError> {
        let agent = Arc::clone(&self.facts.agent);
        let effect_id = format!("{}/{}", question.extension, question.purpose);
        let source = MessageSource::Extension {
            extension_name: question.extension.to_owned(),
        };
        let id = format!("{}-{effect_id}", self.turn_id());
        let message = step::message(
            id,
            MessageRole::User,
            vec![MessagePart::text(question.text)],
            source,
            self,
        );
        let trace = self
            .facts
            .trace
            .child(&format!("{}-{effect_id}", self.turn_id()));
        let call = ModelCall {
            model: &agent.models[0],
            request: ModelRequest {
                instance: self.instance().clone(),
                system: Some(question.instructions),
                messages: vec![Arc::new(message)].into(),
                tools: Arc::new([]),
                params: Arc::clone(&agent.params),
                output: None,
                caller: self.engine.tracing.caller_trace(&trace),
                exchange: self.engine.exchange_recorder(),
            },
            turn_id: self.turn_id(),
            step_id: None,
            trace,
            course: ModelCallTiming::default(),
            bus: None,
            swarm: (
                &self.engine.rate_limiter,
                self.engine.generation.load().limits,
            ),
            engine_bus: &self.engine.bus,
            cancel: &self.cancel,
            tracker: &self.facts.tracker,
            has_fallback: false,
        };
        let budget = self.engine.generation.load().policy.budget.clone();
        self.engine.check_budget(&budget).await?;
        let answer = step::call_journaled(self, effect_id, call, &agent.models[1..]).await?;
        Ok(answer.map(|answer| {
            let usage = answer.usage.unwrap_or_default();
            self.progress.usage += usage;
            self.engine.record_usage(UsageIncrement {
                usage,
                is_step: false,
                cost: answer.cost.clone(),
            });
            self.progress.add_cost(answer.cost);
            answer
                .parts
                .iter()
                .filter_map(MessagePart::as_text)
                .collect()
        }))
    }

    /// Returns the state of `extension` for this instance: the value set in this turn or saved by
    /// an earlier turn.
    ///
    /// The value is journaled, so that a resumed turn reads it again. Names with a dot are reserved
    /// for the engine and return `None`.
    pub async fn state(&mut self, extension: &str) -> Result<Option<Value>, TurnError> {
        if !is_extension_state(extension) {
            return Ok(None);
        }
        if let Some(state) = self.states.0.get(extension) {
            return Ok(state.current.clone());
        }
        let effect_id = format!("{extension}/state");
        let stored = if self.journal.has_outcome(&effect_id) {
            None
        } else {
            self.stored_state(extension).await?
        };
        let effect = TurnEffect {
            id: effect_id,
            kind: EffectKind::ExtensionState,
            intent: Value::Null,
            when_interrupted: InterruptionPolicy::RunAgain,
        };
        let outcome = self
            .journal
            .run(effect, Box::pin(async { stored }))
            .await
            .map_err(|error| store_failure_error(&error))?;
        let EffectOutcome::Done { value, .. } = outcome else {
            unreachable!("an interrupted effect runs again")
        };
        let state = StoredState {
            stored: value.clone(),
            current: value.clone(),
        };
        self.states.0.insert(extension.to_owned(), state);
        Ok(value)
    }

    /// Takes over the states that hosted extensions have set in the turn.
    pub(crate) fn keep_states(&mut self, layers: &MiddlewareStack) {
        for (extension, extension_context) in &layers.extension_contexts {
            if let (Some(value), 1..) = extension_context.state.get() {
                self.set_state(extension, value);
            }
        }
    }

    /// Returns the state of an extension in the store; `None` if it never had one.
    async fn stored_state(&self, extension: &str) -> Result<Option<Value>, TurnError> {
        let record = self
            .engine
            .store
            .get(self.instance(), extension)
            .await
            .map_err(|error| store_failure_error(&error))?;
        Ok(record.map(|record| record.value))
    }

    /// Sets the state of `extension` for later turns of this instance. The state is saved when the
    /// turn ends, including after an error.
    pub fn set_state(&mut self, extension: &str, state: Value) {
        if !is_extension_state(extension) {
            tracing::error!(
                extension,
                "this name is reserved: names with a dot belong to the engine"
            );
            return;
        }
        self.states
            .0
            .entry(extension.to_owned())
            .or_default()
            .current = Some(state);
    }
}
