//! What is remembered between two requests: where a conversation goes on, which turns run, and which requests were just made.
//! All of it is bounded, and none of it outlives the process: what is forgotten begins a new conversation with the same past.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use goondan::ids::InstanceId;
use lru::LruCache;
use tokio::time::Instant;

use super::history::History;
use super::track::Track;

/// That many conversations are remembered by what was said in them.
const HEADS: usize = 10_000;

/// That many different requests are remembered for those who try again.
const REQUESTS: usize = 4_096;

/// That many requests of the same bytes are remembered.
const ATTEMPTS: usize = 256;

/// A client that tries again does so within that time of the end of its first attempt.
const TRIES_AGAIN: Duration = Duration::from_secs(120);

/// The bytes of a request, and where they went.
pub(super) type Fingerprint = [u8; 32];

/// What is remembered.
pub(crate) struct Memory(Mutex<Kept>);

struct Kept {
    /// Where conversations stand: each is the only one with its hash, and has only one.
    heads: LruCache<History, InstanceId>,
    hashes: HashMap<InstanceId, History>,
    /// Conversations that somebody goes on with.
    held: HashSet<InstanceId>,
    /// Turns that run, by their events.
    tracks: HashMap<String, Weak<Track>>,
    attempts: LruCache<Fingerprint, Vec<Arc<Attempt>>>,
}

/// A request that was made a moment ago, and that somebody may make again.
pub(super) struct Attempt {
    event_id: String,
    /// Whose turn it became.
    instance: OnceLock<InstanceId>,
    fate: Mutex<Fate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Somebody reads the answer.
    Read,
    /// Nobody does any more: the connection broke.
    Lost(Instant),
    /// The whole answer was sent.
    Delivered(Instant),
}

/// Somebody who reads the answer of an attempt. Dropping it before the end is how a connection breaks.
pub(super) struct Reading {
    attempt: Arc<Attempt>,
    is_delivered: bool,
}

/// The right to go on with a conversation. Whoever else wants to gets one of its own.
pub(super) struct Hold {
    memory: Arc<Memory>,
    pub(super) instance: InstanceId,
    hash: Option<History>,
}

/// What a request finds whose event has that id.
pub(super) enum Entered {
    /// Nobody has come with it: this is what the others will read.
    First(Arc<Track>),
    /// Its turn runs.
    Joined(Arc<Track>),
}

impl Default for Memory {
    fn default() -> Self {
        let room = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Memory(Mutex::new(Kept {
            heads: LruCache::new(room(HEADS)),
            hashes: HashMap::new(),
            held: HashSet::new(),
            tracks: HashMap::new(),
            attempts: LruCache::new(room(REQUESTS)),
        }))
    }
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the conversation in which exactly that was said. Nobody else gets it until it stands somewhere again.
    pub(super) fn take(self: &Arc<Self>, hash: History) -> Option<Hold> {
        let mut kept = self.kept();
        let instance = kept.heads.pop(&hash)?;
        kept.hashes.remove(&instance);
        let is_free = kept.held.insert(instance.clone());
        is_free.then(|| Hold {
            memory: Arc::clone(self),
            instance,
            hash: Some(hash),
        })
    }

    /// Takes a conversation, wherever it stands; `None` where somebody goes on with it at this moment.
    pub(super) fn hold(self: &Arc<Self>, instance: &InstanceId) -> Option<Hold> {
        let mut kept = self.kept();
        if !kept.held.insert(instance.clone()) {
            return None;
        }
        let hash = kept.hashes.remove(instance);
        if let Some(hash) = &hash {
            kept.heads.pop(hash);
        }
        Some(Hold {
            memory: Arc::clone(self),
            instance: instance.clone(),
            hash,
        })
    }

