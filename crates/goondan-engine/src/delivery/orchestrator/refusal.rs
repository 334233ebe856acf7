//! What is not taken, and why (rules A1, A4, A8).

use goondan_spec::Code;
use tokio::sync::oneshot;

use super::Orchestrator;
use super::pending::{self, Waiter};
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::model::ModelError;
use goondan_core::ports::store::StoreError;
use goondan_core::ports::tool::ToolError;

/// An instance takes no more events than that at a time.
const MAX_QUEUE: usize = 10_000;

/// The longest key of an instance, in bytes. With files, every instance stays in memory.
const LONGEST_KEY: usize = 1_024;

/// Why an event or a spawn was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The swarm takes nothing new.
    #[error("the swarm is stopping")]
    Stopping,
    /// Nobody is there any more to take it.
    #[error("the swarm has ended")]
    Ended,
    /// No agent of the swarm has that name.
    #[error("the swarm {swarm} has no agent `{agent}`")]
    NoSuchAgent {
        /// The swarm.
        swarm: String,
        /// The name that was stated.
        agent: String,
        /// The agents that there are.
        known: Vec<String>,
    },
    /// No Model resource has that name.
    #[error("there is no Model resource `{model}`")]
    NoSuchModel {
        /// The name that was stated.
        model: String,
        /// The models that there are.
        known: Vec<String>,
    },
    /// The Model resource can't be used as it is.
    #[error("Model/{model} cannot be asked: {cause}")]
    ModelUnavailable {
        /// Its name.
        model: String,
        /// Why.
        #[source]
        cause: ModelError,
    },
    /// Among the dead letters of the instance is no such event.
    #[error("{instance} has no failed event `{event}`")]
    NoSuchEvent {
        /// The instance.
        instance: InstanceId,
        /// The event's id.
        event: String,
    },
    /// Agents ask agents ask agents.
    #[error("agents called each other {depth} deep, and `policy.maxCallDepth` is {most}")]
    TooDeep {
        /// How deep the call would be.
        depth: usize,
        /// How deep it may be.
        most: u32,
    },
    /// Too many events wait for the instance.
    #[error("{MAX_QUEUE} events wait for {0} already")]
    QueueFull(InstanceId),
    /// The events that wait take all the memory that they may.
    #[error("the events that wait in this swarm take {0} bytes, the most there may be")]
    TooManyBytes(usize),
    /// One event that is too large by itself.
    #[error("the event has {0} bytes, and at most {largest} are taken", largest = pending::LARGEST)]
    TooLarge(usize),
    /// The swarm has all the instances that it may have.
    #[error("the swarm has {0} instances, as many as `policy.maxInstances` allows")]
    TooManyInstances(usize),
    /// The key of the instance.
    #[error("the instance key has {0} bytes, and at most {LONGEST_KEY} are taken")]
    KeyTooLong(usize),
    /// The instances that would wait for each other, the first one again at the end.
    #[error("the request would wait for itself: {}", .0.iter().map(InstanceId::to_string).collect::<Vec<_>>().join(" → "))]
    Circular(Vec<InstanceId>),
    /// It has a name that only the engine may use.
    #[error(transparent)]
    Reserved(ToolError),
    /// The node that leads does not take it, for a reason that it tells.
    #[error("{message}")]
    Elsewhere {
        /// The code of the reason.
        code: Code,
        /// The reason.
        message: String,
        /// What to do next.
        suggestion: Option<String>,
    },
    /// It could not be put on disk.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Stopping => Code::SWARM_STOPPING,
            Refusal::Ended => Code::SWARM_STOPPED,
            Refusal::NoSuchAgent { .. } => Code::AGENT_NOT_FOUND,
            Refusal::NoSuchModel { .. } => Code::MODEL_NOT_FOUND,
            Refusal::ModelUnavailable { .. } => Code::MODEL_UNAVAILABLE,
            Refusal::NoSuchEvent { .. } => Code::EVENT_NOT_FOUND,
            Refusal::TooDeep { .. } => Code::AGENT_CALL_DEPTH_EXCEEDED,
            Refusal::QueueFull(_) | Refusal::TooManyBytes(_) => Code::AGENT_QUEUE_FULL,
            Refusal::TooLarge(_) => Code::AGENT_EVENT_TOO_LARGE,
            Refusal::TooManyInstances(_) => Code::AGENT_INSTANCE_LIMIT,
            Refusal::KeyTooLong(_) => Code::AGENT_KEY_TOO_LONG,
            Refusal::Circular(_) => Code::CIRCULAR_CALL_DETECTED,
            Refusal::Reserved(_) => Code::AGENT_EVENT_RESERVED,
            Refusal::Elsewhere { code, .. } => *code,
            Refusal::Store(_) => Code::STORE,
        }
    }

    /// What to do next.
    pub fn suggestion(&self) -> Option<String> {
        let fixed = match self {
            Refusal::NoSuchAgent { known, .. } => {
                return Some(format!("Its agents are: {}.", known.join(", ")));
            }
            Refusal::NoSuchModel { known, .. } => {
                return Some(format!("The models are: {}.", known.join(", ")));
            }
            Refusal::ModelUnavailable { cause, .. } => return cause.suggestion.clone(),
            Refusal::Reserved(error) => return error.suggestion.clone(),
            Refusal::Elsewhere { suggestion, .. } => return suggestion.clone(),
            Refusal::Ended => return None,
            Refusal::Stopping => "Send it again when the swarm runs.",
            Refusal::NoSuchEvent { .. } => "See which it has with `gdn instance show`.",
            Refusal::TooDeep { .. } => "Answer with what is known by now.",
            Refusal::QueueFull(_) | Refusal::TooManyBytes(_) => {
                "Send it again when some are handled."
            }
            Refusal::TooLarge(_) => "Put it into a file and send the path.",
            Refusal::TooManyInstances(_) => "Use an instance that is there already.",
            Refusal::KeyTooLong(_) => "Use a shorter key, such as a hash of this one.",
            Refusal::Circular(_) => {
                "Answer without asking back, use agents__send, or ask under another instanceKey."
            }
            Refusal::Store(_) => {
                "Make room on the disk or fix the permissions of the state folder, then send it again."
            }
        };
        Some(fixed.to_owned())
    }
}

