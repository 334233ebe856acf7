//! Sync state of an extension's copy of a conversation. The extension keeps the messages; this side
//! keeps a fingerprint of each and sends only new messages.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{ConversationDiff, DiffPart};
use crate::message::{Message, MessageEvent};
use crate::ports::extension::TurnTranscript;

/// Sync state: messages that an extension has, and their turn.
pub(super) struct SyncState {
    turn: String,
    /// Number of changes sent since the turn began.
    changes: usize,
    /// Messages that the extension has, if it keeps them between turns.
    known: Option<Vec<MessageFingerprint>>,
}

/// Fingerprint of a message. An idle instance keeps only fingerprints, not the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct MessageFingerprint {
    id: u64,
    whole: u64,
}

impl MessageFingerprint {
    fn of(message: &Message) -> Self {
        MessageFingerprint {
            id: hash(&message.id),
            whole: hash(message),
        }
    }
}

fn hash<T: Hash + ?Sized>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Messages before a turn, in the form for an extension.
pub(super) enum TurnBase {
    /// The extension already received them.
    Known,
    Whole(Vec<Arc<Message>>),
    Changed(ConversationDiff),
}

/// Returns the messages before `turn` and the changes since the last call, for an extension in the
/// state `told`. `keeps`: the extension keeps messages between turns.
pub(super) fn next_changes(
    told: &mut Option<SyncState>,
    turn: &str,
    transcript: &TurnTranscript,
    keeps: bool,
) -> (TurnBase, Vec<Arc<MessageEvent>>) {
    let before = told.take_if(|told| told.turn != turn);
    let base = match told {
        Some(_) => TurnBase::Known,
        None => {
            let base = transcript.base();
            let known = keeps.then(|| {
                base.iter()
                    .map(|message| MessageFingerprint::of(message))
                    .collect::<Vec<_>>()
            });
            let had = before.and_then(|before| before.known);
            let begun = match (had, &known) {
                (Some(had), Some(known)) => TurnBase::Changed(splice(&had, known, base)),
                _ => TurnBase::Whole(base.to_vec()),
            };
            *told = Some(SyncState {
                turn: turn.to_owned(),
                changes: 0,
                known,
            });
            begun
        }
    };
    let events = told
        .as_ref()
        .map_or_else(Vec::new, |told| transcript.since(told.changes));
    if let Some(told) = told {
        told.changes += events.len();
        if let Some(known) = &mut told.known {
            events.iter().for_each(|event| apply(known, event));
        }
    }
    (base, events)
}

/// Returns the difference between `had` and `now`, the fingerprints of `messages`.
fn splice(
    had: &[MessageFingerprint],
    now: &[MessageFingerprint],
    messages: &[Arc<Message>],
) -> ConversationDiff {
    let places: HashMap<&MessageFingerprint, usize> = had
        .iter()
        .enumerate()
        .map(|(at, mark)| (mark, at))
        .collect();
    let mut parts = Vec::new();
    for (mark, message) in now.iter().zip(messages) {
        match (places.get(mark), parts.last_mut()) {
            (Some(at), Some(DiffPart::Known(_, end))) if at == end => *end += 1,
            (Some(&at), _) => parts.push(DiffPart::Known(at, at + 1)),
            (None, _) => parts.push(DiffPart::New(Arc::clone(message))),
        }
    }
    ConversationDiff {
        of: had.len(),
        parts,
    }
}

/// Applies to the fingerprints the same change as the extension applies to its messages.
fn apply(known: &mut Vec<MessageFingerprint>, event: &MessageEvent) {
    let find =
        |known: &[MessageFingerprint], id: &str| known.iter().rposition(|mark| mark.id == hash(id));
    match event {
        MessageEvent::Append { message } => known.push(MessageFingerprint::of(message)),
        MessageEvent::Truncate => known.clear(),
        MessageEvent::Replace { target_id, message } => {
            if let Some(at) = find(known, target_id) {
                known[at] = MessageFingerprint::of(message);
            }
        }
        MessageEvent::Remove { target_id } => {
            if let Some(at) = find(known, target_id) {
                known.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests;
