//! One event, found by its id: what has become of it, and its end where somebody cancels it.

use tokio::sync::oneshot;

use super::pending::Waiter;
use super::{Orchestrator, unreadable};
use crate::turn::cancelled;
use crate::turn::instance::failed_result;
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::InstanceId;

/// What has become of an event.
pub enum Found {
    /// It is over.
    Over(Box<TurnResult>),
    /// It waits, or its turn runs.
    Open {
        /// Who handles it.
        target: InstanceId,
        /// The chain that it belongs to.
        trace_id: String,
        /// Its result, once its turn is over.
        result: oneshot::Receiver<TurnResult>,
    },
}

impl Orchestrator {
    /// What has become of an event; `None` for one that was never accepted, or ended too long ago.
    pub(super) fn find(&mut self, event_id: &str) -> Option<Found> {
        if let Some(kept) = self.handled.get(event_id) {
            let result = kept
                .decode()
                .unwrap_or_else(|error| unreadable(event_id, error));
            return Some(Found::Over(Box::new(result)));
        }
        let pending = self.pending.get_mut(event_id)?;
        // Who asks again and again does not wait again and again.
        pending
            .waiters
            .retain(|waiter| waiter.caller.is_some() || !waiter.sender.is_closed());
        let (sender, result) = oneshot::channel();
        pending.waiters.push(Waiter {
            sender,
            caller: None,
        });
        Some(Found::Open {
            target: pending.target.clone(),
            trace_id: pending.trace_id.clone(),
            result,
        })
    }

    /// Cancels the turn of an event, or the event where no turn has begun. False where nothing is left to cancel.
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
        let Some(place) = instance.queue.iter().position(|event| event.id == event_id) else {
            return false;
        };
        let event = instance
            .queue
            .remove(place)
            .expect("it was just found there");
        let failed = failed_result(event.turn_id(), cancelled());
        self.settle(
            &event,
            &TurnResult {
                finish_reason: FinishReason::Cancelled,
                ..failed
            },
        );
        true
    }

    /// Cancels the turn of an event that runs, or had begun before it was cut off; false where none has begun.
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
            // It first takes up what had happened.
            self.cancelled.insert(event_id.to_owned());
            self.make_ready(target.clone());
        }
        has_begun
    }
}
