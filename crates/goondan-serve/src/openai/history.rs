//! A hash over everything that was said in a conversation: two requests with the same hash go on where the same answer ended.

use goondan::message::Role;
use sha2::{Digest as _, Sha256};

use super::message::Said;

/// A conversation up to some message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct History([u8; 32]);

impl History {
    /// A conversation that begins: with whom, under which instructions, and for whom.
    pub(super) fn begin(agent: &str, instructions: Option<&str>, user: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        put(&mut hash, agent.as_bytes());
        for part in [instructions, user] {
            hash.update([u8::from(part.is_some())]);
            put(&mut hash, part.unwrap_or_default().as_bytes());
        }
        History(hash.finalize().into())
    }

    /// One message more. Clients trim answers; white space around one makes no difference.
    #[must_use]
    pub(super) fn and(self, said: &Said) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        let is_answer = said.role == Role::Assistant;
        hash.update([u8::from(is_answer)]);
        put(
            &mut hash,
            if is_answer {
                said.text.trim()
            } else {
                &said.text
            }
            .as_bytes(),
        );
        for file in &said.files {
            put(&mut hash, file.media_type.as_bytes());
            put(&mut hash, file.data.as_bytes());
            put(
                &mut hash,
                file.name.as_deref().unwrap_or_default().as_bytes(),
            );
        }
        History(hash.finalize().into())
    }

    /// Many messages more.
    #[must_use]
    pub(super) fn and_all(self, said: &[Said]) -> Self {
        said.iter().fold(self, History::and)
    }
}

/// A length before each piece: pieces that are cut elsewhere are other pieces.
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

    /// Few letters, so that texts are often the same when they are put together.
    fn said() -> impl Strategy<Value = Said> {
        let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
        (role, "[ab ]{0,3}", proptest::collection::vec(file(), 0..2))
            .prop_map(|(role, text, files)| Said { role, text, files })
    }

    /// What counts of a message.
    fn kept(said: &Said) -> Said {
        let text = if said.role == Role::Assistant {
            said.text.trim()
        } else {
            &said.text
        };
        Said {
            text: text.to_owned(),
            ..said.clone()
        }
    }

    fn conversation() -> impl Strategy<Value = (String, Option<String>, Option<String>, Vec<Said>)>
    {
        let some = || proptest::option::of("[ab]{0,2}");
        (
            "[ab]{1,2}",
            some(),
            some(),
            proptest::collection::vec(said(), 0..4),
        )
    }

    proptest! {
        #[test]
        fn the_same_hash_is_the_same_conversation(one in conversation(), other in conversation()) {
            let hash = |(agent, instructions, user, said): &(String, Option<String>, Option<String>, Vec<Said>)| {
                History::begin(agent, instructions.as_deref(), user.as_deref()).and_all(said)
            };
            let same = |list: &[Said]| list.iter().map(kept).collect::<Vec<_>>();
            let is_same = (&one.0, &one.1, &one.2) == (&other.0, &other.1, &other.2) && same(&one.3) == same(&other.3);
            prop_assert_eq!(hash(&one) == hash(&other), is_same);
        }

        #[test]
        fn messages_may_come_one_by_one(said in proptest::collection::vec(said(), 0..6), cut in 0_usize..6) {
            let begin = History::begin("a", None, None);
            let (head, tail) = said.split_at(cut.min(said.len()));
            prop_assert_eq!(begin.and_all(head).and_all(tail), begin.and_all(&said));
        }
    }
}
