//! A conversation: a stored base plus the events since then (rule C1).

use std::collections::HashSet;
use std::sync::Arc;

use crate::history::{DerivedCache, MessageHistory};
use crate::message::{Message, MessageEvent, MessageRole, ToolCall};
use crate::ports::store::{BaseChange, StoredConversation};

/// Current messages of a conversation, and whether the stored messages must be rewritten to match
/// them.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Shared with readers of the current messages; a change copies the list only while a reader
    /// holds it.
    messages: Arc<Vec<Arc<Message>>>,
    /// Data that model clients derived from the messages.
    cache: DerivedCache,
    /// Number of messages, from the first, that the stored base contains.
    folded: usize,
    /// A message of the base was replaced or removed.
    rewritten: bool,
}

/// Error of an event that changed nothing because its target does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetNotFound {
    /// Id of the missing message.
    pub target_id: String,
}

impl Conversation {
    /// Restores a conversation from its stored form. Compaction is idempotent: after a crash,
    /// events that are partly or fully in the base are applied once.
    pub fn restore(stored: StoredConversation) -> (Self, Vec<TargetNotFound>) {
        let folded = stored.base.len();
        let mut conversation = Conversation {
            messages: Arc::new(stored.base),
            folded,
            ..Conversation::default()
        };
        let new_messages = new_messages(&stored.events);
        let in_base = conversation.ids_in_base(&new_messages);
        if in_base.is_empty() {
            let failures = stored
                .events
                .into_iter()
                .filter_map(|event| conversation.apply(event).err())
                .collect();
            return (conversation, failures);
        }
        // A base is rewritten completely or not at all, so the missing messages belong at the end.
        let lost_messages = new_messages
            .into_iter()
            .filter(|new| new.is_appended && !in_base.contains(&new.message.id));
        let lost_messages: Vec<_> = lost_messages
            .map(|new| Arc::new(new.message.clone()))
            .collect();
        Arc::make_mut(&mut conversation.messages).extend(lost_messages);
        (conversation, Vec::new())
    }

    /// Returns the ids of the `new` messages that the base contains already.
    fn ids_in_base(&self, new: &[AddedMessage<'_>]) -> HashSet<String> {
        let ids: HashSet<&str> = new.iter().map(|new| new.message.id.as_str()).collect();
        let existing = self
            .messages
            .iter()
            .filter(|message| ids.contains(message.id.as_str()));
        existing.map(|message| message.id.clone()).collect()
    }

    /// Returns the messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns a snapshot of the messages that later changes do not affect.
    pub fn history(&self) -> MessageHistory {
        MessageHistory::new(Arc::clone(&self.messages), self.cache.clone())
    }

    /// Returns the last message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// Applies one event.
    ///
    /// # Errors
    /// The target does not exist; nothing is changed.
    pub fn apply(&mut self, event: MessageEvent) -> Result<(), TargetNotFound> {
        if !matches!(event, MessageEvent::Append { .. }) {
            self.cache = DerivedCache::default();
        }
        match event {
            MessageEvent::Append { message } => self.messages_mut().push(Arc::new(message)),
            MessageEvent::Replace { target_id, message } => {
                let index = self.find(target_id)?;
                self.mark_base_change(index);
                self.messages_mut()[index] = Arc::new(message);
            }
            MessageEvent::Remove { target_id } => {
                let index = self.find(target_id)?;
                self.mark_base_change(index);
                self.messages_mut().remove(index);
            }
            MessageEvent::Truncate => {
                self.rewritten |= self.folded > 0;
                self.folded = 0;
                self.messages_mut().clear();
            }
        }
        Ok(())
    }

    /// Returns the id of the message that `event` would add, if another message already has this
    /// id.
    pub fn duplicate_id<'a>(&self, event: &'a MessageEvent) -> Option<&'a str> {
        let id = match event {
            MessageEvent::Append { message } => &message.id,
            MessageEvent::Replace { target_id, message } if *target_id != message.id => &message.id,
            _ => return None,
        };
        self.position(id).map(|_| id.as_str())
    }

    /// Returns the change that brings the stored base up to date.
    pub fn base_change(&self) -> BaseChange<'_> {
        if self.rewritten {
            BaseChange::Rewrite(&self.messages)
        } else {
            BaseChange::Append(&self.messages[self.folded..])
        }
    }

    /// Records that the change of [`Conversation::fold`] is stored.
    pub fn mark_base_stored(&mut self) {
        self.folded = self.messages.len();
        self.rewritten = false;
    }

    /// Returns the calls of the last assistant message without a result. A crashed turn that was
    /// never resumed can leave such calls.
    pub fn unanswered_calls(&self) -> Vec<&ToolCall> {
        let mut answered: HashSet<&str> = HashSet::new();
        for message in self.messages.iter().rev() {
            answered.extend(
                message
                    .tool_results()
                    .map(|result| result.tool_call_id.as_str()),
            );
            if message.data.role == MessageRole::Assistant {
                return message
                    .tool_calls()
                    .filter(|call| !answered.contains(call.tool_call_id.as_str()))
                    .collect();
            }
        }
        Vec::new()
    }

    // Edits usually target recent messages, so the search starts at the end.
    /// Returns the index of the last message with this id; `None` if there is none.
    fn position(&self, id: &str) -> Option<usize> {
        self.messages.iter().rposition(|message| message.id == id)
    }

    /// Returns the index of the last message with this id, or an error.
    fn find(&self, target_id: String) -> Result<usize, TargetNotFound> {
        self.position(&target_id)
            .ok_or(TargetNotFound { target_id })
    }

    /// Returns the messages for a change; copies a shared list first.
    fn messages_mut(&mut self) -> &mut Vec<Arc<Message>> {
        Arc::make_mut(&mut self.messages)
    }

    /// Records that a change at index `at` affects a message that is already stored.
    fn mark_base_change(&mut self, at: usize) {
        if at < self.folded {
            self.rewritten = true;
        }
    }
}

