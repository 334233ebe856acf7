//! In-memory state between requests: positions of conversations, running turns and recent requests.
//! All of it is bounded and ends with the process. If a position is lost, the next request starts a
//! new conversation with the same history.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use goondan::ids::InstanceId;
use lru::LruCache;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer_stream::AnswerBroadcast;
use super::history_hash::HistoryHash;

/// Maximum number of conversations that are indexed by their messages.
const MAX_INDEXED_CONVERSATIONS: usize = 10_000;

/// Maximum number of different requests that are kept for retries.
const MAX_RETRIABLE_REQUESTS: usize = 4_096;

/// Maximum number of attempts that are kept for one request body.
const MAX_ATTEMPTS_PER_REQUEST: usize = 256;

/// Time after the end of an attempt in which a client may retry.
const RETRY_WINDOW: Duration = Duration::from_secs(120);

/// Time in which a broken connection is noticed. A client often retries before that.
const DISCONNECT_DELAY: Duration = Duration::from_secs(3);

/// Hash of a request's path, conversation key and body.
pub(super) type Fingerprint = [u8; 32];

/// Finds the conversation that a stateless request continues, and recent requests that a client may
/// retry.
pub(crate) struct ConversationIndex(Mutex<IndexState>);

struct IndexState {
    /// Conversations by the hash of their messages. Each conversation has at most one hash.
    heads: LruCache<HistoryHash, InstanceId>,
    hashes: HashMap<InstanceId, HistoryHash>,
    /// Conversations that a request is continuing.
    held: HashSet<InstanceId>,
    /// Running turns by event id.
    tracks: HashMap<String, Weak<AnswerBroadcast>>,
    attempts: LruCache<Fingerprint, Vec<Arc<RequestAttempt>>>,
}

/// A recent request that the client may retry.
pub(super) struct RequestAttempt {
    event_id: String,
    /// Conversation of its turn.
    instance: OnceLock<InstanceId>,
    fate: watch::Sender<AttemptState>,
    /// Retry count that the client stated last.
    count: Mutex<Option<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptState {
    /// A client reads the answer.
    Read,
    /// The connection broke before the end.
    Lost(Instant),
    /// The whole answer was sent.
    Delivered(Instant),
}

/// A client that reads the answer of an attempt. Dropping it before the end means a broken
/// connection.
pub(super) struct AttemptReader {
    attempt: Arc<RequestAttempt>,
    is_delivered: bool,
}

/// Exclusive right to continue a conversation. Concurrent requests get a new conversation.
pub(super) struct ConversationHold {
    memory: Arc<ConversationIndex>,
    pub(super) instance: InstanceId,
    hash: Option<HistoryHash>,
}

/// Result of looking up the turn of an event.
pub(super) enum TurnLookup {
    /// The event is new. Later requests join this turn.
    First(Arc<AnswerBroadcast>),
    /// The turn is already running. The request follows its broadcast.
    Joined(Arc<AnswerBroadcast>),
}

impl Default for ConversationIndex {
    fn default() -> Self {
        let room = |size| NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN);
        ConversationIndex(Mutex::new(IndexState {
            heads: LruCache::new(room(MAX_INDEXED_CONVERSATIONS)),
            hashes: HashMap::new(),
            held: HashSet::new(),
            tracks: HashMap::new(),
            attempts: LruCache::new(room(MAX_RETRIABLE_REQUESTS)),
        }))
    }
}

impl ConversationIndex {
    /// Locks the state.
    fn lock_state(&self) -> MutexGuard<'_, IndexState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the conversation with exactly these messages. It is unavailable to others until its
    /// position is set again.
    pub(super) fn take(self: &Arc<Self>, hash: HistoryHash) -> Option<ConversationHold> {
        let mut state = self.lock_state();
        let instance = state.heads.pop(&hash)?;
        state.hashes.remove(&instance);
        let is_free = state.held.insert(instance.clone());
        is_free.then(|| ConversationHold {
            memory: Arc::clone(self),
            instance,
            hash: Some(hash),
        })
    }

