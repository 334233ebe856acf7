//! Broadcasts swarm events to subscribers through one bounded buffer. A subscriber that falls behind
//! is notified, so slow readers cost no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use goondan_core::event::{RuntimeEventKind, SwarmEvent};
use goondan_core::ids::InstanceId;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Number of events kept for subscribers that have not read them yet.
pub(crate) const MAX_BUFFERED_EVENTS: usize = 4_096;

/// Broadcast of a swarm's events, with the text of its running turns.
pub struct EventHub {
    state: Mutex<HubState>,
    events: broadcast::Sender<Arc<PublishedEvent>>,
}

/// Receiver of all events after a subscription.
pub type EventReceiver = broadcast::Receiver<Arc<PublishedEvent>>;

/// State that each published event updates.
#[derive(Default)]
struct HubState {
    sequence: u64,
    running: HashMap<InstanceId, RunningTurn>,
}

/// State at the time of a subscription.
#[derive(Debug, Clone, Default)]
pub struct HubSnapshot {
    /// Number of the last published event. All events up to it are stored; later events are not.
    pub sequence: u64,
    /// The selected running turns.
    pub running: Vec<(InstanceId, RunningTurn)>,
}

/// A running turn with the text and reasoning of its current step so far. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunningTurn {
    /// Turn ID.
    pub turn_id: String,
    /// Trace of the turn.
    pub trace_id: String,
    /// Text of the current step. Appending copies it only while a subscriber holds a clone.
    pub text: Arc<String>,
    /// Reasoning of the current step.
    pub reasoning: Arc<String>,
}

impl RunningTurn {
    /// Discards the text and the reasoning of the step so far.
    fn clear(&mut self) {
        (self.text, self.reasoning) = Default::default();
    }
}

/// An event for all subscribers.
pub struct PublishedEvent {
    /// The swarm's event.
    pub event: SwarmEvent,
    /// The event's trace; `None` for text of a step whose start was not observed.
    pub trace_id: Option<String>,
    /// JSON of the event, once a subscriber needs it.
    line: OnceLock<Option<EncodedEvent>>,
}

/// Name and JSON of an event, as in a server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// Type of the event, such as `text.delta`.
    pub name: String,
    /// JSON of the event.
    pub data: String,
}

