//! The part of a turn that appends joining events to the conversation.

use std::sync::Arc;

use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{RuntimeEventKind, TurnError};
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_spec::kinds::SwarmPolicy;
use serde_json::Value;

use super::{TurnContext, model_effect, store_failure_error};

impl TurnContext {
    /// Takes the events that arrived since the last step, and appends their messages. Journaled, so
    /// that a resumed turn takes the same events at the same place.
    pub(super) async fn take_joining_events(&mut self, step: u32) -> Result<(), TurnError> {
        let id = joining_effect(step);
        let is_recorded = self.journal.has_outcome(&id);
        // A resumed turn must not add events to a step that it had already passed.
        let is_already_passed = self.journal.has_outcome(&model_effect(step));
        if !is_recorded && (is_already_passed || self.joined.is_empty()) {
            return Ok(());
        }
        let effect = TurnEffect {
            id,
            kind: EffectKind::Inbox,
            intent: Value::Null,
            when_interrupted: InterruptionPolicy::RunAgain,
        };
        let joined = self.joined.clone();
        let outcome = self
            .journal
            .run(effect, Box::pin(async move { joined.take() }))
            .await;
        let EffectOutcome::Done { value: events, .. } =
            outcome.map_err(|error| store_failure_error(&error))?
        else {
            unreachable!("an interrupted effect runs again")
        };
        self.joined
            .remove_events(&events.iter().map(|event| event.id.as_str()).collect());
        for event in events {
            self.join(event, step, !is_recorded).await?;
        }
        Ok(())
    }

    /// Appends the message of an event that joins the turn before `step`. `is_new`: the turn has
    /// not reported it before.
    async fn join(&mut self, event: AgentEvent, step: u32, is_new: bool) -> Result<(), TurnError> {
        // The limits of the event apply before its text can trigger a tool call.
        Arc::make_mut(&mut self.facts).join(&event);
        self.append_event(&event).await?;
        if is_new && !event.is_response() {
            self.publish(RuntimeEventKind::InputJoined {
                turn_id: self.facts.turn_id.clone(),
                event_id: event.id.clone(),
                step_index: step,
            });
        }
        self.progress.joined_ids.push(event.id);
        Ok(())
    }

    /// Returns true if an input that arrived during `step` extends the turn by a step, although the
    /// model has answered. A resumed turn decides as before: the journal of the next step has the
    /// input.
    pub(super) fn is_steered_after(&self, step: u32, policy: &SwarmPolicy) -> bool {
        let next = step + 1;
        let is_recorded = self.journal.has_outcome(&joining_effect(next));
        next < policy.max_steps_per_turn && (is_recorded || self.joined.has_input())
    }
}

/// Returns the id of the journal effect for the events that join before a step.
fn joining_effect(step: u32) -> String {
    format!("step-{step}/inbox")
}
