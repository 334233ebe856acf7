//! Selection of the messages to remove from a conversation. Pure: it works on message indexes and
//! removes nothing itself.
//!
//! A tool call and its result are kept or removed together: providers reject a conversation with
//! only one of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::turn::context_usage::count_characters;
use goondan_core::message::{Message, MessageRole};

/// Metadata field; `true` excludes a message from removal.
const PINNED_FIELD: &str = "pinned";

/// Returns true if an extension or a caller has pinned the message.
pub(super) fn is_pinned(message: &Message) -> bool {
    message.metadata.get(PINNED_FIELD) == Some(&serde_json::Value::Bool(true))
}

/// Size of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ConversationSize {
    pub(super) messages: usize,
    /// Characters in strings, arguments and results.
    pub(super) characters: usize,
}

impl ConversationSize {
    /// Returns the size of one message.
    pub(super) fn from_message(message: &Message) -> Self {
        ConversationSize {
            messages: 1,
            characters: message.data.content.iter().map(count_characters).sum(),
        }
    }
}

impl std::ops::AddAssign for ConversationSize {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.characters += other.characters;
    }
}

impl std::ops::SubAssign for ConversationSize {
    fn sub_assign(&mut self, other: Self) {
        self.messages -= other.messages;
        self.characters -= other.characters;
    }
}

impl std::iter::Sum for ConversationSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(ConversationSize::default(), |mut sum, size| {
            sum += size;
            sum
        })
    }
}

/// Messages that are kept or removed together: an answer with the results of its calls, or a single
/// message.
#[derive(Debug, Default)]
struct MessageGroup {
    /// Message indexes, oldest first.
    members: Vec<usize>,
    size: ConversationSize,
    stays: bool,
    gone: bool,
    /// Results without a call.
    is_orphan: bool,
    role: Option<MessageRole>,
}

/// A conversation from which messages are removed.
pub(super) struct ConversationTrim {
    groups: Vec<MessageGroup>,
    left: ConversationSize,
    /// Original number of messages.
    length: usize,
}

impl ConversationTrim {
    /// Groups the messages. `stays` selects the messages to keep; the other messages in their
    /// groups are also kept.
    pub(super) fn new(messages: &[Arc<Message>], stays: impl Fn(&Message) -> bool) -> Self {
        let mut groups: Vec<MessageGroup> = Vec::new();
        // Last message that made a call with this id. Ids are unique within a step, not within a
        // conversation.
        let mut callers: HashMap<&str, usize> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            let caller = message
                .tool_results()
                .find_map(|result| callers.get(result.tool_call_id.as_str()).copied());
            let group_index = caller.unwrap_or_else(|| {
                let is_orphan = message.data.role == MessageRole::Tool;
                groups.push(MessageGroup {
                    role: Some(message.data.role),
                    is_orphan,
                    ..MessageGroup::default()
                });
                groups.len() - 1
            });
            callers.extend(
                message
                    .tool_calls()
                    .map(|call| (call.tool_call_id.as_str(), group_index)),
            );
            groups[group_index].members.push(index);
            groups[group_index].size += ConversationSize::from_message(message);
            groups[group_index].stays |= stays(message);
        }
        let total_size = groups.iter().map(|group| group.size).sum();
        ConversationTrim {
            groups,
            left: total_size,
            length: messages.len(),
        }
    }

    pub(super) fn remaining_size(&self) -> ConversationSize {
        self.left
    }

    /// Removes results without a call.
    pub(super) fn drop_orphans(&mut self) {
        let orphans = self
            .groups
            .iter_mut()
            .filter(|group| group.is_orphan && !group.stays);
        for group in orphans {
            group.drop_from(&mut self.left);
        }
    }

    /// Removes the oldest groups while the rest is `too_much`. Groups with one of the last
    /// `retained` messages are kept.
    pub(super) fn drop_oldest(
        &mut self,
        retained: usize,
        too_much: impl Fn(ConversationSize) -> bool,
    ) {
        let end = self.length.saturating_sub(retained);
        let old_groups = self
            .groups
            .iter_mut()
            .filter(|group| group.members.last().is_some_and(|last| *last < end));
        for group in old_groups.filter(|group| !group.stays) {
            if !too_much(self.left) {
                return;
            }
            group.drop_from(&mut self.left);
        }
    }

    /// Removes leading answers without a question: providers require a conversation to begin with a
    /// user message.
    pub(super) fn drop_leading_answers(&mut self) {
        let remaining = self
            .groups
            .iter_mut()
            .filter(|group| !group.gone && group.role != Some(MessageRole::System));
        for group in remaining
            .take_while(|group| group.role != Some(MessageRole::User))
            .filter(|group| !group.stays)
        {
            group.drop_from(&mut self.left);
        }
    }

    /// Returns the indexes of the removed messages, oldest first.
    pub(super) fn removed_indexes(&self) -> Vec<usize> {
        let removed_groups = self.groups.iter().filter(|group| group.gone);
        let mut indexes: Vec<usize> = removed_groups
            .flat_map(|group| group.members.iter().copied())
            .collect();
        indexes.sort_unstable();
        indexes
    }
}

