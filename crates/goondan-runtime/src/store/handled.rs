//! Which events were handled lately, and what came of them.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use indexmap::IndexMap;

use crate::ids::InstanceId;
use crate::kept::Shelf;

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
    // Thousands are in here at all times. A table of another kind would leave room for twice as many.
    entries: IndexMap<Bytes, Entry<V>>,
    /// Entries that may be forgotten, the oldest first. An entry that was put again is in here twice; its number tells.
    forgettable: VecDeque<(u64, Bytes)>,
    needed: HashMap<InstanceId, Vec<(u64, Bytes)>>,
    ids: Shelf,
    next: u64,
    bytes: usize,
    max_events: usize,
}

#[derive(Debug)]
struct Entry<V> {
    number: u64,
    value: V,
    bytes: usize,
    needed_by: Option<Box<InstanceId>>,
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
            entries: IndexMap::new(),
            forgettable: VecDeque::new(),
            needed: HashMap::new(),
            ids: Shelf::default(),
            next: 0,
            bytes: 0,
            max_events,
        }
    }

    /// Remembers what came of an event, at the cost of so many bytes; at least until `needed_by` has ended a turn.
    pub(crate) fn put(&mut self, event_id: &str, value: V, bytes: usize, needed_by: Option<InstanceId>) {
        self.remove(event_id);
        let event_id = self.ids.put_text(event_id);
        let number = self.next;
        self.next += 1;
        match &needed_by {
            Some(instance) => self.needed.entry(instance.clone()).or_default().push((number, event_id.clone())),
            None => self.forgettable.push_back((number, event_id.clone())),
        }
        self.bytes += bytes;
        self.entries.insert(event_id, Entry { number, value, bytes, needed_by: needed_by.map(Box::new) });
        self.forget_oldest();
    }

    /// The events that stay for the unfinished turn of `instance`.
    pub(crate) fn needed_by(&self, instance: &InstanceId) -> impl Iterator<Item = String> {
        let needed = self.needed.get(instance).into_iter().flatten();
        let known = needed.map(|(_, event_id)| event_id).filter(|event_id| self.entries.contains_key(*event_id));
        known.map(|event_id| String::from_utf8_lossy(event_id).into_owned())
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
        self.entries.get(event_id.as_bytes()).map(|entry| &entry.value)
    }

    /// Forgets an event.
    pub(crate) fn remove(&mut self, event_id: &str) {
        self.remove_id(event_id.as_bytes());
    }

    /// The instance whose unfinished turn may ask for an event again.
    pub(super) fn who_needs(&self, event_id: &str) -> Option<&InstanceId> {
        self.entries.get(event_id.as_bytes())?.needed_by.as_deref()
    }

    /// What came of all events, in any order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    fn forget_oldest(&mut self) {
        while self.forgettable.len() > self.max_events || self.bytes > MAX_BYTES {
            let Some((number, event_id)) = self.forgettable.pop_front() else { return };
            if self.entries.get(&event_id).is_some_and(|entry| entry.number == number) {
                self.remove_id(&event_id);
            }
        }
    }

    fn remove_id(&mut self, event_id: &[u8]) {
        if let Some(entry) = self.entries.swap_remove(event_id) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the order of their names.
    fn ids(handled: &Handled<u32>) -> Vec<&str> {
        let mut ids: Vec<&str> = handled.entries.keys().map(|id| std::str::from_utf8(id).unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn the_oldest_go_first() {
        let mut handled = Handled::with_room_for(2);
        for (number, id) in ["a", "b", "a", "c"].into_iter().enumerate() {
            handled.put(id, u32::try_from(number).unwrap(), 1, None);
        }
        // The first `a` was put again and counts as one that was forgotten.
        assert_eq!(ids(&handled), ["a", "c"]);
        assert_eq!(handled.get("a"), Some(&2));
    }

    #[test]
    fn a_result_stays_while_the_turn_that_asked_is_unfinished() {
        let asker = InstanceId::new("a", "main");
        let mut handled = Handled::with_room_for(1);
        handled.put("asked", 1, 1, Some(asker.clone()));
        handled.put("x", 2, 1, None);
        handled.put("y", 3, 1, None);
        assert_eq!(ids(&handled), ["asked", "y"]);
        handled.release(&asker);
        assert_eq!(ids(&handled), ["asked"]);
    }

    #[test]
    fn large_results_take_the_room_of_many() {
        let mut handled = Handled::with_room_for(10);
        handled.put("small", 1, 1, None);
        handled.put("large", 2, MAX_BYTES, None);
        assert_eq!(ids(&handled), ["large"]);
    }
}