    /// Goes in with the id of an event.
    pub(super) fn enter(&self, event_id: &str) -> Entered {
        let mut kept = self.kept();
        if let Some(track) = kept.tracks.get(event_id).and_then(Weak::upgrade) {
            return Entered::Joined(track);
        }
        let track = Arc::new(Track::new(event_id));
        kept.tracks
            .insert(event_id.to_owned(), Arc::downgrade(&track));
        Entered::First(track)
    }

    /// A turn is over.
    pub(super) fn leave(&self, event_id: &str) {
        self.kept().tracks.remove(event_id);
    }

    /// A client makes the request whose event has that id.
    pub(super) fn attempt(&self, fingerprint: Fingerprint, event_id: &str) -> Reading {
        let mut kept = self.kept();
        let attempts = kept.attempts.get_or_insert_mut(fingerprint, Vec::new);
        attempts.retain(|attempt| attempt.counts());
        if let Some(attempt) = attempts.iter().find(|attempt| attempt.event_id == event_id) {
            attempt.set(Fate::Read);
            return Reading {
                attempt: Arc::clone(attempt),
                is_delivered: false,
            };
        }
        let (event_id, instance) = (event_id.to_owned(), OnceLock::new());
        let attempt = Arc::new(Attempt {
            event_id,
            instance,
            fate: Mutex::new(Fate::Read),
        });
        let excess = (attempts.len() + 1).saturating_sub(ATTEMPTS);
        attempts.drain(..excess);
        attempts.push(Arc::clone(&attempt));
        Reading {
            attempt,
            is_delivered: false,
        }
    }

    /// A client makes the request again. `None` where the first attempt is not known.
    ///
    /// The same bytes may have come from several clients. The one that tries again is one whose connection broke; where none is
    /// known to have broken, it did so unnoticed.
    pub(super) fn attempt_again(&self, fingerprint: &Fingerprint) -> Option<Reading> {
        let mut kept = self.kept();
        let attempts = kept.attempts.get_mut(fingerprint)?;
        attempts.retain(|attempt| attempt.counts());
        let of =
            |rank: fn(Fate) -> bool| attempts.iter().rev().find(|attempt| rank(attempt.fate()));
        let attempt = of(|fate| matches!(fate, Fate::Lost(_)))
            .or_else(|| of(|fate| fate == Fate::Read))
            .or_else(|| of(|fate| matches!(fate, Fate::Delivered(_))))?;
        attempt.set(Fate::Read);
        Some(Reading {
            attempt: Arc::clone(attempt),
            is_delivered: false,
        })
    }

    #[cfg(test)]
    fn len(&self) -> (usize, usize, usize) {
        let kept = self.kept();
        (kept.heads.len(), kept.hashes.len(), kept.held.len())
    }
}

impl Attempt {
    fn fate(&self) -> Fate {
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, fate: Fate) {
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }

    /// Whether somebody may still try again.
    fn counts(&self) -> bool {
        match self.fate() {
            Fate::Read => true,
            Fate::Lost(at) | Fate::Delivered(at) => at.elapsed() < TRIES_AGAIN,
        }
    }
}

impl Reading {
    /// The event of the attempt.
    pub(super) fn event_id(&self) -> &str {
        &self.attempt.event_id
    }

    /// Whose turn it became, where that is known.
    pub(super) fn instance(&self) -> Option<&InstanceId> {
        self.attempt.instance.get()
    }

    /// Its event was accepted.
    pub(super) fn accepted(&self, instance: &InstanceId) {
        self.attempt.instance.get_or_init(|| instance.clone());
    }

    /// The whole answer was sent.
    pub(super) fn delivered(&mut self) {
        self.is_delivered = true;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let now = Instant::now();
        self.attempt.set(if self.is_delivered {
            Fate::Delivered(now)
        } else {
            Fate::Lost(now)
        });
    }
}

impl Hold {
    /// The conversation stands there now.
    pub(super) fn stands_at(mut self, hash: Option<History>) {
        self.hash = hash;
    }

    /// Nothing was said: the conversation stands where it stood.
    pub(super) fn untouched(self) {}

