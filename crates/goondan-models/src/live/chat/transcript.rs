//! A conversation as it goes over the wire, which grows as the conversation does: each message is encoded once.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use goondan_core::message::{Message, Part, Role};
use serde::Serialize;

use super::message::{Answered, CallResult, Mixed, Plain, Said, joined};

/// How many bytes are gathered before they are shared by all later requests; what is less is copied for each.
const BLOCK: usize = 32 * 1024;

/// The messages so far, encoded, each behind a comma.
#[derive(Default)]
pub(crate) struct Transcript {
    /// How many messages it was made of, and the last of them.
    taken: usize,
    last: Option<Arc<Message>>,
    blocks: Vec<Bytes>,
    block: Vec<u8>,
    open: Open,
    /// The ids of all calls.
    calls: HashSet<String>,
}

/// What may go into one message with what follows.
#[derive(Default)]
struct Open {
    /// What the user said last. Neighbouring user messages become one, for the models whose templates insist on turns.
    said: Vec<Said>,
    /// Attachments of tool results. The format has no place for them there, so they follow the last result as a user's.
    files: Vec<Said>,
}

impl Transcript {
    /// Takes in what is new in `messages`. What was made of others is forgotten.
    pub(crate) fn catch_up(&mut self, messages: &[Arc<Message>]) {
        if !self.is_of_the_beginning(messages) {
            *self = Transcript::default();
        }
        for message in &messages[self.taken..] {
            self.push(message);
        }
        self.taken = messages.len();
        self.last = messages.last().cloned();
    }

    /// The messages are only ever added to, so the last one that was taken in vouches for those before.
    fn is_of_the_beginning(&self, messages: &[Arc<Message>]) -> bool {
        let same = self
            .taken
            .checked_sub(1)
            .and_then(|last| messages.get(last));
        match (&self.last, same) {
            (None, _) => true,
            (Some(last), Some(same)) => Arc::ptr_eq(last, same),
            (Some(_), None) => false,
        }
    }

    /// The bytes of all messages, each behind a comma. Those of full blocks are shared.
    pub(crate) fn bytes(&self) -> Vec<Bytes> {
        let mut last = Vec::with_capacity(self.block.len() + 256);
        last.extend_from_slice(&self.block);
        self.open.encode(&mut last);
        let mut all = Vec::with_capacity(self.blocks.len() + 1);
        all.extend(self.blocks.iter().cloned());
        if !last.is_empty() {
            all.push(Bytes::from(last));
        }
        all
    }

    /// Whether a call of that id is in the conversation.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.calls.contains(id)
    }

    /// How many ids of calls are in the conversation.
    pub(crate) fn call_count(&self) -> usize {
        self.calls.len()
    }

    fn push(&mut self, message: &Message) {
        if message.data.role != Role::Tool {
            self.open.said.append(&mut self.open.files);
        }
        match message.data.role {
            Role::System => {
                let text = message.text();
                if !text.trim().is_empty() {
                    self.add(&Plain {
                        role: "system",
                        content: &text,
                    });
                }
            }
            Role::User => self
                .open
                .said
                .extend(message.data.content.iter().filter_map(Said::of)),
            Role::Assistant => {
                if let Some(answered) = Answered::of(message) {
                    self.calls
                        .extend(message.tool_calls().map(|call| call.tool_call_id.clone()));
                    self.add(&answered);
                }
            }
            Role::Tool => self.push_results(message),
        }
    }

    fn push_results(&mut self, message: &Message) {
        for result in message.tool_results() {
            self.add(&CallResult::of(result));
        }
        let files = message.data.content.iter().filter_map(|part| match part {
            Part::File(file) => Some(Said::file(file)),
            _ => None,
        });
        self.open.files.extend(files);
    }

    /// Adds a message that nothing can join, behind what was open.
    fn add(&mut self, message: &impl Serialize) {
        encode_said(&mut self.block, &self.open.said);
        self.open.said.clear();
        encode(&mut self.block, message);
        if self.block.len() >= BLOCK {
            self.blocks
                .push(Bytes::from(std::mem::take(&mut self.block)));
        }
    }
}

impl Open {
    fn encode(&self, out: &mut Vec<u8>) {
        if self.files.is_empty() {
            return encode_said(out, &self.said);
        }
        let said: Vec<_> = self.said.iter().chain(&self.files).cloned().collect();
        encode_said(out, &said);
    }
}

fn encode_said(out: &mut Vec<u8>, said: &[Said]) {
    if said.is_empty() {
        return;
    }
    match joined(said) {
        Some(text) => encode(
            out,
            &Plain {
                role: "user",
                content: &text,
            },
        ),
        None => encode(out, &Mixed::of(said)),
    }
}

fn encode(out: &mut Vec<u8>, message: &impl Serialize) {
    out.push(b',');
    serde_json::to_writer(out, message).expect("texts are always JSON");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::message;

    fn all(transcript: &Transcript) -> Vec<u8> {
        transcript.bytes().concat()
    }

    fn any_message() -> impl Strategy<Value = Arc<Message>> {
        let role = prop_oneof![
            Just(Role::System),
            Just(Role::User),
            Just(Role::Assistant),
            Just(Role::Tool)
        ];
        let file = goondan_core::ports::tool::Attachment {
            media_type: "image/png".into(),
            data: "AA==".into(),
            name: None,
        };
        let part = prop_oneof![
            "[a ]{0,3}".prop_map(|text| Part::Text { text }),
            Just(Part::Text {
                text: "long".repeat(10_000)
            }),
            Just(Part::File(file)),
        ];
        (role, prop::collection::vec(part, 0..3)).prop_map(|(role, content)| message(role, content))
    }

    proptest! {
        #[test]
        fn what_grew_bit_by_bit_is_what_is_made_at_once(messages in prop::collection::vec(any_message(), 0..12)) {
            let mut growing = Transcript::default();
            for count in 0..=messages.len() {
                growing.catch_up(&messages[..count]);
                let mut at_once = Transcript::default();
                at_once.catch_up(&messages[..count]);
                prop_assert_eq!(all(&growing), all(&at_once));
            }
        }
    }

    #[test]
    fn another_conversation_is_begun_anew() {
        let said = |text: &str| {
            message(
                Role::User,
                vec![Part::Text {
                    text: text.to_owned(),
                }],
            )
        };
        let first = [
            said("a"),
            message(
                Role::Assistant,
                vec![Part::Text {
                    text: "b".to_owned(),
                }],
            ),
        ];
        let mut transcript = Transcript::default();
        transcript.catch_up(&first);
        transcript.catch_up(&[said("c"), said("d")]);
        assert_eq!(all(&transcript), br#",{"role":"user","content":"c\n\nd"}"#);
        transcript.catch_up(&first[..1]);
        assert_eq!(all(&transcript), br#",{"role":"user","content":"a"}"#);
    }

    #[test]
    fn full_blocks_are_shared_and_not_copied() {
        let long = || {
            message(
                Role::Assistant,
                vec![Part::Text {
                    text: "x".repeat(BLOCK),
                }],
            )
        };
        let messages = [long(), long(), long()];
        let mut transcript = Transcript::default();
        transcript.catch_up(&messages[..2]);
        let before = transcript.bytes();
        transcript.catch_up(&messages);
        let after = transcript.bytes();
        assert_eq!((before.len(), after.len()), (2, 3));
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(before, after)| before.as_ptr() == after.as_ptr())
        );
    }
}
