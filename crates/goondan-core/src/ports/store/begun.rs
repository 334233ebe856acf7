//! Which of the pending events had begun: their turns resume before anything else happens in their conversations.

use std::collections::HashMap;

use super::Recovered;
use crate::ids::{InstanceId, is_message_of};
use crate::message::MessageEvent;

/// What a turn that was cut off has left in its conversation.
#[derive(Debug, Default)]
pub struct Traces {
    /// The turn that the journal is of.
    pub journal: Option<String>,
    /// The messages behind the base.
    pub messages: Vec<String>,
}

impl Traces {
    /// The traces in the events of a conversation.
    pub fn in_events<'a>(events: impl Iterator<Item = &'a MessageEvent>) -> Self {
        let appended = events.filter_map(|event| match event {
            MessageEvent::Append { message } => Some(message.id.clone()),
            _ => None,
        });
        Traces {
            journal: None,
            messages: appended.collect(),
        }
    }

    fn are_of(&self, turn_id: &str) -> bool {
        self.journal.as_deref() == Some(turn_id)
            || self.messages.iter().any(|id| is_message_of(id, turn_id))
    }
}

/// Finds the begun events, and puts each before all others of its instance.
///
/// An event that was accepted later may have begun first: an answer, for instance, comes before what waits. Were another
/// turn to begin now, it would find the traces of the begun one, and take them for its own past.
pub fn put_begun_first(recovered: &mut Recovered, traces_of: impl Fn(&InstanceId) -> Traces) {
    let mut places: HashMap<InstanceId, Vec<usize>> = HashMap::new();
    for (place, event) in recovered.pending.iter().enumerate() {
        places.entry(event.target.clone()).or_default().push(place);
    }
    for (id, places) in places {
        let traces = traces_of(&id);
        let begun = places
            .iter()
            .position(|place| traces.are_of(&recovered.pending[*place].turn_id()));
        let Some(begun) = begun else { continue };
        recovered
            .begun
            .push(recovered.pending[places[begun]].id.clone());
        // Only events of this instance change places.
        for nth in (1..=begun).rev() {
            recovered.pending.swap(places[nth], places[nth - 1]);
        }
    }
    recovered.begun.sort();
}
