//! Which events were handled lately, and what came of them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use bytes::Bytes;
use hashbrown::HashTable;

use crate::ids::InstanceId;
use crate::kept::Shelf;

/// That many events are remembered, apart from those that are still needed.
const MAX_EVENTS: usize = 10_000;

/// They may take that many bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// With that many, room is made for all that may come: tables that double leave the memory in pieces.
const FEW_EVENTS: usize = 1_024;

/// Results of handled events: for events that are delivered again, and for questions that a resumed turn asks again.
///
/// The oldest are forgotten first. Not so those that the unfinished turn of another instance may ask for again: they stay
/// until a turn of that instance is over ([`Handled::release`]).
#[derive(Debug)]
pub(crate) struct Handled<V> {
    /// The oldest first; `None` is one that is gone.
    entries: VecDeque<Option<Entry<V>>>,
    /// Entries are numbered as they come: this is the number of the first.
    first: usize,
    /// Numbers by event id.
    numbers: HashTable<usize>,
    hasher: RandomState,
    /// Events that may be asked for again, by who may ask. There may be some that are forgotten.
    needed: HashMap<InstanceId, Vec<Bytes>>,
    /// How many entries are needed.
    needed_count: usize,
    ids: Shelf,
    bytes: usize,
    max_events: usize,
}