impl MessageGroup {
    /// Marks the group as removed and subtracts its size from `left`, once.
    fn drop_from(&mut self, left: &mut ConversationSize) {
        if !std::mem::replace(&mut self.gone, true) {
            *left -= self.size;
        }
    }
}

/// Conversations for tests, in a shorthand: `u` user, `a` answer, `c` call, `r` result, `s` system,
/// `!` pinned.
#[cfg(test)]
pub(super) mod testing {
    use std::collections::{BTreeSet, HashMap};

    use chrono::DateTime;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use goondan_core::JsonObject;
    use goondan_core::message::{
        MessageData, MessagePart, MessageSource, ToolCall, ToolResultPart,
    };
    use goondan_core::ports::tool::ToolCallStatus;

    /// Creates one message per word: `u` user, `a` assistant, `s` system, `c` tool call, `r` tool
    /// result; `!` pins it. All calls have the same id, which is possible with a scripted model.
    pub(in crate::middleware) fn conversation(words: &str) -> Vec<Arc<Message>> {
        words
            .split_whitespace()
            .enumerate()
            .map(|(index, word)| Arc::new(message(index, word)))
            .collect()
    }

    fn message(index: usize, word: &str) -> Message {
        let text = MessagePart::text(format!("message {index}"));
        let (tool_call_id, tool_name) = ("c1".to_owned(), "a__b".to_owned());
        let (role, content) = match &word[..1] {
            "u" => (MessageRole::User, text),
            "a" => (MessageRole::Assistant, text),
            "s" => (MessageRole::System, text),
            "c" => (
                MessageRole::Assistant,
                MessagePart::ToolCall(ToolCall::new(tool_call_id, tool_name, json!({"n": index}))),
            ),
            "r" => {
                let (status, output) = (ToolCallStatus::Ok, Some(json!(index)));
                (
                    MessageRole::Tool,
                    MessagePart::ToolResult(ToolResultPart {
                        tool_call_id,
                        tool_name,
                        status,
                        output,
                        error: None,
                        untrusted: false,
                    }),
                )
            }
            other => panic!("unknown word: {other}"),
        };
        let pinned = word
            .ends_with('!')
            .then(|| (PINNED_FIELD.to_owned(), Value::Bool(true)));
        Message {
            id: format!("{word}{index}"),
            data: MessageData {
                role,
                content: vec![content],
            },
            metadata: JsonObject::from_iter(pinned),
            created_at: DateTime::UNIX_EPOCH,
            source: MessageSource::User,
        }
    }

    /// Generates conversations like those of turns: user messages, answers, and calls with results.
    pub(in crate::middleware) fn conversations() -> impl Strategy<Value = Vec<Arc<Message>>> {
        let words = prop_oneof![
            Just("u"),
            Just("u!"),
            Just("a"),
            Just("s"),
            Just("c r"),
            Just("c r!"),
            Just("c! r")
        ];
        proptest::collection::vec(words, 0..30).prop_map(|words| conversation(&words.join(" ")))
    }

    /// Returns the ids of the remaining messages.
    pub(in crate::middleware) fn remaining_ids(
        messages: &[Arc<Message>],
        removed: &[usize],
    ) -> String {
        let remaining = messages
            .iter()
            .enumerate()
            .filter(|(index, _)| !removed.contains(index));
        remaining
            .map(|(_, message)| message.id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Checks that each remaining call is followed by its result, and that each result follows its
    /// call.
    pub(in crate::middleware) fn assert_pairs_are_whole(
        messages: &[Arc<Message>],
        removed: &[usize],
    ) {
        let removed: BTreeSet<usize> = removed.iter().copied().collect();
        let mut open: HashMap<&str, usize> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            open.extend(
                message
                    .tool_calls()
                    .map(|call| (call.tool_call_id.as_str(), index)),
            );
            for result in message.tool_results() {
                let caller = open[result.tool_call_id.as_str()];
                assert_eq!(
                    removed.contains(&caller),
                    removed.contains(&index),
                    "only one of the messages {caller} and {index} was removed"
                );
            }
        }
    }
}
