//! Conversations that stay in memory between turns, so that the next one need not read them.

use goondan_core::ids::InstanceId;
use lru::LruCache;

use super::ConversationLog;

/// That many idle conversations stay in memory.
const WARM: usize = 1_024;

/// That many messages they have together. A message takes one or two kilobytes as a rule.
const WARM_MESSAGES: usize = 20_000;

/// Conversations of instances that have nothing to do. Of too many, those that were used longest ago are let go of.
pub(crate) struct Warm<L = ConversationLog> {
    logs: LruCache<InstanceId, (L, usize)>,
    /// How many messages all of them have.
    messages: usize,
}

impl<L> Default for Warm<L> {
    fn default() -> Self {
        // What bounds it is counted here: a cache with a bound takes all of its memory at once.
        Warm {
            logs: LruCache::unbounded(),
            messages: 0,
        }
    }
}

impl Warm {
    /// Keeps a conversation.
    pub(crate) fn put(&mut self, id: &InstanceId, log: ConversationLog) {
        let messages = log.conversation.messages().len();
        self.keep(id, log, messages);
    }
}

impl<L> Warm<L> {
    /// Gives a conversation back where it is kept, and keeps it no more.
    pub(crate) fn take(&mut self, id: &InstanceId) -> Option<L> {
        let (log, messages) = self.logs.pop(id)?;
        self.messages -= messages;
        Some(log)
    }

    fn keep(&mut self, id: &InstanceId, log: L, messages: usize) {
        drop(self.take(id));
        self.logs.push(id.clone(), (log, messages));
        self.messages += messages;
        while self.logs.len() > WARM || self.messages > WARM_MESSAGES {
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

    fn keys(warm: &Warm<()>) -> Vec<&str> {
        warm.logs
            .iter()
            .rev()
            .map(|(id, _)| &*id.instance_key)
            .collect()
    }

    #[test]
    fn what_was_used_longest_ago_is_let_go_of() {
        let mut warm = Warm::default();
        for key in ["a", "b", "c"] {
            warm.keep(&instance(key), (), WARM_MESSAGES / 3);
        }
        assert_eq!(keys(&warm), ["a", "b", "c"]);
        assert_eq!(
            (warm.take(&instance("a")), warm.take(&instance("a"))),
            (Some(()), None)
        );
        warm.keep(&instance("a"), (), WARM_MESSAGES / 3);
        warm.keep(&instance("c"), (), 7);
        warm.keep(&instance("d"), (), WARM_MESSAGES / 2);
        assert_eq!(keys(&warm), ["a", "c", "d"], "b is let go of");
        warm.keep(&instance("e"), (), WARM_MESSAGES + 1);
        assert_eq!(
            (keys(&warm).len(), warm.messages),
            (0, 0),
            "too long for all"
        );
    }

    #[test]
    fn there_are_never_too_many() {
        let mut warm = Warm::default();
        for number in 0..WARM + 9 {
            warm.keep(&instance(&number.to_string()), (), 1);
        }
        assert_eq!((warm.logs.len(), keys(&warm)[0]), (WARM, "9"));
    }
}
