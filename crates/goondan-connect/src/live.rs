//! What running turns have written so far, for answers that grow in their channels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use goondan::Swarm;
use goondan::event::{RuntimeEventKind, SwarmEvent};
use tokio::sync::watch;

use crate::supervise::Abort;

/// The turns that somebody watches. Nothing is listened to before somebody does.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Inner>);

#[derive(Default)]
struct Inner {
    turns: Turns,
    listening: OnceLock<Abort<()>>,
}

/// By turn, the text of its current step; `None` where its beginning was not seen.
type Texts = HashMap<String, watch::Sender<Option<String>>>;
type Turns = Arc<Mutex<Texts>>;

fn lock(turns: &Turns) -> MutexGuard<'_, Texts> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// The text of the current step of a turn. Of one that may have begun, it is told from the next step on.
    pub(crate) fn watch(&self, swarm: &Swarm, turn_id: String, has_begun: bool) -> Watched {
        let (sender, text) = watch::channel((!has_begun).then(String::new));
        lock(&self.0.turns).insert(turn_id.clone(), sender);
        self.0.listening.get_or_init(|| {
            let (turns, mut events) = (Arc::clone(&self.0.turns), swarm.subscribe());
            Abort(tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    hear(&turns, &event);
                }
            }))
        });
        Watched {
            turns: Arc::clone(&self.0.turns),
            turn_id,
            text,
        }
    }
}

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

/// A turn that is watched until this is dropped.
pub(crate) struct Watched {
    turns: Turns,
    turn_id: String,
    pub(crate) text: watch::Receiver<Option<String>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        lock(&self.turns).remove(&self.turn_id);
    }
}
