//! What is not taken, and why (rules A1, A4, A8).

use goondan_spec::Code;
use tokio::sync::oneshot;

use super::Orchestrator;
use super::pending::{self, Waiter};
use crate::plan::ModelPlan;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::StoreError;

/// An instance takes no more events than that at a time.
const MAX_QUEUE: usize = 10_000;

/// The longest key of an instance, in bytes. Every instance stays in memory.
const LONGEST_KEY: usize = 1_024;

/// Why an event or a spawn was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A stable code.
    pub code: Code,
    /// A sentence that stands alone.
    pub message: String,
    /// What to do next.
    pub suggestion: Option<String>,
}

impl Refusal {
    fn new(code: Code, message: String, suggestion: impl Into<String>) -> Self {
        Refusal { code, message, suggestion: Some(suggestion.into()) }
    }

    pub(crate) fn store(error: &StoreError) -> Self {
        let suggestion = "Make room on the disk or fix the permissions of the state folder, then send it again.";
        Refusal::new(Code::STORE, error.to_string(), suggestion)
    }
}

impl Orchestrator {
    /// Whether `event` may be taken.
    pub(super) fn admit(&self, event: &AgentEvent) -> Result<(), Refusal> {
        if self.stopping.is_some() {
            let suggestion = "Send it again when the swarm runs.";
            return Err(Refusal::new(Code::SWARM_STOPPING, "the swarm is stopping".to_owned(), suggestion));
        }
        self.known_agent(&event.target.agent)?;
        event.terms.model.as_deref().map_or(Ok(()), |model| self.known_model(model).map(drop))?;
        fitting_key(&event.target)?;
        self.room_for_event(event)?;
        let policy = &self.engine.generation.load().policy;
        if event.callers.len() > usize::try_from(policy.max_call_depth).unwrap_or(usize::MAX) {
            let message = format!(
                "agents called each other {} deep, and `policy.maxCallDepth` is {}",
                event.callers.len(),
                policy.max_call_depth
            );
            return Err(Refusal::new(Code::AGENT_CALL_DEPTH_EXCEEDED, message, "Answer with what is known by now."));
        }
        match self.instances.get(&event.target) {
            None => self.room_for_instance(),
            Some(instance) if instance.queue.len() >= MAX_QUEUE => {
                let message = format!("{MAX_QUEUE} events wait for {} already", event.target);
                Err(Refusal::new(Code::AGENT_QUEUE_FULL, message, "Send it again when some are handled."))
            }
            Some(_) => Ok(()),
        }
    }

    pub(super) fn known_agent(&self, name: &str) -> Result<(), Refusal> {
        let generation = self.engine.generation.load();
        if generation.agent(name).is_some() {
            return Ok(());
        }
        let known = generation.agents().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("the swarm {} has no agent `{name}`", generation.swarm.name);
        Err(Refusal::new(Code::AGENT_NOT_FOUND, message, format!("Its agents are: {known}.")))
    }

    /// The Model resource of that name, ready to be asked.
    pub(super) fn known_model(&self, name: &str) -> Result<ModelPlan, Refusal> {
        match self.engine.generation.load().model(name) {
            Some(Ok(model)) => Ok(model.clone()),
            Some(Err(error)) => {
                let message = format!("Model/{name} cannot be asked: {}", error.message);
                Err(Refusal { code: Code::MODEL_UNAVAILABLE, message, suggestion: error.suggestion.clone() })
            }
            None => {
                let generation = self.engine.generation.load();
                let known = generation.models().collect::<Vec<_>>().join(", ");
                let message = format!("there is no Model resource `{name}`");
                Err(Refusal::new(Code::MODEL_NOT_FOUND, message, format!("The models are: {known}.")))
            }
        }
    }

    fn room_for_event(&self, event: &AgentEvent) -> Result<(), Refusal> {
        let size = pending::size(event);
        if size > pending::LARGEST {
            let message = format!("the event has {size} bytes, and at most {} are taken", pending::LARGEST);
            return Err(Refusal::new(Code::AGENT_EVENT_TOO_LARGE, message, "Put it into a file and send the path."));
        }
        // The same one again takes no more room.
        if self.pending.bytes() + size <= pending::MOST_BYTES || self.pending.get(&event.id).is_some() {
            return Ok(());
        }
        let message =
            format!("the events that wait in this swarm take {} bytes, the most there may be", self.pending.bytes());
        Err(Refusal::new(Code::AGENT_QUEUE_FULL, message, "Send it again when some are handled."))
    }

    pub(super) fn room_for_instance(&self) -> Result<(), Refusal> {
        let most = self.engine.generation.load().policy.max_instances;
        if self.instances.len() < most {
            return Ok(());
        }
        let message = format!("the swarm has {most} instances, as many as `policy.maxInstances` allows");
        Err(Refusal::new(Code::AGENT_INSTANCE_LIMIT, message, "Use an instance that is there already."))
    }

    /// Somebody who waits for `target`, unless that would be for ever (rule A4).
    pub(super) fn waiter(
        &mut self,
        sender: Option<oneshot::Sender<TurnResult>>,
        caller: Option<InstanceId>,
        target: &InstanceId,
    ) -> Result<Option<Waiter>, Refusal> {
        let Some(sender) = sender else { return Ok(None) };
        // A call without a turn (from outside) stands in nobody's way.
        let caller = caller.filter(|caller| self.instances.get(caller).is_some_and(|instance| instance.turn.is_some()));
        if let Some(caller) = &caller {
            self.waits.wait(caller, target).map_err(|chain| circular(&chain))?;
        }
        Ok(Some(Waiter { sender, caller }))
    }
}

/// Whether an instance may have that key.
pub(super) fn fitting_key(id: &InstanceId) -> Result<(), Refusal> {
    let length = id.instance_key.len();
    if length <= LONGEST_KEY {
        return Ok(());
    }
    let message = format!("the instance key has {length} bytes, and at most {LONGEST_KEY} are taken");
    Err(Refusal::new(Code::AGENT_KEY_TOO_LONG, message, "Use a shorter key, such as a hash of this one."))
}

fn circular(chain: &[InstanceId]) -> Refusal {
    let chain = chain.iter().map(InstanceId::to_string).collect::<Vec<_>>().join(" → ");
    let message = format!("the request would wait for itself: {chain}");
    let suggestion = "Answer without asking back, use agents__send, or ask under another instanceKey.";
    Refusal::new(Code::CIRCULAR_CALL_DETECTED, message, suggestion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_no_longer_than_it_may_be() {
        let code = |length: usize| fitting_key(&InstanceId::new("a", "k".repeat(length))).err().map(|why| why.code);
        assert_eq!(
            (code(LONGEST_KEY), code(LONGEST_KEY + 1), code(10 << 20)),
            (None, Some(Code::AGENT_KEY_TOO_LONG), Some(Code::AGENT_KEY_TOO_LONG))
        );
    }
}