/// A message that a list of events adds and does not remove.
struct AddedMessage<'a> {
    message: &'a Message,
    /// True if the message was added at the end; false if it replaces an older message.
    is_appended: bool,
}

/// Returns the messages that `events` add and do not remove. A message is added by appending it, or
/// by replacing an older message under another id.
fn new_messages(events: &[MessageEvent]) -> Vec<AddedMessage<'_>> {
    let mut added: Vec<AddedMessage<'_>> = Vec::new();
    for event in events {
        let index = |target: &str| added.iter().rposition(|new| new.message.id == target);
        match event {
            MessageEvent::Append { message } => added.push(AddedMessage {
                message,
                is_appended: true,
            }),
            MessageEvent::Replace { target_id, message } => match index(target_id) {
                Some(index) => added[index].message = message,
                // A replacement that keeps its id adds nothing: the message existed before.
                None if *target_id == message.id => {}
                None => added.push(AddedMessage {
                    message,
                    is_appended: false,
                }),
            },
            MessageEvent::Remove { target_id } => {
                if let Some(index) = index(target_id) {
                    added.remove(index);
                }
            }
            MessageEvent::Truncate => added.clear(),
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{MessageData, MessagePart, MessageSource};

    fn message(id: &str, text: &str) -> Message {
        let content = vec![MessagePart::text(text)];
        Message {
            id: id.to_owned(),
            data: MessageData {
                role: MessageRole::User,
                content,
            },
            metadata: crate::JsonObject::new(),
            created_at: DateTime::UNIX_EPOCH,
            source: MessageSource::User,
        }
    }

    fn ids(conversation: &Conversation) -> Vec<&str> {
        conversation
            .messages()
            .iter()
            .map(|message| message.id.as_str())
            .collect()
    }

    fn stored(base: &[&str]) -> Conversation {
        let base = base.iter().map(|id| Arc::new(message(id, "b"))).collect();
        Conversation::restore(StoredConversation {
            base,
            ..StoredConversation::default()
        })
        .0
    }

    #[test]
    fn an_event_with_an_unknown_target_changes_nothing() {
        let mut conversation = stored(&["a"]);
        let missing = conversation.apply(MessageEvent::Remove {
            target_id: "x".into(),
        });
        assert_eq!(
            missing,
            Err(TargetNotFound {
                target_id: "x".into()
            })
        );
        assert_eq!(ids(&conversation), ["a"]);
        assert!(matches!(conversation.base_change(), BaseChange::Append([])));
    }

    #[test]
    fn the_history_cache_is_kept_while_messages_are_only_appended() {
        let mut conversation = stored(&["a"]);
        conversation
            .history()
            .with_cache(|value: &mut usize| *value = 1);
        conversation
            .apply(MessageEvent::Append {
                message: message("b", ""),
            })
            .unwrap();
        assert_eq!(
            conversation
                .history()
                .with_cache(|value: &mut usize| *value),
            1
        );
        let old = conversation.history();
        conversation
            .apply(MessageEvent::Remove {
                target_id: "a".into(),
            })
            .unwrap();
        assert_eq!(
            conversation
                .history()
                .with_cache(|value: &mut usize| *value),
            0
        );
        assert_eq!((old.len(), conversation.history().len()), (2, 1));
    }

    #[test]
    fn only_new_messages_are_appended_to_the_base() {
        let mut conversation = stored(&["a", "b"]);
        conversation
            .apply(MessageEvent::Append {
                message: message("c", ""),
            })
            .unwrap();
        conversation
            .apply(MessageEvent::Replace {
                target_id: "c".into(),
                message: message("d", ""),
            })
            .unwrap();
        assert!(matches!(conversation.base_change(), BaseChange::Append([new]) if new.id == "d"));
        conversation
            .apply(MessageEvent::Remove {
                target_id: "a".into(),
            })
            .unwrap();
        assert!(
            matches!(conversation.base_change(), BaseChange::Rewrite([b, d]) if b.id == "b" && d.id == "d")
        );
    }

    /// Generates changes to a conversation of `m0` to `m3`. Targets can be old, new or missing.
    fn events() -> impl Strategy<Value = Vec<MessageEvent>> {
        proptest::collection::vec((0u8..12, 0usize..12), 0..14).prop_map(|choices| {
            let mut ids: Vec<String> = (0..4)
                .map(|n| format!("m{n}"))
                .chain(["unknown".to_owned()])
                .collect();
            choices
                .into_iter()
                .enumerate()
                .map(|(n, (kind, target))| event(kind, target, n, &mut ids))
                .collect()
        })
    }

    fn event(kind: u8, target: usize, n: usize, ids: &mut Vec<String>) -> MessageEvent {
        let (target_id, new) = (ids[target % ids.len()].clone(), format!("new{n}"));
        match kind {
            0..6 => {
                ids.push(new.clone());
                MessageEvent::Append {
                    message: message(&new, ""),
                }
            }
            6 | 7 => MessageEvent::Remove { target_id },
            8 | 9 => {
                ids.push(new.clone());
                MessageEvent::Replace {
                    target_id,
                    message: message(&new, ""),
                }
            }
            10 => MessageEvent::Replace {
                message: message(&target_id, "changed"),
                target_id,
            },
            _ => MessageEvent::Truncate,
        }
    }

    proptest! {
        /// Repeats a compaction that was written partly or fully before its events were deleted.
        #[test]
        fn an_interrupted_and_repeated_compaction_has_the_same_result(events in events(), part in 0usize..20) {
            let base: Vec<Arc<Message>> = (0..4).map(|n| Arc::new(message(&format!("m{n}"), "old"))).collect();
            let restore = |base: Vec<Arc<Message>>| {
                let stored = StoredConversation { base, events: events.clone(), warnings: Vec::new() };
                Conversation::restore(stored).0
            };
            let once = restore(base.clone());
            let interrupted = match once.base_change() {
                BaseChange::Append(new) => base.iter().chain(&new[..part.min(new.len())]).cloned().collect(),
                // A rewrite is atomic: a temporary file is renamed.
                BaseChange::Rewrite(_) if part % 2 == 0 => base,
                BaseChange::Rewrite(messages) => messages.to_vec(),
            };
            let twice = restore(interrupted);
            prop_assert_eq!(once.messages(), twice.messages());
        }
    }

    #[test]
    fn tool_calls_without_a_result_are_reported() {
        let call =
            |id: &str| MessagePart::ToolCall(ToolCall::new(id, "a__b", serde_json::json!({})));
        let mut message_with_calls = message("m0", "let me see");
        message_with_calls.data = MessageData {
            role: MessageRole::Assistant,
            content: vec![call("c1"), call("c2")],
        };
        let mut conversation = stored(&[]);
        conversation
            .apply(MessageEvent::Append {
                message: message_with_calls,
            })
            .unwrap();
        let ids = |conversation: &Conversation| {
            let calls = conversation.unanswered_calls().into_iter();
            calls
                .map(|call| call.tool_call_id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&conversation), ["c1", "c2"]);
        let result = crate::message::ToolResultPart {
            tool_call_id: "c1".into(),
            tool_name: "a__b".into(),
            status: crate::ports::tool::ToolCallStatus::Ok,
            output: None,
            error: None,
            untrusted: false,
        };
        let mut answer = message("m1", "");
        answer.data = MessageData {
            role: MessageRole::Tool,
            content: vec![MessagePart::ToolResult(result)],
        };
        conversation
            .apply(MessageEvent::Append { message: answer })
            .unwrap();
        assert_eq!(ids(&conversation), ["c2"]);
        let mut done = message("m2", "done");
        done.data.role = MessageRole::Assistant;
        conversation
            .apply(MessageEvent::Append { message: done })
            .unwrap();
        assert_eq!(ids(&conversation), [""; 0]);
    }
}
