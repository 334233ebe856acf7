//! Cache of recently handled events and their results.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::event::TurnResult;
use crate::ids::InstanceId;

/// Maximum number of remembered events, not counting those that are still needed.
pub const MAX_CACHED_EVENTS: usize = 10_000;

/// Maximum size of all remembered results.
pub const MAX_CACHED_BYTES: usize = 64 * 1024 * 1024;

/// Result of a turn, cached for repeated requests. These are rare, so the result is stored as JSON,
/// which takes a quarter of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedResult(Box<[u8]>);

impl EncodedResult {
    /// Encodes a result.
    pub fn encode(result: &TurnResult) -> Self {
        let encoded =
            serde_json::to_vec(result).expect("every part of a result can be written as JSON");
        EncodedResult(encoded.into_boxed_slice())
    }

    /// Returns the memory size in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Decodes the result.
    ///
    /// # Errors
    /// The output of the model nests deeper than the JSON parser allows.
    pub fn decode(&self) -> serde_json::Result<TurnResult> {
        serde_json::from_slice(&self.0)
    }
}

/// Results of handled events, for redelivered events and for requests that a resumed turn repeats.
///
/// The oldest are evicted first. A result that the unfinished turn of another instance can request
/// again stays until a turn of that instance ends ([`ResultCache::release`]).
#[derive(Debug)]
pub struct ResultCache<V> {
    entries: HashMap<Arc<str>, CachedResult<V>>,
    /// Events that can be evicted, by number, oldest first.
    forgettable: BTreeMap<u64, Arc<str>>,
    /// Events that can be requested again, by requesting instance. Some of them may already be
    /// removed.
    needed: HashMap<InstanceId, Vec<Arc<str>>>,
    next_number: u64,
    bytes: usize,
    max_events: usize,
}

#[derive(Debug)]
struct CachedResult<V> {
    number: u64,
    value: V,
    bytes: usize,
    needed_by: Option<InstanceId>,
}

impl<V> Default for ResultCache<V> {
    fn default() -> Self {
        ResultCache::with_max_events(MAX_CACHED_EVENTS)
    }
}

impl<V> ResultCache<V> {
    /// Returns an empty cache for `max_events` events.
    pub fn with_max_events(max_events: usize) -> Self {
        ResultCache {
            entries: HashMap::new(),
            forgettable: BTreeMap::new(),
            needed: HashMap::new(),
            next_number: 0,
            bytes: 0,
            max_events,
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = ResultCache::with_max_events(self.max_events);
    }

    /// Stores the result of an event, which takes `bytes` bytes. Keeps it at least until
    /// `needed_by` has ended a turn.
    pub fn put(&mut self, event_id: &str, value: V, bytes: usize, needed_by: Option<InstanceId>) {
        self.remove(event_id);
        let event_id: Arc<str> = event_id.into();
        let number = self.next_number();
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
            CachedResult {
                number,
                value,
                bytes,
                needed_by,
            },
        );
        self.forget_oldest();
    }

    /// Returns the events that are kept for the unfinished turn of `instance`.
    pub fn needed_by(&self, instance: &InstanceId) -> impl Iterator<Item = String> {
        let needed = self.needed.get(instance).into_iter().flatten();
        needed
            .filter(|event_id| self.entries.contains_key(*event_id))
            .map(|event_id| event_id.to_string())
    }

