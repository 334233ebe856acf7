//! Detection of pending events with a begun turn. These turns resume before any other turn in their
//! conversations.

use std::collections::HashMap;

use super::RecoveredState;
use crate::ids::{InstanceId, is_message_of};
use crate::message::MessageEvent;

/// Data of an interrupted turn in its conversation.
#[derive(Debug, Default)]
pub struct TurnRemains {
    /// Turn of the journal.
    pub journal: Option<String>,
    /// Ids of the messages after the base.
    pub messages: Vec<String>,
}

impl TurnRemains {
    /// Returns the traces in the events of a conversation.
    pub fn in_events<'a>(events: impl Iterator<Item = &'a MessageEvent>) -> Self {
        let appended = events.filter_map(|event| match event {
            MessageEvent::Append { message } => Some(message.id.clone()),
            _ => None,
        });
        TurnRemains {
            journal: None,
            messages: appended.collect(),
        }
    }

    /// Returns true if the journal or a message belongs to this turn.
    fn are_of(&self, turn_id: &str) -> bool {
        self.journal.as_deref() == Some(turn_id)
            || self.messages.iter().any(|id| is_message_of(id, turn_id))
    }
}

/// Finds the begun events, and moves each before all others of its instance.
///
/// An event that was accepted later can begin first: for instance, an answer precedes queued
/// events. Another turn that begins now would find the messages of the begun turn, and treat them
/// as its own.
pub fn put_begun_first(
    recovered: &mut RecoveredState,
    remains_of: impl Fn(&InstanceId) -> TurnRemains,
) {
    let mut indexes: HashMap<InstanceId, Vec<usize>> = HashMap::new();
    for (index, event) in recovered.pending.iter().enumerate() {
        indexes.entry(event.target.clone()).or_default().push(index);
    }
    for (id, indexes) in indexes {
        let remains = remains_of(&id);
        let begun = indexes
            .iter()
            .position(|index| remains.are_of(&recovered.pending[*index].turn_id()));
        let Some(begun) = begun else { continue };
        recovered
            .begun
            .push(recovered.pending[indexes[begun]].id.clone());
        // Moves only events of this instance.
        for nth in (1..=begun).rev() {
            recovered.pending.swap(indexes[nth], indexes[nth - 1]);
        }
    }
    recovered.begun.sort();
}
