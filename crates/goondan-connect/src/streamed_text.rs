//! Text of running turns, for streamed answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use goondan::Swarm;
use goondan::event::{RuntimeEventKind, SwarmEvent};
use tokio::sync::watch;

use crate::receive_supervisor::AbortOnDrop;

/// Watched turns. The swarm subscription starts with the first watched turn.
#[derive(Clone, Default)]
pub(crate) struct TurnTextStreams(Arc<TurnTextStreamsInner>);

#[derive(Default)]
struct TurnTextStreamsInner {
    turns: Turns,
    listening: OnceLock<AbortOnDrop<()>>,
}

/// Text of the current step by turn; `None` until a step start is received.
type Texts = HashMap<String, watch::Sender<Option<String>>>;
type Turns = Arc<Mutex<Texts>>;

/// Locks the texts.
fn lock(turns: &Turns) -> MutexGuard<'_, Texts> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TurnTextStreams {
    /// Subscribes to the text of a turn's current step. If the turn may have started, the text
    /// begins with its next step.
    pub(crate) fn watch(&self, swarm: &Swarm, turn_id: String, has_begun: bool) -> TurnTextWatch {
        let (sender, text) = watch::channel((!has_begun).then(String::new));
        lock(&self.0.turns).insert(turn_id.clone(), sender);
        self.0.listening.get_or_init(|| {
            let (turns, mut events) = (Arc::clone(&self.0.turns), swarm.subscribe());
            AbortOnDrop(tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    hear(&turns, &event);
                }
            }))
        });
        TurnTextWatch {
            turns: Arc::clone(&self.0.turns),
            turn_id,
            text,
        }
    }
}

/// Adds an event to the text of its turn.
fn hear(turns: &Turns, event: &SwarmEvent) {
    let (turn_id, delta) = match event {
        SwarmEvent::Text { turn_id, delta, .. } => (turn_id, Some(delta)),
        SwarmEvent::TextReset { turn_id, .. } => (turn_id, None),
        SwarmEvent::Runtime(event) => match &event.kind {
            RuntimeEventKind::StepStarted { turn_id, .. } => (turn_id, None),
            _ => return,
        },
        SwarmEvent::Reasoning { .. } | SwarmEvent::TurnEnded { .. } => return,
    };
    if let Some(text) = lock(turns).get(turn_id) {
        text.send_modify(|text| match delta {
            Some(delta) => text.iter_mut().for_each(|text| text.push_str(delta)),
            None => *text = Some(String::new()),
        });
    }
}

/// Guard of a watched turn.
pub(crate) struct TurnTextWatch {
    turns: Turns,
    turn_id: String,
    pub(crate) text: watch::Receiver<Option<String>>,
}

impl Drop for TurnTextWatch {
    fn drop(&mut self) {
        lock(&self.turns).remove(&self.turn_id);
    }
}