    /// Makes the results kept for `instance` evictable, because its turn ended and cannot request
    /// them again.
    pub fn release(&mut self, instance: &InstanceId) {
        for event_id in self.needed.remove(instance).unwrap_or_default() {
            let number = self.next_number();
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

    /// Returns the result of an event.
    pub fn get(&self, event_id: &str) -> Option<&V> {
        self.entries.get(event_id).map(|entry| &entry.value)
    }

    /// Removes an event.
    pub fn remove(&mut self, event_id: &str) {
        if let Some(entry) = self.entries.remove(event_id) {
            self.forgettable.remove(&entry.number);
            self.bytes -= entry.bytes;
        }
    }

    /// Returns the instance whose unfinished turn can request the event again.
    pub fn requester_of(&self, event_id: &str) -> Option<&InstanceId> {
        self.entries.get(event_id)?.needed_by.as_ref()
    }

    /// Returns all results, in any order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Returns the ids and values of all results, in any order, each with its size in bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &V, usize)> {
        let entries = self.entries.iter();
        entries.map(|(event_id, entry)| (&**event_id, &entry.value, entry.bytes))
    }

    /// Returns the next sequence number; a lower number is forgotten first.
    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Removes the oldest results until the cache is within its limits.
    fn forget_oldest(&mut self) {
        while self.forgettable.len() > self.max_events || self.bytes > MAX_CACHED_BYTES {
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

    fn ids(cache: &ResultCache<u32>) -> Vec<&str> {
        let mut ids: Vec<&str> = cache.entries.keys().map(|event_id| &**event_id).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn the_oldest_results_are_evicted_first() {
        let mut cache = ResultCache::with_max_events(2);
        for (number, id) in ["a", "b", "a", "c"].into_iter().enumerate() {
            cache.put(id, u32::try_from(number).unwrap(), 1, None);
        }
        // The first `a` was replaced and counts as evicted.
        assert_eq!(ids(&cache), ["a", "c"]);
        assert_eq!(cache.get("a"), Some(&2));
    }

    #[test]
    fn a_result_is_kept_while_the_requesting_turn_is_unfinished() {
        let requester = InstanceId::new("a", "main");
        let mut cache = ResultCache::with_max_events(1);
        cache.put("asked", 1, 1, Some(requester.clone()));
        cache.put("x", 2, 1, None);
        cache.put("y", 3, 1, None);
        assert_eq!(ids(&cache), ["asked", "y"]);
        cache.release(&requester);
        assert_eq!(
            ids(&cache),
            ["asked"],
            "the result does not age while it is needed"
        );
    }

    #[test]
    fn a_large_result_evicts_several_small_results() {
        let mut cache = ResultCache::with_max_events(10);
        cache.put("small", 1, 1, None);
        cache.put("large", 2, MAX_CACHED_BYTES, None);
        assert_eq!(ids(&cache), ["large"]);
    }

    proptest! {
        /// Applies random puts, releases and removals. Needed results stay, other results are
        /// bounded, and every id keeps its own result.
        #[test]
        fn needed_results_are_kept_and_other_results_are_bounded(operations in proptest::collection::vec((0u8..9, 0u32..12), 0..200)) {
            const MAX_OTHERS: usize = 3;
            let requesters = [InstanceId::new("a", "0"), InstanceId::new("a", "1")];
            let mut cache = ResultCache::with_max_events(MAX_OTHERS);
            let mut expected: HashMap<String, (u32, Option<InstanceId>)> = HashMap::new();
            for (time, (kind, index)) in (0..).zip(operations) {
                let (id, requester) = (format!("e{index}"), requesters[index as usize % 2].clone());
                match kind {
                    0..6 => {
                        let needed_by = (kind < 2).then_some(requester);
                        cache.put(&id, time, 1, needed_by.clone());
                        expected.insert(id, (time, needed_by));
                    }
                    6 => {
                        cache.remove(&id);
                        expected.remove(&id);
                    }
                    7 if index == 0 => {
                        cache.clear();
                        expected.clear();
                    }
                    _ => {
                        cache.release(&requester);
                        expected.values_mut().for_each(|(_, needed_by)| *needed_by = needed_by.take().filter(|by| *by != requester));
                    }
                }
                for (id, (time, needed_by)) in &expected {
                    let known = cache.get(id);
                    prop_assert!(known == Some(time) || (known.is_none() && needed_by.is_none()), "{}: {:?}", id, known);
                    prop_assert_eq!(cache.requester_of(id), needed_by.as_ref());
                }
                let needed = expected.values().filter(|(_, needed_by)| needed_by.is_some()).count();
                let count = cache.values().count();
                prop_assert!(count <= needed + MAX_OTHERS && count == cache.bytes && count - needed == cache.forgettable.len());
            }
        }
    }
}