impl EncodedEvent {
    /// Encodes a value; the field `type` becomes the name.
    pub fn of(value: &Value) -> Self {
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

impl From<SwarmEvent> for PublishedEvent {
    /// Creates an event without a trace.
    fn from(event: SwarmEvent) -> Self {
        PublishedEvent {
            event,
            trace_id: None,
            line: OnceLock::new(),
        }
    }
}

impl PublishedEvent {
    /// Returns the event as JSON, which is encoded once for all subscribers. `None` for
    /// [`SwarmEvent::TurnEnded`], which has no wire form.
    pub fn line(&self) -> Option<&EncodedEvent> {
        self.line
            .get_or_init(|| wire_form(&self.event).map(|value| EncodedEvent::of(&value)))
            .as_ref()
    }

    /// Returns true if the event begins a step of that turn.
    pub fn begins_step_of(&self, turn: &str) -> bool {
        let SwarmEvent::Runtime(event) = &self.event else {
            return false;
        };
        matches!(&event.kind, RuntimeEventKind::StepStarted { turn_id, .. } if turn_id == turn)
    }

    /// Conversation of the event.
    pub fn instance(&self) -> InstanceId {
        match &self.event {
            SwarmEvent::Runtime(event) => event.instance(),
            SwarmEvent::Text { instance, .. }
            | SwarmEvent::Reasoning { instance, .. }
            | SwarmEvent::TextReset { instance, .. }
            | SwarmEvent::TurnEnded { instance, .. } => instance.clone(),
        }
    }
}

/// Returns the wire form of an event; `None` for [`SwarmEvent::TurnEnded`].
fn wire_form(event: &SwarmEvent) -> Option<Value> {
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

/// Type of an event with text of an answer.
pub const TEXT_DELTA_TYPE: &str = "text.delta";

/// Type of an event with reasoning.
pub const REASONING_DELTA_TYPE: &str = "reasoning.delta";

/// Type of an event that voids the text and the reasoning of a step.
pub const TEXT_RESET_TYPE: &str = "text.reset";

/// Returns an event about the answer that a model is writing.
pub fn piece(kind: &str, instance: &InstanceId, turn_id: &str, delta: Option<&str>) -> Value {
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
    /// Creates a hub for the events after `sequence` that keeps up to `events` events.
    pub(crate) fn keeping(events: usize, sequence: u64) -> Self {
        let state = HubState {
            sequence,
            ..HubState::default()
        };
        EventHub {
            state: Mutex::new(state),
            events: broadcast::Sender::new(events),
        }
    }

    /// Subscribes to all events from now on. Does not wait for events that are being published.
    pub fn subscribe(&self) -> EventReceiver {
        self.events.subscribe()
    }

    /// Subscribes to all events from now on, and returns the turn that is running in a
    /// conversation at this point.
    pub fn subscribe_in(&self, instance: &InstanceId) -> (EventReceiver, Option<RunningTurn>) {
        let state = self.lock_state();
        (
            self.events.subscribe(),
            state.running.get(instance).cloned(),
        )
    }

    /// Subscribes to all events from now on, and returns the state at this point without running
    /// turns.
    pub fn subscribe_at_sequence(&self) -> (EventReceiver, HubSnapshot) {
        let state = self.lock_state();
        let snapshot = HubSnapshot {
            sequence: state.sequence,
            running: Vec::new(),
        };
        (self.events.subscribe(), snapshot)
    }

    /// Subscribes to all events from now on, and returns the state at this point with the running
    /// turns that `is_selected` accepts.
    pub fn subscribe_with(
        &self,
        is_selected: impl Fn(&InstanceId, &RunningTurn) -> bool,
    ) -> (EventReceiver, HubSnapshot) {
        let state = self.lock_state();
        let running = state.running.iter();
        let selected = running.filter(|(instance, turn)| is_selected(instance, turn));
        let snapshot = HubSnapshot {
            sequence: state.sequence,
            running: selected
                .map(|(instance, turn)| (instance.clone(), turn.clone()))
                .collect(),
        };
        (self.events.subscribe(), snapshot)
    }

    /// Returns the turn that is running in a conversation.
    pub fn running_turn(&self, instance: &InstanceId) -> Option<RunningTurn> {
        self.lock_state().running.get(instance).cloned()
    }

    /// Number of running turns.
    pub fn running(&self) -> usize {
        self.lock_state().running.len()
    }

    /// Updates the state and sends the event to all subscribers.
    pub(crate) fn publish(&self, event: &SwarmEvent) {
        let mut state = self.lock_state();
        if let SwarmEvent::Runtime(event) = event {
            state.sequence = state.sequence.max(event.sequence);
        }
        let trace_id = note(&mut state.running, event);
        // Without receivers, the event is only noted. A later subscriber finds it in the state.
        if self.events.receiver_count() > 0 {
            let (event, trace_id) = (event.clone(), trace_id.map(str::to_owned));
            let _ = self.events.send(Arc::new(PublishedEvent {
                trace_id,
                ..event.into()
            }));
        }
    }

    /// Locks the state.
    fn lock_state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
                RuntimeEventKind::TurnStarted { turn_id, .. }
                | RuntimeEventKind::StepStarted { turn_id, .. } => {
                    running.insert(
                        event.instance(),
                        RunningTurn {
                            turn_id: turn_id.clone(),
                            trace_id: trace_id.clone(),
                            text: Arc::default(),
                            reasoning: Arc::default(),
                        },
                    );
                }
                RuntimeEventKind::StepCompleted { .. } => {
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
            Arc::make_mut(&mut turn.text).push_str(delta);
            Some(&turn.trace_id)
        }
        SwarmEvent::Reasoning {
            instance, delta, ..
        } => {
            let turn = running.get_mut(instance)?;
            Arc::make_mut(&mut turn.reasoning).push_str(delta);
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
