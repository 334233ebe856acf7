//! Sync state of an extension's copy of a conversation. The extension keeps the messages; this side
//! keeps a fingerprint of each and sends only new messages.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use goondan_abi::wire::{ConversationSplice, SplicePart};

use crate::message::{Message, MessageEvent};
use crate::ports::extension::TurnTranscript;

/// Sync state: messages that an extension has, and their turn.
pub(super) struct SyncState {
    turn: String,
    /// Number of changes sent since the turn began.
    changes: usize,
    /// Fingerprints of the messages that the extension has; `None` if it keeps no messages between
    /// turns.
    known: Option<Vec<MessageFingerprint>>,
}

/// Fingerprint of a message. An idle instance keeps only fingerprints, not the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct MessageFingerprint {
    id: u64,
    whole: u64,
}

impl MessageFingerprint {
    /// Returns the fingerprint of a message: hashes of its id and its content.
    fn from_message(message: &Message) -> Self {
        MessageFingerprint {
            id: hash(&message.id),
            whole: hash(message),
        }
    }
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Messages before a turn, in the form for an extension.
pub(super) enum TurnBase {
    /// The extension already received the messages.
    Known,
    Whole(Vec<Arc<Message>>),
    Changed(ConversationSplice<Arc<Message>>),
}

/// Returns the messages before `turn` and the changes since the last call, for an extension in the
/// state `synced`. `keeps`: the extension keeps messages between turns.
pub(super) fn next_changes(
    synced: &mut Option<SyncState>,
    turn: &str,
    transcript: &TurnTranscript,
    keeps: bool,
) -> (TurnBase, Vec<Arc<MessageEvent>>) {
    let previous = synced.take_if(|synced| synced.turn != turn);
    let base = match synced {
        Some(_) => TurnBase::Known,
        None => {
            let base = transcript.base();
            let fingerprints = keeps.then(|| {
                base.iter()
                    .map(|message| MessageFingerprint::from_message(message))
                    .collect::<Vec<_>>()
            });
            let previous_fingerprints = previous.and_then(|previous| previous.known);
            let turn_base = match (previous_fingerprints, &fingerprints) {
                (Some(previous_fingerprints), Some(fingerprints)) => TurnBase::Changed(
                    diff_conversation(&previous_fingerprints, fingerprints, base),
                ),
                _ => TurnBase::Whole(base.to_vec()),
            };
            *synced = Some(SyncState {
                turn: turn.to_owned(),
                changes: 0,
                known: fingerprints,
            });
            turn_base
        }
    };
    let events = synced
        .as_ref()
        .map_or_else(Vec::new, |synced| transcript.since(synced.changes));
    if let Some(synced) = synced {
        synced.changes += events.len();
        if let Some(fingerprints) = &mut synced.known {
            for event in &events {
                apply(fingerprints, event);
            }
        }
    }
    (base, events)
}

/// Returns the difference between `had` and `now`, the fingerprints of `messages`.
fn diff_conversation(
    had: &[MessageFingerprint],
    now: &[MessageFingerprint],
    messages: &[Arc<Message>],
) -> ConversationSplice<Arc<Message>> {
    let positions: HashMap<&MessageFingerprint, usize> = had
        .iter()
        .enumerate()
        .map(|(at, mark)| (mark, at))
        .collect();
    let mut parts = Vec::new();
    for (mark, message) in now.iter().zip(messages) {
        match (positions.get(mark), parts.last_mut()) {
            (Some(at), Some(SplicePart::Known(_, end))) if at == end => *end += 1,
            (Some(&at), _) => parts.push(SplicePart::Known(at, at + 1)),
            (None, _) => parts.push(SplicePart::New(Arc::clone(message))),
        }
    }
    ConversationSplice {
        of: had.len(),
        parts,
    }
}

/// Applies to the fingerprints the same change as the extension applies to its messages.
fn apply(fingerprints: &mut Vec<MessageFingerprint>, event: &MessageEvent) {
    let find = |fingerprints: &[MessageFingerprint], id: &str| {
        fingerprints
            .iter()
            .rposition(|fingerprint| fingerprint.id == hash(id))
    };
    match event {
        MessageEvent::Append { message } => {
            fingerprints.push(MessageFingerprint::from_message(message))
        }
        MessageEvent::Truncate => fingerprints.clear(),
        MessageEvent::Replace { target_id, message } => {
            if let Some(index) = find(fingerprints, target_id) {
                fingerprints[index] = MessageFingerprint::from_message(message);
            }
        }
        MessageEvent::Remove { target_id } => {
            if let Some(index) = find(fingerprints, target_id) {
                fingerprints.remove(index);
            }
        }
    }
}

#[cfg(test)]
mod tests;
