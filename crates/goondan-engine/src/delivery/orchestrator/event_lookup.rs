//! Lookup and cancellation of a single event by its id.

use tokio::sync::oneshot;

use super::command::EventState;
use super::pending::ResultWaiter;
use super::{Orchestrator, unreadable_result};
use crate::turn::cancelled_error;
use crate::turn::instance::failed_result;
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::InstanceId;

impl Orchestrator {
    /// Returns the state of an event; `None` if it was never accepted or ended too long ago.
    pub(super) fn find(&mut self, event_id: &str) -> Option<EventState> {
        self.recall_result(event_id);
        if let Some(handled) = self.handled.get(event_id) {
            let result = handled
                .decode()
                .unwrap_or_else(|error| unreadable_result(event_id, error));
            return Some(EventState::Over(Box::new(result)));
        }
        let pending = self.pending.get_mut(event_id)?;
        // Drops closed waiters, so that repeated lookups do not accumulate.
        pending
            .waiters
            .retain(|waiter| waiter.caller.is_some() || !waiter.sender.is_closed());
        let (sender, result) = oneshot::channel();
        pending.waiters.push(ResultWaiter {
            sender,
            caller: None,
        });
        Some(EventState::Open {
            target: pending.target.clone(),
            trace_id: pending.trace_id.clone(),
            result,
        })
    }

    /// Loads the result of an event that an earlier process handled, unless the event is known already.
    pub(super) fn recall_result(&mut self, event_id: &str) {
        if self.handled.get(event_id).is_some() || self.pending.get(event_id).is_some() {
            return;
        }
        if let Some(result) = self.engine.store.earlier_result(event_id) {
            let size = result.size();
            self.handled.put(event_id, result, size, None);
        }
    }

    /// Cancels the turn of an event, or removes the event from the queue if no turn has begun. An
    /// input that may have joined the running turn cancels that turn. Returns false if there is nothing to cancel.
    pub(super) fn cancel_event(&mut self, event_id: &str) -> bool {
        let Some(target) = self
            .pending
            .get(event_id)
            .map(|pending| pending.target.clone())
        else {
            return false;
        };
        if self.cancel_begun(&target, event_id) {
            return true;
        }
        let Some(instance) = self.instances.get_mut(&target) else {
            return false;
        };
        let Some(index) = instance.queue.iter().position(|event| event.id == event_id) else {
            return false;
        };
        if let Some(turn) = &instance.turn
            && !turn.joined.withdraw(event_id)
        {
            turn.cancel.cancel();
            // If the turn ends without the input, the input's own turn ends at its beginning.
            self.cancelled.insert(event_id.to_owned());
            return true;
        }
        let event = instance
            .queue
            .remove(index)
            .expect("it was just found there");
        let failed = failed_result(event.turn_id(), cancelled_error());
        self.end_without_turn(
            &event,
            &TurnResult {
                finish_reason: FinishReason::Cancelled,
                ..failed
            },
        );
        true
    }

    /// Cancels the turn of an event if the turn is running or was interrupted. Returns false if
    /// no turn has begun.
    pub(super) fn cancel_begun(&mut self, target: &InstanceId, event_id: &str) -> bool {
        let turn = self
            .instances
            .get(target)
            .and_then(|instance| instance.turn.as_ref());
        if let Some(turn) = turn.filter(|turn| turn.event.id == event_id) {
            turn.cancel.cancel();
            return true;
        }
        let has_begun = self.begun.contains(event_id);
        if has_begun {
            // The turn begins once more to read its journal, and ends right after that.
            self.cancelled.insert(event_id.to_owned());
            self.make_ready(target.clone());
        }
        has_begun
    }
}
