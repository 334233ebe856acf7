//! What middleware may learn of its turn, and do beside changing the conversation.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::Layers;
use crate::engine::Spending;
use crate::plan::AgentPlan;
use crate::turn::model_call::ModelCall;
use crate::turn::model_course::Course;
use crate::turn::step;
use crate::turn::{TurnContext, store_failed};
use goondan_core::event::TurnError;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::message::{Message, MessageSource, Part, Role};
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, WhenInterrupted};
use goondan_core::ports::model::{ModelError, ModelRequest};
use goondan_core::ports::store::{Store, StoreError, update};
use goondan_core::ports::tool::AgentCatalog;
use goondan_core::reserved::is_extension_state;

/// A question to the agent's own model, beside the conversation.
pub struct Question<'a> {
    /// The extension that asks.
    pub extension: &'a str,
    /// What it is for; unique among the questions of the extension in one turn.
    pub purpose: &'a str,
    /// Takes the place of the agent's system prompt.
    pub instructions: String,
    /// The question itself.
    pub text: String,
}

impl TurnContext {
    /// Whose turn it is.
    pub fn instance(&self) -> &InstanceId {
        &self.facts.instance
    }

    /// The event that started the turn.
    pub fn event(&self) -> &AgentEvent {
        &self.event
    }

    /// The agent as it was when the turn began.
    pub fn agent(&self) -> &AgentPlan {
        &self.facts.agent
    }

    /// The agents of the running swarm, as this one sees them.
    pub fn agents(&self) -> AgentCatalog {
        self.engine
            .generation
            .load()
            .seen_from(&self.facts.instance.agent)
    }

    /// The causal chain that the turn belongs to.
    pub fn trace_id(&self) -> &str {
        &self.facts.trace.trace_id
    }

    /// How many steps have begun.
    pub fn steps(&self) -> u32 {
        self.progress.steps
    }

    /// Whether this turn made `message`. What shortens a conversation leaves those alone.
    pub fn is_own(&self, message: &Message) -> bool {
        let number = message
            .id
            .strip_prefix(self.turn_id())
            .and_then(|rest| rest.strip_prefix("-m"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// The messages that this turn has made so far, newest first.
    pub fn own_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.conversation()
            .messages()
            .iter()
            .rev()
            .filter(|message| self.is_own(message))
    }

    /// What middleware notes for its later steps in this turn, by type. A turn that is resumed begins without notes, and its
    /// steps make them again.
    pub fn note<T: Any + Default + Send + Sync>(&mut self) -> &mut T {
        let note = self
            .notes
            .0
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::new(T::default()));
        note.downcast_mut().expect("a note lies under its own type")
    }

    /// Asks the agent's own model, without tools; the answer's text, or why there is none. The question is asked once in
    /// the life of the turn (rule C2b), its cost is the turn's, and nobody sees its text stream. An `Err` outside means
    /// that the turn has to end.
    pub async fn ask_model(
        &mut self,
        question: Question<'_>,
    ) -> Result<Result<String, ModelError>, TurnError> {
        let agent = Arc::clone(&self.facts.agent);
        let effect_id = format!("{}/{}", question.extension, question.purpose);
        let source = MessageSource::Extension {
            extension_name: question.extension.to_owned(),
        };
        let id = format!("{}-{effect_id}", self.turn_id());
        let message = step::message(
            id,
            Role::User,
            vec![Part::text(question.text)],
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
                caller: self.engine.tracing.caller(&trace),
            },
            turn_id: self.turn_id(),
            step_id: None,
            trace,
            course: Course::default(),
            bus: None,
            swarm: (&self.engine.pace, self.engine.generation.load().limits),
            engine_bus: &self.engine.bus,
            cancel: &self.cancel,
            life: &self.facts.life,
            has_fallback: false,
        };
        let budget = self.engine.generation.load().policy.budget.clone();
        self.engine.check_budget(&budget).await?;
        let answer = step::journaled(self, effect_id, call, &agent.models[1..]).await?;
        Ok(answer.map(|answer| {
            let usage = answer.usage.unwrap_or_default();
            self.progress.usage += usage;
            self.engine.spend(Spending {
                usage,
                is_step: false,
                cost: answer.cost.clone(),
            });
            self.progress.pay(answer.cost);
            answer.parts.iter().filter_map(Part::as_text).collect()
        }))
    }

    /// What `extension` keeps for this instance: what it set in this turn, else what an earlier turn left. Journaled, so
    /// that a resumed turn finds what it found before. Names with a dot are the engine's: nothing is found there.
    pub async fn state(&mut self, extension: &str) -> Result<Option<Value>, TurnError> {
        if !is_extension_state(extension) {
            return Ok(None);
        }
        if let Some(kept) = self.states.0.get(extension) {
            return Ok(kept.current.clone());
        }
        let effect_id = format!("{extension}/state");
        let stored = if self.journal.has_outcome(&effect_id) {
            None
        } else {
            self.stored_state(extension).await?
        };
        let effect = Effect {
            id: effect_id,
            kind: EffectKind::ExtensionState,
            intent: Value::Null,
            when_interrupted: WhenInterrupted::RunAgain,
        };
        let outcome = self
            .journal
            .run(effect, Box::pin(async { stored }))
            .await
            .map_err(|error| store_failed(&error))?;
        let Outcome::Done { value: found, .. } = outcome else {
            unreachable!("reading is run again")
        };
        let kept = KeptState {
            stored: found.clone(),
            current: found.clone(),
        };
        self.states.0.insert(extension.to_owned(), kept);
        Ok(found)
    }

    /// Keeps what the hosted extensions of the turn have set.
    pub(crate) fn keep_states(&mut self, layers: &Layers) {
        for (extension, seat) in &layers.seats {
            if let (Some(value), 1..) = seat.state.get() {
                self.set_state(extension, value);
            }
        }
    }

    async fn stored_state(&self, extension: &str) -> Result<Option<Value>, TurnError> {
        let record = self
            .engine
            .store
            .get(self.instance(), extension)
            .await
            .map_err(|error| store_failed(&error))?;
        Ok(record.map(|record| record.value))
    }

    /// Keeps `state` for the later turns of this instance. It is written when the turn ends, whatever its outcome.
    pub fn set_state(&mut self, extension: &str, state: Value) {
        if !is_extension_state(extension) {
            tracing::error!(
                extension,
                "nothing is kept under this name: names with a dot are the engine's"
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

/// What middleware notes while a turn lasts.
#[derive(Default)]
pub(crate) struct Notes(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

/// What extensions keep from turn to turn, as far as the running turn has asked for it or set it.
#[derive(Debug, Default)]
pub(crate) struct ExtensionStates(BTreeMap<String, KeptState>);

#[derive(Debug, Default)]
struct KeptState {
    stored: Option<Value>,
    current: Option<Value>,
}

impl ExtensionStates {
    /// What has changed, by extension.
    fn changes(&self) -> impl Iterator<Item = (&String, &Value)> {
        let changed = |kept: &&KeptState| kept.current.is_some() && kept.stored != kept.current;
        let kept = self.0.iter().filter(move |(_, kept)| changed(kept));
        kept.filter_map(|(extension, kept)| Some((extension, kept.current.as_ref()?)))
    }

    /// Writes what has changed.
    pub(crate) async fn save(
        &self,
        store: &dyn Store,
        instance: &InstanceId,
    ) -> Result<(), StoreError> {
        for (extension, state) in self.changes() {
            update(store, instance, extension, |_| Some(state.clone())).await?;
        }
        Ok(())
    }
}