    /// What was said can't be told from outside.
    pub(super) fn lost(self) {
        self.stands_at(None);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut kept = self.memory.kept();
        kept.held.remove(&self.instance);
        let Some(hash) = self.hash else { return };
        kept.hashes.insert(self.instance.clone(), hash);
        // The one that stood there before, or the one that nobody went on with for the longest time.
        if let Some((_, instance)) = kept.heads.push(hash, self.instance.clone()) {
            kept.hashes.remove(&instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Said;
    use super::*;

    fn memory() -> Arc<Memory> {
        Arc::new(Memory::default())
    }

    fn instance(key: impl ToString) -> InstanceId {
        InstanceId::new("a", key.to_string())
    }

    fn hash(text: impl ToString) -> History {
        History::begin("a", None, None).and(&Said::user(text.to_string()))
    }

    fn stand(memory: &Arc<Memory>, key: impl ToString, text: impl ToString) {
        memory
            .hold(&instance(key))
            .unwrap()
            .stands_at(Some(hash(text)));
    }

    #[test]
    fn a_conversation_goes_on_for_one_alone() {
        let memory = memory();
        stand(&memory, 1, "x");
        let hold = memory.take(hash("x")).unwrap();
        assert_eq!(hold.instance, instance(1));
        assert!(memory.take(hash("x")).is_none());
        assert!(memory.hold(&instance(1)).is_none());
        hold.stands_at(Some(hash("y")));
        assert!(memory.take(hash("x")).is_none());
        assert_eq!(memory.take(hash("y")).unwrap().instance, instance(1));
    }

    #[test]
    fn a_conversation_that_was_not_touched_stands_where_it_stood() {
        let memory = memory();
        stand(&memory, 1, "x");
        memory.take(hash("x")).unwrap().untouched();
        memory.hold(&instance(1)).unwrap().untouched();
        memory.take(hash("x")).unwrap().lost();
        assert!(memory.take(hash("x")).is_none());
        assert_eq!(memory.len(), (0, 0, 0));
    }

    #[test]
    fn two_conversations_in_which_the_same_was_said_stay_two() {
        let memory = memory();
        stand(&memory, 1, "x");
        stand(&memory, 2, "x");
        assert_eq!(memory.len(), (1, 1, 0));
        let hold = memory.take(hash("x")).unwrap();
        assert_eq!(hold.instance, instance(2));
        assert!(memory.take(hash("x")).is_none());
        assert!(memory.hold(&instance(1)).is_some());
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let memory = memory();
        for number in 0..HEADS + 5 {
            stand(&memory, number, number);
        }
        assert_eq!(memory.len(), (HEADS, HEADS, 0));
        assert!(memory.take(hash(4)).is_none());
        assert!(memory.take(hash(5)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_tries_again_reads_the_answer_that_somebody_lost() {
        let memory = memory();
        assert!(memory.attempt_again(&[0; 32]).is_none());
        let mut delivered = memory.attempt([0; 32], "delivered");
        delivered.delivered();
        drop(delivered);
        drop(memory.attempt([0; 32], "lost"));
        let read = memory.attempt([0; 32], "read");
        let again: Vec<_> = (0..2)
            .map(|_| memory.attempt_again(&[0; 32]).unwrap())
            .collect();
        let ids: Vec<_> = again.iter().map(Reading::event_id).collect();
        assert_eq!(ids, ["lost", "read"]);
        assert!(memory.attempt_again(&[1; 32]).is_none());
        drop((again, read));
        tokio::time::advance(TRIES_AGAIN).await;
        assert!(memory.attempt_again(&[0; 32]).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_did_not_get_all_of_a_delivered_answer_gets_it_again() {
        let memory = memory();
        for id in ["one", "two"] {
            memory.attempt([0; 32], id).delivered();
        }
        assert_eq!(memory.attempt_again(&[0; 32]).unwrap().event_id(), "two");
    }
}