#[derive(Debug)]
struct Entry<V> {
    event_id: Bytes,
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
            entries: VecDeque::new(),
            first: 0,
            numbers: HashTable::new(),
            hasher: RandomState::new(),
            needed: HashMap::new(),
            needed_count: 0,
            ids: Shelf::default(),
            bytes: 0,
            max_events,
        }
    }

    /// Forgets everything, and keeps the room for as much.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.numbers.clear();
        self.needed.clear();
        (self.needed_count, self.bytes) = (0, 0);
    }

    /// Remembers what came of an event, at the cost of so many bytes; at least until `needed_by` has ended a turn.
    pub(crate) fn put(&mut self, event_id: &str, value: V, bytes: usize, needed_by: Option<InstanceId>) {
        self.remove(event_id);
        let event_id = self.ids.put_text(event_id);
        if let Some(instance) = &needed_by {
            self.needed.entry(instance.clone()).or_default().push(event_id.clone());
            self.needed_count += 1;
        }
        self.bytes += bytes;
        self.push(Entry { event_id, value, bytes, needed_by: needed_by.map(Box::new) });
        self.forget_oldest();
    }

    /// The events that stay for the unfinished turn of `instance`.
    pub(crate) fn needed_by(&self, instance: &InstanceId) -> impl Iterator<Item = String> {
        let needed = self.needed.get(instance).into_iter().flatten();
        let known = needed.filter(|event_id| self.number(event_id).is_some());
        known.map(|event_id| String::from_utf8_lossy(event_id).into_owned())
    }

    /// A turn of `instance` is over: it won't ask again.
    pub(crate) fn release(&mut self, instance: &InstanceId) {
        for event_id in self.needed.remove(instance).unwrap_or_default() {
            let entry = self.number(&event_id).and_then(|number| self.entries[number - self.first].as_mut());
            let is_needed = |entry: &&mut Entry<V>| entry.needed_by.as_deref() == Some(instance);
            if let Some(entry) = entry.filter(is_needed) {
                entry.needed_by = None;
                self.needed_count -= 1;
            }
        }
        self.forget_oldest();
    }

    /// What came of an event.
    pub(crate) fn get(&self, event_id: &str) -> Option<&V> {
        self.entry(event_id).map(|entry| &entry.value)
    }

    /// Forgets an event.
    pub(crate) fn remove(&mut self, event_id: &str) {
        let Some(number) = self.number(event_id.as_bytes()) else { return };
        let entry = self.entries[number - self.first].take();
        self.forget(number, entry);
    }

    /// The instance whose unfinished turn may ask for an event again.
    pub(super) fn who_needs(&self, event_id: &str) -> Option<&InstanceId> {
        self.entry(event_id)?.needed_by.as_deref()
    }

    /// What came of all events, the oldest first.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().flatten().map(|entry| &entry.value)
    }

    fn entry(&self, event_id: &str) -> Option<&Entry<V>> {
        let number = self.number(event_id.as_bytes())?;
        self.entries[number - self.first].as_ref()
    }

    fn number(&self, event_id: &[u8]) -> Option<usize> {
        let (entries, first) = (&self.entries, self.first);
        let is_it = |number: &usize| entries[number - first].as_ref().is_some_and(|entry| entry.event_id == event_id);
        self.numbers.find(self.hasher.hash_one(event_id), is_it).copied()
    }

    /// One more, as the youngest.
    fn push(&mut self, entry: Entry<V>) {
        let Handled { entries, first, numbers, hasher, .. } = self;
        if entries.len() == entries.capacity() && (FEW_EVENTS..self.max_events).contains(&entries.len()) {
            // One more is in here before the oldest is forgotten.
            entries.reserve_exact(self.max_events + 1 - entries.len());
        }
        let hash = hasher.hash_one(&*entry.event_id);
        entries.push_back(Some(entry));
        let hash_of =
            |number: &usize| entries[number - *first].as_ref().map_or(0, |entry| hasher.hash_one(&*entry.event_id));
        numbers.insert_unique(hash, *first + entries.len() - 1, hash_of);
    }

    fn forget_oldest(&mut self) {
        loop {
            // Those that are gone count until they are the oldest.
            let forgettable = self.entries.len() - self.needed_count;
            if forgettable == 0 || (forgettable <= self.max_events && self.bytes <= MAX_BYTES) {
                return;
            }
            let Some(oldest) = self.entries.pop_front() else { return };
            let number = self.first;
            self.first += 1;
            match oldest {
                Some(entry) if entry.needed_by.is_some() => {
                    self.drop_number(number, &entry.event_id);
                    self.push(entry);
                }
                gone => self.forget(number, gone),
            }
        }
    }

    /// Forgets an entry that was taken out.
    fn forget(&mut self, number: usize, entry: Option<Entry<V>>) {
        let Some(entry) = entry else { return };
        self.drop_number(number, &entry.event_id);
        self.bytes -= entry.bytes;
        self.needed_count -= usize::from(entry.needed_by.is_some());
    }

    fn drop_number(&mut self, number: usize, event_id: &[u8]) {
        if let Ok(found) = self.numbers.find_entry(self.hasher.hash_one(event_id), |other| *other == number) {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// In the order of their names.
    fn ids(handled: &Handled<u32>) -> Vec<&str> {
        let entries = handled.entries.iter().flatten();
        let mut ids: Vec<&str> = entries.map(|entry| std::str::from_utf8(&entry.event_id).unwrap()).collect();
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
        assert_eq!(ids(&handled), ["asked"], "while it was needed, it grew no older");
    }

    #[test]
    fn large_results_take_the_room_of_many() {
        let mut handled = Handled::with_room_for(10);
        handled.put("small", 1, 1, None);
        handled.put("large", 2, MAX_BYTES, None);
        assert_eq!(ids(&handled), ["large"]);
    }

    proptest! {
        /// Whatever is put, needed, released and removed: what is needed stays, the rest has little room, and nothing is mixed up.
        #[test]
        fn what_is_needed_stays_and_the_rest_has_little_room(acts in proptest::collection::vec((0u8..9, 0u32..12), 0..200)) {
            const ROOM: usize = 3;
            let askers = [InstanceId::new("a", "0"), InstanceId::new("a", "1")];
            let mut handled = Handled::with_room_for(ROOM);
            let mut put: HashMap<String, (u32, Option<InstanceId>)> = HashMap::new();
            for (time, (what, which)) in (0..).zip(acts) {
                let (id, asker) = (format!("e{which}"), askers[which as usize % 2].clone());
                match what {
                    0..6 => {
                        let needed_by = (what < 2).then_some(asker);
                        handled.put(&id, time, 1, needed_by.clone());
                        put.insert(id, (time, needed_by));
                    }
                    6 => {
                        handled.remove(&id);
                        put.remove(&id);
                    }
                    7 if which == 0 => {
                        handled.clear();
                        put.clear();
                    }
                    _ => {
                        handled.release(&asker);
                        put.values_mut().for_each(|(_, needed_by)| *needed_by = needed_by.take().filter(|by| *by != asker));
                    }
                }
                for (id, (time, needed_by)) in &put {
                    let known = handled.get(id);
                    prop_assert!(known == Some(time) || (known.is_none() && needed_by.is_none()), "{}: {:?}", id, known);
                    prop_assert_eq!(handled.who_needs(id), needed_by.as_ref());
                }
                let needed = put.values().filter(|(_, needed_by)| needed_by.is_some()).count();
                let count = handled.values().count();
                prop_assert!(count <= needed + ROOM && count == handled.bytes && needed == handled.needed_count);
            }
        }
    }
}
