//! Broadcasts swarm events to streams. A stream that falls behind is notified and reads the rest
//! from the store, so slow clients cost the server no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::ids::InstanceId;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Number of events kept for streams that have not read them yet.
const MAX_BUFFERED_EVENTS: usize = 4_096;

pub(crate) struct EventHub {
    now: Mutex<HubSnapshot>,
    events: broadcast::Sender<Arc<PublishedEvent>>,
}

/// State at the time of a subscription.
#[derive(Debug, Clone, Default)]
pub(crate) struct HubSnapshot {
    /// Number of the last published event. All events up to it are stored; later events are not.
    pub(crate) sequence: u64,
    /// The running turns.
    pub(crate) running: HashMap<InstanceId, RunningTurn>,
}

/// A running turn with the text and reasoning of its current step so far.
#[derive(Debug, Clone)]
pub(crate) struct RunningTurn {
    pub(crate) turn_id: String,
    pub(crate) trace_id: String,
    pub(crate) text: String,
    pub(crate) reasoning: String,
}

impl RunningTurn {
    /// Discards the text and the reasoning of the step so far.
    fn clear(&mut self) {
        self.text.clear();
        self.reasoning.clear();
    }
}

/// An event for all streams.
pub(crate) struct PublishedEvent {
    pub(crate) event: SwarmEvent,
    /// The event's trace; `None` for text of a turn whose start was not observed.
    pub(crate) trace_id: Option<String>,
    line: OnceLock<Option<EncodedEvent>>,
}

/// Name and data of a server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl EncodedEvent {
    /// Encodes a value; the field `type` becomes the name.
    pub(crate) fn of(value: &Value) -> Self {
        let name = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("message")
            .to_owned();
        EncodedEvent {
            name,
            data: value.to_string(),
        }
    }
}

impl PublishedEvent {
    /// Returns the event's wire form; `None` for events that each stream writes itself. It is
    /// encoded once for all streams.
    pub(crate) fn line(&self) -> Option<&EncodedEvent> {
        self.line
            .get_or_init(|| written(&self.event).map(|value| EncodedEvent::of(&value)))
            .as_ref()
    }

    /// Conversation of the event.
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

/// Returns the wire form of an event; `None` for the end of a turn.
fn written(event: &SwarmEvent) -> Option<Value> {
    match event {
        SwarmEvent::Runtime(event) => serde_json::to_value(event).ok(),
        SwarmEvent::Text {
            instance,
            turn_id,
            delta,
        } => Some(piece(TEXT_DELTA_TYPE, instance, turn_id, Some(delta))),
        SwarmEvent::Reasoning {
            instance,
            turn_id,
            delta,
        } => Some(piece(REASONING_DELTA_TYPE, instance, turn_id, Some(delta))),
        SwarmEvent::TextReset { instance, turn_id } => {
            Some(piece(TEXT_RESET_TYPE, instance, turn_id, None))
        }
        SwarmEvent::TurnEnded { .. } => None,
    }
}

pub(crate) const TEXT_DELTA_TYPE: &str = "text.delta";

pub(crate) const REASONING_DELTA_TYPE: &str = "reasoning.delta";

/// Type of an event that voids the text and the reasoning of a step.
pub(crate) const TEXT_RESET_TYPE: &str = "text.reset";

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

impl EventHub {
    /// Returns a hub for the events after `sequence`.
    pub(crate) fn after(sequence: u64) -> Self {
        EventHub::keeping(MAX_BUFFERED_EVENTS, sequence)
    }

    /// Returns a hub that keeps up to `events` events.
    pub(crate) fn keeping(events: usize, sequence: u64) -> Self {
        let now = HubSnapshot {
            sequence,
            ..HubSnapshot::default()
        };
        EventHub {
            now: Mutex::new(now),
            events: broadcast::Sender::new(events),
        }
    }

    /// Subscribes to all events from now on, and returns the state at this point.
    pub(crate) fn subscribe(&self) -> (broadcast::Receiver<Arc<PublishedEvent>>, HubSnapshot) {
        let now = self.now();
        (self.events.subscribe(), now.clone())
    }

    /// Returns the trace of the turn that is running in a conversation.
    pub(crate) fn chain_of(&self, instance: &InstanceId) -> Option<String> {
        self.now()
            .running
            .get(instance)
            .map(|turn| turn.trace_id.clone())
    }

    /// Number of running turns.
    pub(crate) fn running(&self) -> usize {
        self.now().running.len()
    }

    /// Updates the snapshot and sends the event to all subscribers.
    pub(crate) fn publish(&self, event: &SwarmEvent) {
        let mut now = self.now();
        if let SwarmEvent::Runtime(event) = event {
            now.sequence = now.sequence.max(event.sequence);
        }
        let trace_id = note(&mut now.running, event);
        // Publishing is skipped without receivers. No stream can subscribe while this lock is held.
        if self.events.receiver_count() > 0 {
            let (event, trace_id) = (event.clone(), trace_id.map(str::to_owned));
            let _ = self.events.send(Arc::new(PublishedEvent {
                event,
                trace_id,
                line: OnceLock::new(),
            }));
        }
    }

    /// Locks the snapshot.
    fn now(&self) -> MutexGuard<'_, HubSnapshot> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Updates the running turns and returns the event's trace.
fn note<'a>(
    running: &'a mut HashMap<InstanceId, RunningTurn>,
    event: &'a SwarmEvent,
) -> Option<&'a str> {
    match event {
        SwarmEvent::Runtime(event) => {
            let trace_id = &event.trace.trace_id;
            match &event.kind {
                RuntimeEventKind::TurnStarted { turn_id, .. } => {
                    running.insert(
                        event.instance(),
                        RunningTurn {
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
