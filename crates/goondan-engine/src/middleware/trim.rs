//! Which messages of a conversation may go. Pure: it knows messages by their place, and removes nothing itself.
//!
//! A call and its result stay or go together: providers refuse a conversation that holds one without the other.

use std::collections::HashMap;
use std::sync::Arc;

use goondan_core::message::{Message, Part, Role};

/// Set to `true` in the metadata of a message that must not go.
const PINNED: &str = "pinned";

/// Whether an extension or a caller has asked for the message to stay.
pub(super) fn is_pinned(message: &Message) -> bool {
    message.metadata.get(PINNED) == Some(&serde_json::Value::Bool(true))
}

/// How much a conversation holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) messages: usize,
    /// Characters of texts, of arguments and of results.
    pub(super) characters: usize,
}

impl Size {
    pub(super) fn of(message: &Message) -> Self {
        Size {
            messages: 1,
            characters: message.data.content.iter().map(characters).sum(),
        }
    }
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.characters += other.characters;
    }
}

impl std::ops::SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        self.messages -= other.messages;
        self.characters -= other.characters;
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Size::default(), |mut sum, size| {
            sum += size;
            sum
        })
    }
}

fn characters(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Reasoning { text, .. } => text.chars().count(),
        Part::ToolCall(call) => call.tool_name.len() + call.input.to_string().chars().count(),
        Part::ToolResult(result) => {
            let output = result
                .output
                .as_ref()
                .map_or(0, |output| output.to_string().chars().count());
            output
                + result
                    .error
                    .as_ref()
                    .map_or(0, |error| error.message.chars().count())
        }
        Part::Opaque { .. } | Part::File(_) => 0,
    }
}

/// Messages that stay or go together: an answer with the results of its calls, or a message alone.
#[derive(Debug, Default)]
struct Group {
    /// Their places, oldest first.
    members: Vec<usize>,
    size: Size,
    stays: bool,
    gone: bool,
    /// Results without a call.
    is_orphan: bool,
    role: Option<Role>,
}

/// A conversation on its way to a shorter one.
pub(super) struct Trim {
    groups: Vec<Group>,
    left: Size,
    /// How many messages there were.
    length: usize,
}

impl Trim {
    /// `stays` says what must not go; what belongs to such a message stays as well.
    pub(super) fn new(messages: &[Arc<Message>], stays: impl Fn(&Message) -> bool) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        // The last answer that called under an id: ids are unique in a step, not in a conversation.
        let mut callers: HashMap<&str, usize> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            let caller = message
                .tool_results()
                .find_map(|result| callers.get(result.tool_call_id.as_str()).copied());
            let at = caller.unwrap_or_else(|| {
                let is_orphan = message.data.role == Role::Tool;
                groups.push(Group {
                    role: Some(message.data.role),
                    is_orphan,
                    ..Group::default()
                });
                groups.len() - 1
            });
            callers.extend(
                message
                    .tool_calls()
                    .map(|call| (call.tool_call_id.as_str(), at)),
            );
            groups[at].members.push(index);
            groups[at].size += Size::of(message);
            groups[at].stays |= stays(message);
        }
        let left = groups.iter().map(|group| group.size).sum();
        Trim {
            groups,
            left,
            length: messages.len(),
        }
    }

    /// What would stay.
    pub(super) fn left(&self) -> Size {
        self.left
    }

    /// Drops results whose call is not there.
    pub(super) fn drop_orphans(&mut self) {
        let orphans = self
            .groups
            .iter_mut()
            .filter(|group| group.is_orphan && !group.stays);
        orphans.for_each(|group| group.drop_from(&mut self.left));
    }

    /// Drops the oldest groups, as long as what is left is `too_much`. What the last `retained` messages belong to stays.
    pub(super) fn drop_oldest(&mut self, retained: usize, too_much: impl Fn(Size) -> bool) {
        let end = self.length.saturating_sub(retained);
        let old = self
            .groups
            .iter_mut()
            .filter(|group| group.members.last().is_some_and(|last| *last < end));
        for group in old.filter(|group| !group.stays) {
            if !too_much(self.left) {
                return;
            }
            group.drop_from(&mut self.left);
        }
    }

    /// Drops answers at the beginning whose question is gone: providers want a conversation to begin with a question.
    pub(super) fn drop_leading_answers(&mut self) {
        let left = self
            .groups
            .iter_mut()
            .filter(|group| !group.gone && group.role != Some(Role::System));
        for group in left
            .take_while(|group| group.role != Some(Role::User))
            .filter(|group| !group.stays)
        {
            group.drop_from(&mut self.left);
        }
    }

    /// The places of what goes, oldest first.
    pub(super) fn gone(&self) -> Vec<usize> {
        let gone = self.groups.iter().filter(|group| group.gone);
        let mut places: Vec<usize> = gone
            .flat_map(|group| group.members.iter().copied())
            .collect();
        places.sort_unstable();
        places
    }
}

impl Group {
    fn drop_from(&mut self, left: &mut Size) {
        if !std::mem::replace(&mut self.gone, true) {
            *left -= self.size;
        }
    }
}

/// Conversations for tests, in a shorthand: `u` user, `a` answer, `c` call, `r` result, `s` system, `!` pinned.
#[cfg(test)]
pub(super) mod testing {
    use std::collections::{BTreeSet, HashMap};

    use chrono::DateTime;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use goondan_core::JsonObject;
    use goondan_core::message::{MessageData, MessageSource, ToolCall, ToolResultPart};
    use goondan_core::ports::tool::ToolCallStatus;

    /// One message a word. All calls have the same id, as those of a scripted model may.
    pub(in crate::middleware) fn conversation(words: &str) -> Vec<Arc<Message>> {
        words
            .split_whitespace()
            .enumerate()
            .map(|(index, word)| Arc::new(message(index, word)))
            .collect()
    }

    fn message(index: usize, word: &str) -> Message {
        let text = Part::text(format!("message {index}"));
        let (tool_call_id, tool_name) = ("c1".to_owned(), "a__b".to_owned());
        let (role, content) = match &word[..1] {
            "u" => (Role::User, text),
            "a" => (Role::Assistant, text),
            "s" => (Role::System, text),
            "c" => (
                Role::Assistant,
                Part::ToolCall(ToolCall::new(tool_call_id, tool_name, json!({"n": index}))),
            ),
            "r" => {
                let (status, output) = (ToolCallStatus::Ok, Some(json!(index)));
                (
                    Role::Tool,
                    Part::ToolResult(ToolResultPart {
                        tool_call_id,
                        tool_name,
                        status,
                        output,
                        error: None,
                        untrusted: false,
                    }),
                )
            }
            other => panic!("no such word: {other}"),
        };
        let pinned = word
            .ends_with('!')
            .then(|| (PINNED.to_owned(), Value::Bool(true)));
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

    /// Conversations as turns make them: questions, answers, and calls with their results.
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

    /// The ids of what stays.
    pub(in crate::middleware) fn kept(messages: &[Arc<Message>], gone: &[usize]) -> String {
        let kept = messages
            .iter()
            .enumerate()
            .filter(|(index, _)| !gone.contains(index));
        kept.map(|(_, message)| message.id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Each call that stays is followed by its result, and each result that stays follows its call.
    pub(in crate::middleware) fn assert_pairs_are_whole(messages: &[Arc<Message>], gone: &[usize]) {
        let gone: BTreeSet<usize> = gone.iter().copied().collect();
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
                    gone.contains(&caller),
                    gone.contains(&index),
                    "{caller} and {index} were torn apart"
                );
            }
        }
    }
}