    /// Takes a conversation at any position; `None` if another request is continuing it.
    pub(super) fn try_hold(self: &Arc<Self>, instance: &InstanceId) -> Option<ConversationHold> {
        let mut state = self.lock_state();
        if !state.held.insert(instance.clone()) {
            return None;
        }
        let hash = state.hashes.remove(instance);
        if let Some(hash) = &hash {
            state.heads.pop(hash);
        }
        Some(ConversationHold {
            memory: Arc::clone(self),
            instance: instance.clone(),
            hash,
        })
    }

    /// Joins the running turn of this event, or registers a new turn.
    pub(super) fn join_or_register(&self, event_id: &str) -> TurnLookup {
        let mut state = self.lock_state();
        if let Some(track) = state.tracks.get(event_id).and_then(Weak::upgrade) {
            return TurnLookup::Joined(track);
        }
        let track = Arc::new(AnswerBroadcast::new(event_id));
        state
            .tracks
            .insert(event_id.to_owned(), Arc::downgrade(&track));
        TurnLookup::First(track)
    }

    /// Removes the turn of this event, because it is over.
    pub(super) fn remove_turn(&self, event_id: &str) {
        self.lock_state().tracks.remove(event_id);
    }

    /// Registers an attempt of a request with this event.
    pub(super) fn register_attempt(
        &self,
        fingerprint: Fingerprint,
        event_id: &str,
    ) -> AttemptReader {
        let mut state = self.lock_state();
        let attempts = state.attempts.get_or_insert_mut(fingerprint, Vec::new);
        attempts.retain(|attempt| attempt.is_retriable());
        if let Some(attempt) = attempts.iter().find(|attempt| attempt.event_id == event_id) {
            attempt.set(AttemptState::Read);
            return AttemptReader {
                attempt: Arc::clone(attempt),
                is_delivered: false,
            };
        }
        let (event_id, instance) = (event_id.to_owned(), OnceLock::new());
        let attempt = Arc::new(RequestAttempt {
            event_id,
            instance,
            fate: watch::Sender::new(AttemptState::Read),
            count: Mutex::new(None),
        });
        let excess = (attempts.len() + 1).saturating_sub(MAX_ATTEMPTS_PER_REQUEST);
        attempts.drain(..excess);
        attempts.push(Arc::clone(&attempt));
        AttemptReader {
            attempt,
            is_delivered: false,
        }
    }

    /// Registers a retry with the number `count`. If another client still seems to read the answer,
    /// waits until its connection breaks, at most [`DISCONNECT_DELAY`]. `None` if no attempt was
    /// lost, not even by a proxy after the server had sent the answer.
    pub(super) async fn attempt_again(
        &self,
        fingerprint: &Fingerprint,
        count: u32,
    ) -> Option<AttemptReader> {
        if let Some(again) = self.take_lost(fingerprint, count) {
            return Some(again);
        }
        if let Some(mut fate) = self.fate_of_read(fingerprint) {
            let ended = fate.wait_for(|fate| *fate != AttemptState::Read);
            let _ = tokio::time::timeout(DISCONNECT_DELAY, ended).await;
        }
        self.take_lost(fingerprint, count)
            .or_else(|| self.take_delivered(fingerprint, count))
    }

    /// Returns the state of the latest attempt that a client reads.
    fn fate_of_read(&self, fingerprint: &Fingerprint) -> Option<watch::Receiver<AttemptState>> {
        let mut state = self.lock_state();
        let mut attempts = state.attempts.get(fingerprint)?.iter().rev();
        let read = attempts.find(|attempt| attempt.state() == AttemptState::Read)?;
        Some(read.fate.subscribe())
    }

    /// Takes the latest attempt of the same request whose connection broke. `count` is the number of
    /// the retry.
    fn take_lost(&self, fingerprint: &Fingerprint, count: u32) -> Option<AttemptReader> {
        self.take_attempt(fingerprint, count, |attempt| {
            matches!(attempt.state(), AttemptState::Lost(_))
        })
    }

