//! Conversations that stay in memory between turns, so that the next turn need not read them.

use goondan_core::ids::InstanceId;
use lru::LruCache;

use super::ConversationLog;

/// Maximum number of idle conversations in memory.
const MAX_CACHED_CONVERSATIONS: usize = 1_024;

/// Maximum number of messages of all cached conversations. A message typically takes one or two
/// kilobytes.
const MAX_CACHED_MESSAGES: usize = 20_000;

/// Cache of idle conversations with least-recently-used eviction.
pub(crate) struct ConversationCache<L = ConversationLog> {
    logs: LruCache<InstanceId, (L, usize)>,
    /// Number of messages of all cached conversations.
    messages: usize,
}

impl<L> Default for ConversationCache<L> {
    fn default() -> Self {
        // The limits are enforced in `keep`: a bounded `LruCache` would allocate all its memory at
        // once.
        ConversationCache {
            logs: LruCache::unbounded(),
            messages: 0,
        }
    }
}

impl ConversationCache {
    /// Caches the conversation of an instance.
    pub(crate) fn put(&mut self, id: &InstanceId, log: ConversationLog) {
        let messages = log.conversation.messages().len();
        self.insert(id, log, messages);
    }
}

impl<L> ConversationCache<L> {
    /// Removes and returns a cached conversation.
    pub(crate) fn take(&mut self, id: &InstanceId) -> Option<L> {
        let (log, messages) = self.logs.pop(id)?;
        self.messages -= messages;
        Some(log)
    }

    /// Adds an entry, then evicts the least recently used entries over the limits.
    fn insert(&mut self, id: &InstanceId, log: L, messages: usize) {
        drop(self.take(id));
        self.logs.push(id.clone(), (log, messages));
        self.messages += messages;
        while self.logs.len() > MAX_CACHED_CONVERSATIONS || self.messages > MAX_CACHED_MESSAGES {
            let Some((_, (_, messages))) = self.logs.pop_lru() else {
                return;
            };
            self.messages -= messages;
        }
    }
}

#[cfg(test)]
mod tests {
    use goondan_store::suite::samples::instance;

    use super::*;

    fn keys(cache: &ConversationCache<()>) -> Vec<&str> {
        cache
            .logs
            .iter()
            .rev()
            .map(|(id, _)| &*id.instance_key)
            .collect()
    }

    #[test]
    fn the_least_recently_used_conversations_are_evicted() {
        let mut cache = ConversationCache::default();
        for key in ["a", "b", "c"] {
            cache.insert(&instance(key), (), MAX_CACHED_MESSAGES / 3);
        }
        assert_eq!(keys(&cache), ["a", "b", "c"]);
        assert_eq!(
            (cache.take(&instance("a")), cache.take(&instance("a"))),
            (Some(()), None)
        );
        cache.insert(&instance("a"), (), MAX_CACHED_MESSAGES / 3);
        cache.insert(&instance("c"), (), 7);
        cache.insert(&instance("d"), (), MAX_CACHED_MESSAGES / 2);
        assert_eq!(keys(&cache), ["a", "c", "d"], "b is evicted");
        cache.insert(&instance("e"), (), MAX_CACHED_MESSAGES + 1);
        assert_eq!(
            (keys(&cache).len(), cache.messages),
            (0, 0),
            "a conversation above the limit evicts all others"
        );
    }

    #[test]
    fn the_number_of_cached_conversations_is_limited() {
        let mut cache = ConversationCache::default();
        for number in 0..MAX_CACHED_CONVERSATIONS + 9 {
            cache.insert(&instance(&number.to_string()), (), 1);
        }
        assert_eq!(
            (cache.logs.len(), keys(&cache)[0]),
            (MAX_CACHED_CONVERSATIONS, "9")
        );
    }
}
