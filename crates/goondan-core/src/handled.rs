//! Which events were handled lately, and what came of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::event::TurnResult;
use crate::ids::InstanceId;

/// That many events are remembered, apart from those that are still needed.
const MAX_EVENTS: usize = 10_000;

/// They may take that many bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The result of a turn, kept for whoever may ask for it again. Few ever do, so it is kept as JSON, which takes a fourth of
/// the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResult(Box<[u8]>);

impl KeptResult {
    /// The kept form of a result.
    pub fn of(result: &TurnResult) -> Self {
        let encoded =
            serde_json::to_vec(result).expect("every part of a result has a form in JSON");
        KeptResult(encoded.into_boxed_slice())
    }

    /// The memory that it takes, in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The result. An error where what a model made up nests deeper than JSON is read.
    pub fn decode(&self) -> serde_json::Result<TurnResult> {
        serde_json::from_slice(&self.0)
    }
}

/// Results of handled events: for events that are delivered again, and for questions that a resumed turn asks again.
///
/// The oldest are forgotten first. Not so those that the unfinished turn of another instance may ask for again: they stay
/// until a turn of that instance is over ([`Handled::release`]).
#[derive(Debug)]
pub struct Handled<V> {
    entries: HashMap<Arc<str>, Entry<V>>,
    /// Events that may be forgotten, by number: the oldest first.
    forgettable: BTreeMap<u64, Arc<str>>,
    /// Events that may be asked for again, by who may ask. Some of them may be forgotten by now.
    needed: HashMap<InstanceId, Vec<Arc<str>>>,
    next_number: u64,
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
    pub fn with_room_for(max_events: usize) -> Self {
        Handled {
            entries: HashMap::new(),
            forgettable: BTreeMap::new(),
            needed: HashMap::new(),
            next_number: 0,
            bytes: 0,
            max_events,
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Handled::with_room_for(self.max_events);
    }

    /// Remembers what came of an event, at the cost of so many bytes; at least until `needed_by` has ended a turn.
    pub fn put(&mut self, event_id: &str, value: V, bytes: usize, needed_by: Option<InstanceId>) {
        self.remove(event_id);
        let event_id: Arc<str> = event_id.into();
        let number = self.number();
        match &needed_by {
            Some(instance) => self
                .needed
                .entry(instance.clone())
                .or_default()
                .push(Arc::clone(&event_id)),
            None => drop(self.forgettable.insert(number, Arc::clone(&event_id))),
        }
        self.bytes += bytes;
        self.entries.insert(
            event_id,
            Entry {
                number,
                value,
                bytes,
                needed_by,
            },
        );
        self.forget_oldest();
    }

    /// The events that stay for the unfinished turn of `instance`.
    pub fn needed_by(&self, instance: &InstanceId) -> impl Iterator<Item = String> {
        let needed = self.needed.get(instance).into_iter().flatten();
        needed
            .filter(|event_id| self.entries.contains_key(*event_id))
            .map(|event_id| event_id.to_string())
    }

    /// A turn of `instance` is over: it won't ask again.
    pub fn release(&mut self, instance: &InstanceId) {
        for event_id in self.needed.remove(instance).unwrap_or_default() {
            let number = self.number();
            let entry = self
                .entries
                .get_mut(&event_id)
                .filter(|entry| entry.needed_by.as_ref() == Some(instance));
            if let Some(entry) = entry {
                (entry.needed_by, entry.number) = (None, number);
                self.forgettable.insert(number, event_id);
            }
        }
        self.forget_oldest();
    }

    /// What came of an event.
    pub fn get(&self, event_id: &str) -> Option<&V> {
        self.entries.get(event_id).map(|entry| &entry.value)
    }

    /// Forgets an event.
    pub fn remove(&mut self, event_id: &str) {
        if let Some(entry) = self.entries.remove(event_id) {
            self.forgettable.remove(&entry.number);
            self.bytes -= entry.bytes;
        }
    }

    /// The instance whose unfinished turn may ask for an event again.
    pub fn who_needs(&self, event_id: &str) -> Option<&InstanceId> {
        self.entries.get(event_id)?.needed_by.as_ref()
    }

    /// What came of all events, in any order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn forget_oldest(&mut self) {
        while self.forgettable.len() > self.max_events || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.forgettable.pop_first() else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// In the order of their names.
    fn ids(handled: &Handled<u32>) -> Vec<&str> {
        let mut ids: Vec<&str> = handled.entries.keys().map(|event_id| &**event_id).collect();
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
        assert_eq!(
            ids(&handled),
            ["asked"],
            "while it was needed, it grew no older"
        );
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
                prop_assert!(count <= needed + ROOM && count == handled.bytes && count - needed == handled.forgettable.len());
            }
        }
    }
}