    /// Takes the latest attempt before the retry `count` whose answer was sent. Several clients may
    /// have sent the same bytes, so the attempt must have stated the number before `count`.
    fn take_delivered(&self, fingerprint: &Fingerprint, count: u32) -> Option<AttemptReader> {
        let before = count.checked_sub(1)?;
        self.take_attempt(fingerprint, count, |attempt| {
            let is_before = *attempt.count() == Some(before);
            is_before && matches!(attempt.state(), AttemptState::Delivered(_))
        })
    }

    /// Takes the latest suitable attempt for the retry `count`.
    fn take_attempt(
        &self,
        fingerprint: &Fingerprint,
        count: u32,
        is_suitable: impl Fn(&RequestAttempt) -> bool,
    ) -> Option<AttemptReader> {
        let mut state = self.lock_state();
        let attempts = state.attempts.get_mut(fingerprint)?;
        attempts.retain(|attempt| attempt.is_retriable());
        let mut latest = attempts.iter().rev();
        let attempt = latest.find(|attempt| is_suitable(attempt))?;
        attempt.set(AttemptState::Read);
        *attempt.count() = Some(count);
        Some(AttemptReader {
            attempt: Arc::clone(attempt),
            is_delivered: false,
        })
    }

    #[cfg(test)]
    fn len(&self) -> (usize, usize, usize) {
        let state = self.lock_state();
        (state.heads.len(), state.hashes.len(), state.held.len())
    }
}

impl RequestAttempt {
    /// Returns the state of the attempt.
    fn state(&self) -> AttemptState {
        *self.fate.borrow()
    }

    fn count(&self) -> MutexGuard<'_, Option<u32>> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state of the attempt.
    fn set(&self, fate: AttemptState) {
        self.fate.send_replace(fate);
    }

    /// Returns true if a retry is still possible.
    fn is_retriable(&self) -> bool {
        match self.state() {
            AttemptState::Read => true,
            AttemptState::Lost(at) | AttemptState::Delivered(at) => at.elapsed() < RETRY_WINDOW,
        }
    }
}

impl AttemptReader {
    /// Event id of the attempt.
    pub(super) fn event_id(&self) -> &str {
        &self.attempt.event_id
    }

    /// Conversation of the attempt, once it is known.
    pub(super) fn instance(&self) -> Option<&InstanceId> {
        self.attempt.instance.get()
    }

    /// Records the retry count that the client stated.
    pub(super) fn set_count(&self, count: u32) {
        *self.attempt.count() = Some(count);
    }

    /// Records the conversation.
    pub(super) fn set_instance(&self, instance: &InstanceId) {
        self.attempt.instance.get_or_init(|| instance.clone());
    }

    /// Records that the client received the whole answer.
    pub(super) fn mark_delivered(&mut self) {
        self.is_delivered = true;
    }
}

impl Drop for AttemptReader {
    fn drop(&mut self) {
        let now = Instant::now();
        self.attempt.set(if self.is_delivered {
            AttemptState::Delivered(now)
        } else {
            AttemptState::Lost(now)
        });
    }
}

impl ConversationHold {
    /// Sets the position after the turn.
    pub(super) fn set_position(mut self, hash: Option<HistoryHash>) {
        self.hash = hash;
    }

    /// Keeps the position, because no message was added.
    pub(super) fn keep_position(self) {}

    /// Clears the position, because the client cannot know the messages.
    pub(super) fn clear_position(self) {
        self.set_position(None);
    }
}

