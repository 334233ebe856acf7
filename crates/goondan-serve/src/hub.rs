//! Passes what happens in a swarm to many streams. A stream that does not keep up is told so, and reads on from the store:
//! nobody who reads slowly makes the server keep more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::ids::InstanceId;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// That many events are kept for streams that have not read them yet.
const KEPT: usize = 4_096;

/// Passes events on.
pub(crate) struct Hub {
    now: Mutex<Now>,
    events: broadcast::Sender<Arc<Seen>>,
}

/// What is true at the moment of a subscription.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now {
    /// The number of the last event that was passed on: what is stored up to it was, what comes later was not.
    pub(crate) sequence: u64,
    /// The turns that run.
    pub(crate) running: HashMap<InstanceId, Running>,
}

/// A turn that runs, and what its model has said so far in its current step.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) turn_id: String,
    pub(crate) trace_id: String,
    pub(crate) text: String,
    pub(crate) reasoning: String,
}

impl Running {
    /// Discards the text and the reasoning of a step.
    fn clear(&mut self) {
        self.text.clear();
        self.reasoning.clear();
    }
}

/// Something that happened.
pub(crate) struct Seen {
    pub(crate) event: SwarmEvent,
    /// The chain that it belongs to; `None` for text of a turn whose beginning was not seen.
    pub(crate) trace_id: Option<String>,
    line: OnceLock<Option<Line>>,
}

/// An event as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Line {
    pub(crate) fn of(value: &Value) -> Self {
        let name = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("message")
            .to_owned();
        Line {
            name,
            data: value.to_string(),
        }
    }
}

impl Seen {
    /// How it is written; `None` for what a stream says in its own words. Many streams write the same: it is made once.
    pub(crate) fn line(&self) -> Option<&Line> {
        self.line
            .get_or_init(|| written(&self.event).map(|value| Line::of(&value)))
            .as_ref()
    }

    /// Whose it is.
    pub(crate) fn instance(&self) -> InstanceId {
        match &self.event {
            SwarmEvent::Runtime(event) => event.instance(),
            SwarmEvent::Text { instance, .. }
            | SwarmEvent::Reasoning { instance, .. }
            | SwarmEvent::TextReset { instance, .. }
            | SwarmEvent::TurnEnded { instance, .. } => instance.clone(),
        }
    }
}

fn written(event: &SwarmEvent) -> Option<Value> {
    match event {
        SwarmEvent::Runtime(event) => serde_json::to_value(event).ok(),
        SwarmEvent::Text {
            instance,
            turn_id,
            delta,
        } => Some(piece(TEXT, instance, turn_id, Some(delta))),
        SwarmEvent::Reasoning {
            instance,
            turn_id,
            delta,
        } => Some(piece(REASONING, instance, turn_id, Some(delta))),
        SwarmEvent::TextReset { instance, turn_id } => Some(piece(RESET, instance, turn_id, None)),
        SwarmEvent::TurnEnded { .. } => None,
    }
}

/// Type of an event that adds text to the answer of a step.
pub(crate) const TEXT: &str = "text.delta";

/// Type of an event that adds reasoning to a step.
pub(crate) const REASONING: &str = "reasoning.delta";

/// Type of an event that voids the text and the reasoning of a step.
pub(crate) const RESET: &str = "text.reset";

/// Returns an event about the answer that a model is writing.
pub(crate) fn piece(
    kind: &str,
    instance: &InstanceId,
    turn_id: &str,
    delta: Option<&str>,
) -> Value {
    let mut line = json!({
        "type": kind,
        "agentName": instance.agent,
        "instanceKey": instance.instance_key,
        "turnId": turn_id,
    });
    if let Some(delta) = delta {
        line["delta"] = delta.into();
    }
    line
}

impl Hub {
    /// One for the events behind that number.
    pub(crate) fn after(sequence: u64) -> Self {
        Hub::keeping(KEPT, sequence)
    }

    /// One that keeps so many events.
    pub(crate) fn keeping(events: usize, sequence: u64) -> Self {
        let now = Now {
            sequence,
            ..Now::default()
        };
        Hub {
            now: Mutex::new(now),
            events: broadcast::Sender::new(events),
        }
    }

    /// Everything from now on, and where that begins.
    pub(crate) fn subscribe(&self) -> (broadcast::Receiver<Arc<Seen>>, Now) {
        let now = self.now();
        (self.events.subscribe(), now.clone())
    }

    /// The chain for which a conversation works at this moment.
    pub(crate) fn chain_of(&self, instance: &InstanceId) -> Option<String> {
        self.now()
            .running
            .get(instance)
            .map(|turn| turn.trace_id.clone())
    }

    /// How many turns run.
    pub(crate) fn running(&self) -> usize {
        self.now().running.len()
    }

    /// Passes an event on.
    pub(crate) fn publish(&self, event: &SwarmEvent) {
        let mut now = self.now();
        if let SwarmEvent::Runtime(event) = event {
            now.sequence = now.sequence.max(event.sequence);
        }
        let trace_id = note(&mut now.running, event);
        // Most of the time nobody listens, and nobody begins to while this is held.
        if self.events.receiver_count() > 0 {
            let (event, trace_id) = (event.clone(), trace_id.map(str::to_owned));
            let _ = self.events.send(Arc::new(Seen {
                event,
                trace_id,
                line: OnceLock::new(),
            }));
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps track of what is being said, and tells to which chain an event belongs.
fn note<'a>(
    running: &'a mut HashMap<InstanceId, Running>,
    event: &'a SwarmEvent,
) -> Option<&'a str> {
    match event {
        SwarmEvent::Runtime(event) => {
            let trace_id = &event.trace.trace_id;
            match &event.kind {
                RuntimeEventKind::TurnStarted { turn_id, .. } => {
                    running.insert(
                        event.instance(),
                        Running {
                            turn_id: turn_id.clone(),
                            trace_id: trace_id.clone(),
                            text: String::new(),
                            reasoning: String::new(),
                        },
                    );
                }
                RuntimeEventKind::StepStarted { .. } | RuntimeEventKind::StepCompleted { .. } => {
                    if let Some(turn) = running.get_mut(&event.instance()) {
                        turn.clear();
                    }
                }
                _ => {}
            }
            Some(trace_id.as_str())
        }
        SwarmEvent::Text {
            instance, delta, ..
        } => {
            let turn = running.get_mut(instance)?;
            turn.text.push_str(delta);
            Some(&turn.trace_id)
        }
        SwarmEvent::Reasoning {
            instance, delta, ..
        } => {
            let turn = running.get_mut(instance)?;
            turn.reasoning.push_str(delta);
            Some(&turn.trace_id)
        }
        SwarmEvent::TextReset { instance, .. } => {
            let turn = running.get_mut(instance)?;
            turn.clear();
            Some(&turn.trace_id)
        }
        SwarmEvent::TurnEnded {
            instance, trace_id, ..
        } => {
            running.remove(instance);
            Some(trace_id)
        }
    }
}