impl Orchestrator {
    /// Whether `event` may be taken.
    pub(super) fn admit(&self, event: &AgentEvent) -> Result<(), Refusal> {
        if self.stopping.is_some() && !self.is_of_a_running_turn(event) {
            return Err(Refusal::Stopping);
        }
        self.known_agent(&event.target.agent)?;
        event
            .terms
            .model
            .as_deref()
            .map_or(Ok(()), |model| self.engine.known_model(model).map(drop))?;
        fitting_key(&event.target)?;
        self.room_for_event(event)?;
        let (depth, most) = (
            event.callers.len(),
            self.engine.generation.load().policy.max_call_depth,
        );
        if depth > usize::try_from(most).unwrap_or(usize::MAX) {
            return Err(Refusal::TooDeep { depth, most });
        }
        match self.instances.get(&event.target) {
            None => self.room_for_instance(),
            Some(instance) if instance.queue.len() >= MAX_QUEUE => {
                Err(Refusal::QueueFull(event.target.clone()))
            }
            Some(_) => Ok(()),
        }
    }

    /// A turn that is to end in peace can still ask others.
    fn is_of_a_running_turn(&self, event: &AgentEvent) -> bool {
        let caller = event
            .callers
            .last()
            .and_then(|caller| self.instances.get(caller));
        caller.is_some_and(|caller| caller.turn.is_some())
    }

    pub(super) fn known_agent(&self, name: &str) -> Result<(), Refusal> {
        self.engine.known_agent(name).map(drop)
    }

    fn room_for_event(&self, event: &AgentEvent) -> Result<(), Refusal> {
        let size = pending::size(event);
        if size > pending::LARGEST {
            return Err(Refusal::TooLarge(size));
        }
        // The same one again takes no more room.
        if self.pending.bytes() + size <= pending::MOST_BYTES
            || self.pending.get(&event.id).is_some()
        {
            return Ok(());
        }
        Err(Refusal::TooManyBytes(self.pending.bytes()))
    }

    pub(super) fn room_for_instance(&self) -> Result<(), Refusal> {
        let most = self.engine.generation.load().policy.max_instances;
        if self.instances.len() < most {
            return Ok(());
        }
        Err(Refusal::TooManyInstances(most))
    }

    /// Somebody who waits for `target`, unless that would be for ever (rule A4).
    pub(super) fn waiter(
        &mut self,
        sender: Option<oneshot::Sender<TurnResult>>,
        caller: Option<InstanceId>,
        target: &InstanceId,
    ) -> Result<Option<Waiter>, Refusal> {
        let Some(sender) = sender else {
            return Ok(None);
        };
        // A call without a turn (from outside) stands in nobody's way.
        let caller = caller.filter(|caller| {
            self.instances
                .get(caller)
                .is_some_and(|instance| instance.turn.is_some())
        });
        if let Some(caller) = &caller {
            self.waits.wait(caller, target).map_err(Refusal::Circular)?;
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
    Err(Refusal::KeyTooLong(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_no_longer_than_it_may_be() {
        let code = |length: usize| {
            fitting_key(&InstanceId::new("a", "k".repeat(length)))
                .err()
                .map(|why| why.code())
        };
        assert_eq!(
            (code(LONGEST_KEY), code(LONGEST_KEY + 1), code(10 << 20)),
            (
                None,
                Some(Code::AGENT_KEY_TOO_LONG),
                Some(Code::AGENT_KEY_TOO_LONG)
            )
        );
    }
}
