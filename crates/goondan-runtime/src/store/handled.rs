//! Which events were handled lately, and what came of them.

use std::collections::{HashMap, VecDeque};

use crate::event::TurnResult;
use crate::ids::InstanceId;

/// That many events are remembered, apart from those that are still needed.
const MAX_EVENTS: usize = 10_000;

/// They may take that many bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Results of handled events: for events that are delivered again, and for questions that a resumed turn asks again.
///
/// The oldest are forgotten first. Not so those that the unfinished turn of another instance may ask for again: they stay
/// until a turn of that instance is over ([`Handled::release`]).
#[derive(Debug)]
pub(crate) struct Handled<V> {
    entries: HashMap<String, Entry<V>>,
    /// Entries that may be forgotten, the oldest first. An entry that was put again is in here twice; its number tells.
    forgettable: VecDeque<(u64, String)>,
    needed: HashMap<InstanceId, Vec<(u64, String)>>,
    next: u64,
    bytes: usize,
    max_events: usize,
}

#[derive(Debug)]
struct Entry<V> {
    number: u64,
    value: V,
    bytes: usize,
    needed_by: Option<InstanceId>,
}

impl<V> Default for Handled<V> {
    fn default() -> Self {
        Handled::with_room_for(MAX_EVENTS)
    }
}

impl<V> Handled<V> {
    /// As the default, with another number of events.
    pub(super) fn with_room_for(max_events: usize) -> Self {
        Handled {
            entries: HashMap::new(),
            forgettable: VecDeque::new(),
            needed: HashMap::new(),
            next: 0,
            bytes: 0,
            max_events,
        }
    }

    /// Remembers what came of an event, at the cost of so many bytes; at least until `needed_by` has ended a turn.
    pub(crate) fn put(&mut self, event_id: String, value: V, bytes: usize, needed_by: Option<InstanceId>) {
        self.remove(&event_id);
        let number = self.next;
        self.next += 1;
        match &needed_by {
            Some(instance) => self.needed.entry(instance.clone()).or_default().push((number, event_id.clone())),
            None => self.forgettable.push_back((number, event_id.clone())),
        }
        self.bytes += bytes;
        self.entries.insert(event_id, Entry { number, value, bytes, needed_by });
        self.forget_oldest();
    }

    /// The events that stay for the unfinished turn of `instance`.
    pub(crate) fn needed_by(&self, instance: &InstanceId) -> impl Iterator<Item = &str> {
        let needed = self.needed.get(instance).into_iter().flatten();
        needed.map(|(_, event_id)| event_id.as_str()).filter(|event_id| self.entries.contains_key(*event_id))
    }

    /// A turn of `instance` is over: it won't ask again.
    pub(crate) fn release(&mut self, instance: &InstanceId) {
        for (number, event_id) in self.needed.remove(instance).unwrap_or_default() {
            if let Some(entry) = self.entries.get_mut(&event_id).filter(|entry| entry.number == number) {
                entry.needed_by = None;
                self.forgettable.push_back((number, event_id));
            }
        }
        self.forget_oldest();
    }

    /// What came of an event.
    pub(crate) fn get(&self, event_id: &str) -> Option<&V> {
        self.entries.get(event_id).map(|entry| &entry.value)
    }

    /// Forgets an event.
    pub(crate) fn remove(&mut self, event_id: &str) {
        if let Some(entry) = self.entries.remove(event_id) {
            self.bytes -= entry.bytes;
        }
    }

    /// All, in the order in which they were handled, with who still needs them.
    pub(crate) fn in_order(&self) -> Vec<(&str, &V, Option<&InstanceId>)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.number);
        entries.into_iter().map(|(id, entry)| (id.as_str(), &entry.value, entry.needed_by.as_ref())).collect()
    }

    fn forget_oldest(&mut self) {
        while self.forgettable.len() > self.max_events || self.bytes > MAX_BYTES {
            let Some((number, event_id)) = self.forgettable.pop_front() else { return };
            if self.entries.get(&event_id).is_some_and(|entry| entry.number == number) {
                self.remove(&event_id);
            }
        }
    }
}

/// About how many bytes a result takes.
pub(crate) fn size_of(result: &TurnResult) -> usize {
    const FIXED: usize = 512;
    let text: usize = result.response_message.as_ref().map_or(0, |message| {
        let parts = message.data.content.iter();
        parts.map(|part| if let crate::message::Part::Text { text } = part { text.len() } else { FIXED }).sum()
    });
    FIXED + text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(handled: &Handled<u32>) -> Vec<&str> {
        handled.in_order().into_iter().map(|(id, ..)| id).collect()
    }

    #[test]
    fn the_oldest_go_first() {
        let mut handled = Handled::with_room_for(2);
        for (number, id) in ["a", "b", "a", "c"].into_iter().enumerate() {
            handled.put(id.to_owned(), u32::try_from(number).unwrap(), 1, None);
        }
        // The first `a` was put again and counts as one that was forgotten.
        assert_eq!(ids(&handled), ["a", "c"]);
        assert_eq!(handled.get("a"), Some(&2));
    }

    #[test]
    fn a_result_stays_while_the_turn_that_asked_is_unfinished() {
        let asker = InstanceId::new("a", "main");
        let mut handled = Handled::with_room_for(1);
        handled.put("asked".to_owned(), 1, 1, Some(asker.clone()));
        handled.put("x".to_owned(), 2, 1, None);
        handled.put("y".to_owned(), 3, 1, None);
        assert_eq!(ids(&handled), ["asked", "y"]);
        handled.release(&asker);
        assert_eq!(handled.in_order().len(), 1);
    }

    #[test]
    fn large_results_take_the_room_of_many() {
        let mut handled = Handled::with_room_for(10);
        handled.put("small".to_owned(), 1, 1, None);
        handled.put("large".to_owned(), 2, MAX_BYTES, None);
        assert_eq!(ids(&handled), ["large"]);
    }
}
