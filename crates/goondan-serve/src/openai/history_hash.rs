//! Hash of all messages of a conversation. Requests with the same hash continue the same
//! conversation.

use goondan::message::MessageRole;
use sha2::{Digest as _, Sha256};

use super::message::ChatEntry;

/// Hash of a conversation up to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HistoryHash([u8; 32]);

impl HistoryHash {
    /// Returns the hash of an empty conversation.
    pub(super) fn begin(agent: &str, instructions: Option<&str>, user: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        put(&mut hash, agent.as_bytes());
        for part in [instructions, user] {
            hash.update([u8::from(part.is_some())]);
            put(&mut hash, part.unwrap_or_default().as_bytes());
        }
        HistoryHash(hash.finalize().into())
    }

    /// Adds a message. Clients trim answers, so whitespace around an answer does not count.
    #[must_use]
    pub(super) fn with_message(self, message: &ChatEntry) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        let is_answer = message.role == MessageRole::Assistant;
        hash.update([u8::from(is_answer)]);
        put(
            &mut hash,
            if is_answer {
                message.text.trim()
            } else {
                &message.text
            }
            .as_bytes(),
        );
        for file in &message.files {
            put(&mut hash, file.media_type.as_bytes());
            put(&mut hash, file.data.as_bytes());
            put(
                &mut hash,
                file.name.as_deref().unwrap_or_default().as_bytes(),
            );
        }
        HistoryHash(hash.finalize().into())
    }

    /// Adds messages.
    #[must_use]
    pub(super) fn and_all(self, messages: &[ChatEntry]) -> Self {
        messages.iter().fold(self, HistoryHash::with_message)
    }
}

/// Writes the length before each part, so that different splits give different hashes.
fn put(hash: &mut Sha256, bytes: &[u8]) {
    hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use goondan::ports::tool::Attachment;
    use proptest::prelude::*;

    use super::*;

    fn file() -> impl Strategy<Value = Attachment> {
        ("[ab]{0,2}", "[ab]{0,2}", proptest::option::of("[ab]{1,2}")).prop_map(
            |(media_type, data, name)| Attachment {
                media_type,
                data,
                name,
            },
        )
    }

    /// Returns entries from a small alphabet, so that concatenated texts are often equal.
    fn entry() -> impl Strategy<Value = ChatEntry> {
        let role = prop_oneof![Just(MessageRole::User), Just(MessageRole::Assistant)];
        (role, "[ab ]{0,3}", proptest::collection::vec(file(), 0..2))
            .prop_map(|(role, text, files)| ChatEntry { role, text, files })
    }

    /// Returns the part of an entry that the hash covers.
    fn hashed(entry: &ChatEntry) -> ChatEntry {
        let text = if entry.role == MessageRole::Assistant {
            entry.text.trim()
        } else {
            &entry.text
        };
        ChatEntry {
            text: text.to_owned(),
            ..entry.clone()
        }
    }

    fn conversation()
    -> impl Strategy<Value = (String, Option<String>, Option<String>, Vec<ChatEntry>)> {
        let some = || proptest::option::of("[ab]{0,2}");
        (
            "[ab]{1,2}",
            some(),
            some(),
            proptest::collection::vec(entry(), 0..4),
        )
    }

    proptest! {
        #[test]
        fn hashes_are_equal_only_for_equal_conversations(one in conversation(), other in conversation()) {
            let hash = |(agent, instructions, user, entries): &(String, Option<String>, Option<String>, Vec<ChatEntry>)| {
                HistoryHash::begin(agent, instructions.as_deref(), user.as_deref()).and_all(entries)
            };
            let same = |list: &[ChatEntry]| list.iter().map(hashed).collect::<Vec<_>>();
            let is_same = (&one.0, &one.1, &one.2) == (&other.0, &other.1, &other.2) && same(&one.3) == same(&other.3);
            prop_assert_eq!(hash(&one) == hash(&other), is_same);
        }

        #[test]
        fn hashing_in_parts_equals_hashing_at_once(entries in proptest::collection::vec(entry(), 0..6), cut in 0_usize..6) {
            let begin = HistoryHash::begin("a", None, None);
            let (head, tail) = entries.split_at(cut.min(entries.len()));
            prop_assert_eq!(begin.and_all(head).and_all(tail), begin.and_all(&entries));
        }
    }
}
