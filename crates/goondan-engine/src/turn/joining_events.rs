//! Events that join a running turn: answers to asynchronous requests (rule A5), and inputs that
//! steer the turn. The orchestrator offers them; the turn takes them before its next step.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{RuntimeEventKind, TurnError};
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_spec::kinds::SwarmPolicy;
use serde_json::Value;
use tokio::sync::Notify;

use super::{TurnContext, model_effect, store_failure_error};

/// Events offered to a running turn.
#[derive(Clone, Default)]
pub(crate) struct JoiningEvents(Arc<JoiningQueue>);

#[derive(Default)]
struct JoiningQueue {
    offers: Mutex<JoiningOffers>,
    /// Notifies the turn about new events.
    arrival: Notify,
}

#[derive(Default)]
struct JoiningOffers {
    /// Events that the turn has not taken.
    waiting: Vec<AgentEvent>,
    /// Ids of all inputs that were offered to the turn.
    inputs: HashSet<String>,
    /// Ids of events that were sent to the worker node of the turn, which may have taken them.
    sent: HashSet<String>,
}

impl JoiningEvents {
    /// Adds an event that the turn takes before its next step, and notifies the turn.
    pub(crate) fn put(&self, event: AgentEvent) {
        let mut offers = self.lock_offers();
        if !event.is_response() {
            offers.inputs.insert(event.id.clone());
        }
        offers.waiting.push(event);
        drop(offers);
        self.0.arrival.notify_one();
    }

    /// Removes and returns all events that the turn has not taken.
    pub(crate) fn take(&self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.lock_offers().waiting)
    }

    /// Returns a copy of all events that the turn has not taken.
    pub(crate) fn waiting_events(&self) -> Vec<AgentEvent> {
        self.lock_offers().waiting.clone()
    }

    /// Returns the events for the worker node of the turn that it does not have yet.
    pub(crate) fn take_unsent(&self) -> Vec<AgentEvent> {
        let mut offers = self.lock_offers();
        let JoiningOffers { waiting, sent, .. } = &mut *offers;
        let unsent = waiting.iter().filter(|event| sent.insert(event.id.clone()));
        unsent.cloned().collect()
    }

    /// Forgets which events were sent: the turn runs on another node from now on.
    pub(crate) fn node_changed(&self) {
        self.lock_offers().sent.clear();
    }

    /// Waits until an event may have arrived. May return without one.
    pub(crate) async fn wait_for_arrival(&self) {
        self.0.arrival.notified().await;
    }

    /// Returns true if no event is waiting.
    fn is_empty(&self) -> bool {
        self.lock_offers().waiting.is_empty()
    }

    /// Returns true if an input is waiting.
    fn has_input(&self) -> bool {
        let is_input = |event: &AgentEvent| !event.is_response();
        self.lock_offers().waiting.iter().any(is_input)
    }

    /// Removes the events with these ids.
    pub(crate) fn remove_events(&self, ids: &HashSet<&str>) {
        let mut offers = self.lock_offers();
        offers
            .waiting
            .retain(|event| !ids.contains(event.id.as_str()));
    }

    /// Withdraws an input. Returns false if the turn may have taken it.
    pub(crate) fn withdraw(&self, event_id: &str) -> bool {
        let mut offers = self.lock_offers();
        if !offers.inputs.contains(event_id) {
            return true;
        }
        let index = offers.waiting.iter().position(|event| event.id == event_id);
        match index.filter(|_| !offers.sent.contains(event_id)) {
            Some(index) => {
                offers.waiting.remove(index);
                true
            }
            None => false,
        }
    }

    fn lock_offers(&self) -> MutexGuard<'_, JoiningOffers> {
        self.0.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_store::suite::samples::{event, instance};

    #[test]
    fn an_input_is_withdrawn_until_the_turn_may_have_it() {
        let offered = JoiningEvents::default();
        let target = instance("k");
        for id in ["a", "b", "c"] {
            offered.put(event(id, &target));
        }
        assert!(offered.withdraw("a"), "it still waits");
        assert!(offered.withdraw("unknown"), "it was never offered");
        assert_eq!(offered.take_unsent().len(), 2);
        assert_eq!(offered.take_unsent().len(), 0, "the node has them");
        assert!(!offered.withdraw("b"), "the node may have taken it");
        offered.node_changed();
        assert!(offered.withdraw("b"));
        assert_eq!(offered.take().len(), 1);
        assert!(!offered.withdraw("c"), "the turn has taken it");
    }
}
