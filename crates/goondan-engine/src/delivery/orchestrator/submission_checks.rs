//! Checks of events and spawn requests before they are accepted.

use goondan_core::agent_event::{AgentEvent, ConversationOperation};
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use tokio::sync::oneshot;

use super::Orchestrator;
use super::pending::{self, ResultWaiter};
use super::submit_error::{MAX_KEY_BYTES, MAX_QUEUED_EVENTS, SubmitError};
use crate::delivery::access_end;

impl Orchestrator {
    /// Checks that `event` may be accepted.
    pub(super) fn check_admission(&self, event: &AgentEvent) -> Result<(), SubmitError> {
        if self.stopping.is_some() && !self.is_of_a_running_turn(event) {
            return Err(SubmitError::Stopping);
        }
        self.known_agent(&event.target.agent)?;
        event
            .terms
            .model
            .as_deref()
            .map_or(Ok(()), |model| self.engine.known_model(model).map(drop))?;
        fitting_key(&event.target)?;
        self.room_for_event(event)?;
        self.check_access(event)?;
        let (depth, max_depth) = (
            event.callers.len(),
            self.engine.generation.load().policy.max_call_depth,
        );
        if depth > usize::try_from(max_depth).unwrap_or(usize::MAX) {
            return Err(SubmitError::TooDeep {
                depth,
                most: max_depth,
            });
        }
        match self.instances.get(&event.target) {
            None => self.room_for_instance(),
            Some(instance) if instance.queue.len() >= MAX_QUEUED_EVENTS => {
                Err(SubmitError::QueueFull(event.target.clone()))
            }
            Some(instance) => match event.operation() {
                Some(ConversationOperation::Undo) if !instance.is_idle() => {
                    Err(SubmitError::TurnRunning(event.target.clone()))
                }
                _ => Ok(()),
            },
        }
    }

    /// Fails if a caller of `event` has lost its access to the target since the first call of the
    /// chain.
    pub(super) fn check_access(&self, event: &AgentEvent) -> Result<(), SubmitError> {
        let access_start = event.terms.since.unwrap_or(event.created_at);
        let released_at = |id: &InstanceId| self.instances.get(id)?.known.released_at();
        if access_end::has_ended(&event.callers, &event.target, access_start, released_at) {
            Err(SubmitError::AccessEnded(event.target.clone()))
        } else {
            Ok(())
        }
    }

    /// During shutdown, a running turn can still call other agents.
    fn is_of_a_running_turn(&self, event: &AgentEvent) -> bool {
        let caller = event
            .callers
            .last()
            .and_then(|caller| self.instances.get(caller));
        caller.is_some_and(|caller| caller.turn.is_some())
    }

    /// Fails if the swarm has no agent `name`.
    pub(super) fn known_agent(&self, name: &str) -> Result<(), SubmitError> {
        self.engine.known_agent(name).map(drop)
    }

    /// Fails if the event, or all pending events with it, would be too large.
    fn room_for_event(&self, event: &AgentEvent) -> Result<(), SubmitError> {
        let metadata_size = pending::metadata_size(event);
        if metadata_size > pending::MAX_METADATA_BYTES {
            return Err(SubmitError::MetadataTooLarge(metadata_size));
        }
        let size = pending::size(event);
        if size > pending::MAX_EVENT_BYTES {
            return Err(SubmitError::TooLarge(size));
        }
        // A duplicate takes no additional room.
        if self.pending.bytes() + size <= pending::MAX_PENDING_BYTES
            || self.pending.get(&event.id).is_some()
        {
            return Ok(());
        }
        Err(SubmitError::TooManyBytes(self.pending.bytes()))
    }

    /// Warns when a new instance brings the swarm to 80 % of its limit.
    pub(super) fn warn_near_instance_limit(&self) {
        let max_instances = self.engine.generation.load().policy.max_instances;
        let count = self.instances.len();
        if count == max_instances / 5 * 4 && count > 0 {
            tracing::warn!(
                "The swarm has {count} conversations; the limit is {max_instances}. Set \
                `policy.lifecycle` of the Swarm, or raise `policy.maxInstances`."
            );
        }
    }

    /// Fails if the swarm has the maximum number of instances.
    pub(super) fn room_for_instance(&self) -> Result<(), SubmitError> {
        let max_instances = self.engine.generation.load().policy.max_instances;
        if self.instances.len() < max_instances {
            return Ok(());
        }
        Err(SubmitError::TooManyInstances(max_instances))
    }

    /// Registers a waiter for `target`. Fails if the wait would be circular (rule A4).
    pub(super) fn register_waiter(
        &mut self,
        sender: Option<oneshot::Sender<TurnResult>>,
        caller: Option<InstanceId>,
        target: &InstanceId,
    ) -> Result<Option<ResultWaiter>, SubmitError> {
        let Some(sender) = sender else {
            return Ok(None);
        };
        // A caller without a running turn blocks no instance, so it needs no entry in the wait
        // graph.
        let caller = caller.filter(|caller| {
            self.instances
                .get(caller)
                .is_some_and(|instance| instance.turn.is_some())
        });
        if let Some(caller) = &caller {
            self.waits
                .wait(caller, target)
                .map_err(SubmitError::Circular)?;
        }
        Ok(Some(ResultWaiter { sender, caller }))
    }
}

/// Checks the length of the instance key.
pub(super) fn fitting_key(id: &InstanceId) -> Result<(), SubmitError> {
    let length = id.instance_key.len();
    if length <= MAX_KEY_BYTES {
        return Ok(());
    }
    Err(SubmitError::KeyTooLong(length))
}

#[cfg(test)]
mod tests {
    use goondan_spec::Code;

    use super::*;

    #[test]
    fn instance_keys_have_a_maximum_length() {
        let code = |length: usize| {
            fitting_key(&InstanceId::new("a", "k".repeat(length)))
                .err()
                .map(|error| error.code())
        };
        assert_eq!(
            (code(MAX_KEY_BYTES), code(MAX_KEY_BYTES + 1), code(10 << 20)),
            (
                None,
                Some(Code::AGENT_KEY_TOO_LONG),
                Some(Code::AGENT_KEY_TOO_LONG)
            )
        );
    }
}
