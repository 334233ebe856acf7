//! What an extension was told of a conversation. It keeps the messages; this side keeps a mark of each, and tells what is new.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{Part, Splice};
use crate::message::{Message, MessageEvent};
use crate::ports::extension::Transcript;

/// What an extension was told, and of which turn.
pub(super) struct Told {
    turn: String,
    /// So many changes since the turn began.
    changes: usize,
    /// What it has now, where it keeps that from turn to turn.
    known: Option<Vec<Mark>>,
}

/// What tells a message from others. An instance that rests keeps these, and not its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Mark {
    id: u64,
    whole: u64,
}

impl Mark {
    fn of(message: &Message) -> Self {
        Mark {
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

/// What stood before a turn, as an extension is told.
pub(super) enum Base {
    /// It was told of the turn already.
    Known,
    /// All messages.
    Whole(Vec<Arc<Message>>),
    /// What is new of them.
    Changed(Splice),
}

/// What is to be told of `turn` to an extension that was told `told`, and `keeps` that: what stood before, and what has changed.
pub(super) fn news(
    told: &mut Option<Told>,
    turn: &str,
    transcript: &Transcript,
    keeps: bool,
) -> (Base, Vec<Arc<MessageEvent>>) {
    let before = told.take_if(|told| told.turn != turn);
    let base = match told {
        Some(_) => Base::Known,
        None => {
            let base = transcript.base();
            let known = keeps.then(|| {
                base.iter()
                    .map(|message| Mark::of(message))
                    .collect::<Vec<_>>()
            });
            let had = before.and_then(|before| before.known);
            let begun = match (had, &known) {
                (Some(had), Some(known)) => Base::Changed(splice(&had, known, base)),
                _ => Base::Whole(base.to_vec()),
            };
            *told = Some(Told {
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

/// How `had` becomes `now`, the marks of `messages`.
fn splice(had: &[Mark], now: &[Mark], messages: &[Arc<Message>]) -> Splice {
    let places: HashMap<&Mark, usize> = had
        .iter()
        .enumerate()
        .map(|(at, mark)| (mark, at))
        .collect();
    let mut parts = Vec::new();
    for (mark, message) in now.iter().zip(messages) {
        match (places.get(mark), parts.last_mut()) {
            (Some(at), Some(Part::Known(_, end))) if at == end => *end += 1,
            (Some(&at), _) => parts.push(Part::Known(at, at + 1)),
            (None, _) => parts.push(Part::New(Arc::clone(message))),
        }
    }
    Splice {
        of: had.len(),
        parts,
    }
}

/// Does to the marks what an extension does to its messages.
fn apply(known: &mut Vec<Mark>, event: &MessageEvent) {
    let find = |known: &[Mark], id: &str| known.iter().rposition(|mark| mark.id == hash(id));
    match event {
        MessageEvent::Append { message } => known.push(Mark::of(message)),
        MessageEvent::Truncate => known.clear(),
        MessageEvent::Replace { target_id, message } => {
            if let Some(at) = find(known, target_id) {
                known[at] = Mark::of(message);
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