impl Drop for ConversationHold {
    fn drop(&mut self) {
        let mut state = self.memory.lock_state();
        state.held.remove(&self.instance);
        let Some(hash) = self.hash else { return };
        state.hashes.insert(self.instance.clone(), hash);
        // Replaces the conversation at the same position, or evicts the least recently used one.
        if let Some((_, instance)) = state.heads.push(hash, self.instance.clone()) {
            state.hashes.remove(&instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::ChatEntry;
    use super::*;

    fn index() -> Arc<ConversationIndex> {
        Arc::new(ConversationIndex::default())
    }

    fn instance(key: impl ToString) -> InstanceId {
        InstanceId::new("a", key.to_string())
    }

    fn hash(text: impl ToString) -> HistoryHash {
        HistoryHash::begin("a", None, None).with_message(&ChatEntry::user(text.to_string()))
    }

    fn index_conversation(index: &Arc<ConversationIndex>, key: impl ToString, text: impl ToString) {
        index
            .try_hold(&instance(key))
            .unwrap()
            .set_position(Some(hash(text)));
    }

    #[test]
    fn a_taken_conversation_is_held_exclusively() {
        let index = index();
        index_conversation(&index, 1, "x");
        let hold = index.take(hash("x")).unwrap();
        assert_eq!(hold.instance, instance(1));
        assert!(index.take(hash("x")).is_none());
        assert!(index.try_hold(&instance(1)).is_none());
        hold.set_position(Some(hash("y")));
        assert!(index.take(hash("x")).is_none());
        assert_eq!(index.take(hash("y")).unwrap().instance, instance(1));
    }

    #[test]
    fn a_released_conversation_keeps_its_position_unless_cleared() {
        let index = index();
        index_conversation(&index, 1, "x");
        index.take(hash("x")).unwrap().keep_position();
        index.try_hold(&instance(1)).unwrap().keep_position();
        index.take(hash("x")).unwrap().clear_position();
        assert!(index.take(hash("x")).is_none());
        assert_eq!(index.len(), (0, 0, 0));
    }

    #[test]
    fn the_newer_of_two_equal_conversations_is_taken() {
        let index = index();
        index_conversation(&index, 1, "x");
        index_conversation(&index, 2, "x");
        assert_eq!(index.len(), (1, 1, 0));
        let hold = index.take(hash("x")).unwrap();
        assert_eq!(hold.instance, instance(2));
        assert!(index.take(hash("x")).is_none());
        assert!(index.try_hold(&instance(1)).is_some());
    }

    #[test]
    fn the_oldest_conversations_are_evicted_at_the_limit() {
        let index = index();
        for number in 0..MAX_INDEXED_CONVERSATIONS + 5 {
            index_conversation(&index, number, number);
        }
        assert_eq!(
            index.len(),
            (MAX_INDEXED_CONVERSATIONS, MAX_INDEXED_CONVERSATIONS, 0)
        );
        assert!(index.take(hash(4)).is_none());
        assert!(index.take(hash(5)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_receives_only_a_lost_answer() {
        let index = index();
        assert!(index.attempt_again(&[0; 32], 1).await.is_none());
        let mut delivered = index.register_attempt([0; 32], "delivered");
        delivered.mark_delivered();
        drop(delivered);
        drop(index.register_attempt([0; 32], "lost"));
        let read = index.register_attempt([0; 32], "read");
        let again = index.attempt_again(&[0; 32], 1).await.unwrap();
        assert_eq!(again.event_id(), "lost");
        assert!(index.attempt_again(&[1; 32], 1).await.is_none());
        // The connection of attempt `read` breaks while a retry waits.
        let (later, ()) = tokio::join!(index.attempt_again(&[0; 32], 1), async {
            tokio::task::yield_now().await;
            drop(read);
        });
        assert_eq!(later.as_ref().unwrap().event_id(), "read");
        // The client of attempt `delivered` stated no retry count.
        assert!(index.attempt_again(&[0; 32], 1).await.is_none());
        let mut counted = index.register_attempt([0; 32], "counted");
        counted.set_count(0);
        counted.mark_delivered();
        drop(counted);
        assert!(index.attempt_again(&[0; 32], 2).await.is_none());
        let counted = index.attempt_again(&[0; 32], 1).await.unwrap();
        assert_eq!(counted.event_id(), "counted");
        drop(counted);
        drop((again, later));
        tokio::time::advance(RETRY_WINDOW).await;
        assert!(index.attempt_again(&[0; 32], 1).await.is_none());
    }
}
