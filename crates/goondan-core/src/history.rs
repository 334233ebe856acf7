//! Messages of a conversation for a model call, with a cache for derived data.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::Message;

/// Snapshot of a conversation's messages, oldest first. Cheap to clone: nothing is copied.
///
/// Providers require the complete conversation in each request. A client can cache the encoded form
/// here, so a request costs only the new messages. The cache is dropped with the conversation in
/// memory.
#[derive(Clone, Default)]
pub struct MessageHistory {
    messages: Arc<Vec<Arc<Message>>>,
    cache: DerivedCache,
}

/// Cache for one value that was derived from the messages. Kept while a conversation only grows at
/// its end; any other change starts an empty cache.
#[derive(Clone, Default)]
pub struct DerivedCache(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl MessageHistory {
    /// Returns a history of the messages and their cache.
    pub fn new(messages: Arc<Vec<Arc<Message>>>, cache: DerivedCache) -> Self {
        MessageHistory { messages, cache }
    }

    /// Calls `work` with the cached `T`, or with a new one. The value was derived from the first
    /// messages of this history; it must record how many. Only one type is cached at a time:
    /// another type replaces it.
    pub fn with_cache<T: Any + Default + Send, R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut cached = self.cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !cached.as_ref().is_some_and(|cached| cached.is::<T>()) {
            *cached = Some(Box::new(T::default()));
        }
        let cached = cached
            .as_mut()
            .and_then(|cached| cached.downcast_mut())
            .expect("it was just made of that type");
        work(cached)
    }
}

impl Deref for MessageHistory {
    type Target = [Arc<Message>];

    fn deref(&self) -> &Self::Target {
        &self.messages
    }
}

impl From<Vec<Arc<Message>>> for MessageHistory {
    fn from(messages: Vec<Arc<Message>>) -> Self {
        MessageHistory::new(Arc::new(messages), DerivedCache::default())
    }
}

impl fmt::Debug for MessageHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for DerivedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_value_is_kept_until_a_value_of_another_type_replaces_it() {
        let history = MessageHistory::from(Vec::new());
        history.with_cache(|count: &mut usize| *count += 1);
        assert_eq!(history.clone().with_cache(|count: &mut usize| *count), 1);
        history.with_cache(|text: &mut String| text.push('x'));
        assert_eq!(history.with_cache(|count: &mut usize| *count), 0);
    }
}
