//! Events that join a running turn: answers to asynchronous requests (rule A5), and inputs that
//! steer the turn. The orchestrator offers them; the turn takes them before its next step.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goondan_core::agent_event::AgentEvent;
use tokio::sync::Notify;

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
    pub(super) fn is_empty(&self) -> bool {
        self.lock_offers().waiting.is_empty()
    }

    /// Returns true if an input is waiting.
    pub(super) fn has_input(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_store::suite::samples::{event, instance};

    #[test]
    fn an_input_can_be_withdrawn_until_the_turn_may_have_received_it() {
        let offered = JoiningEvents::default();
        let target = instance("k");
        for id in ["a", "b", "c"] {
            offered.put(event(id, &target));
        }
        assert!(offered.withdraw("a"), "it is not sent yet");
        assert!(offered.withdraw("unknown"), "it was never offered");
        assert_eq!(offered.take_unsent().len(), 2);
        assert_eq!(offered.take_unsent().len(), 0, "the node already has them");
        assert!(!offered.withdraw("b"), "the node may have received it");
        offered.node_changed();
        assert!(offered.withdraw("b"));
        assert_eq!(offered.take().len(), 1);
        assert!(!offered.withdraw("c"), "the turn has taken it");
    }
}
