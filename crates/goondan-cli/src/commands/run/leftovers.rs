//! Turns that an earlier run left unfinished and that go on with this one.

use std::collections::HashSet;

use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::inside::shown;

/// Finds words for such turns: nobody in this run has asked for them.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// The events of those that run.
    running: HashSet<String>,
}

impl Leftovers {
    /// What there is to say where `event` is about such a turn. `mine` is the event that this run has sent.
    pub(crate) fn words(&mut self, event: &SwarmEvent, mine: Option<&str>) -> Option<String> {
        match event {
            SwarmEvent::Runtime(event) => match &event.kind {
                // What an agent asks another one has a parent.
                RuntimeEventKind::TurnStarted { event_id, .. }
                    if event.trace.parent_span_id.is_none() && Some(event_id.as_str()) != mine =>
                {
                    self.running.insert(event_id.clone());
                    Some(format!("{} goes on with a turn of an earlier run.", shown::line(event.instance())))
                }
                _ => None,
            },
            SwarmEvent::TurnEnded { instance, event_id, result } if self.running.remove(event_id) => {
                let outcome = match &result.error {
                    Some(error) => format!("[{}] {}", error.code, error.message),
                    None => result.response_text(),
                };
                let instance = shown::line(instance);
                Some(format!("{instance} has ended that turn: {}", told(&outcome)))
            }
            _ => None,
        }
    }
}

/// An answer or an error, of which the further lines can't be taken for ours.
fn told(outcome: &str) -> String {
    shown::lines(outcome).to_string().replace('\n', "\n  ")
}
