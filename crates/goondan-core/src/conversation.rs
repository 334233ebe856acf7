//! A conversation: base plus events (rule C1).

use std::collections::HashSet;
use std::sync::Arc;

use crate::history::{History, Kept};
use crate::message::{Message, MessageEvent, Role, ToolCall};
use crate::ports::store::{Fold, StoredConversation};

/// The messages as they stand, and how the base has to change to hold them.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Shared with those who look at it as it stands now; a change copies the list only while somebody does.
    messages: Arc<Vec<Arc<Message>>>,
    /// What model clients made of the messages.
    kept: Kept,
    /// How many messages, from the first, are the base as it is stored.
    folded: usize,
    /// A message of the base was replaced or removed.
    rewritten: bool,
}

/// An event that changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetNotFound {
    /// The message that is not there.
    pub target_id: String,
}

impl Conversation {
    /// What a store held. Events that were folded, or partly folded, before the process was cut off come to the same as if
    /// they had been folded once.
    pub fn restore(stored: StoredConversation) -> (Self, Vec<TargetNotFound>) {
        let folded = stored.base.len();
        let mut conversation = Conversation {
            messages: Arc::new(stored.base),
            folded,
            ..Conversation::default()
        };
        let new = new_messages(&stored.events);
        let in_base = conversation.which_are_here(&new);
        if in_base.is_empty() {
            let missing = stored
                .events
                .into_iter()
                .filter_map(|event| conversation.apply(event).err())
                .collect();
            return (conversation, missing);
        }
        // A base is rewritten as a whole or not at all; so what is missing was to be appended.
        let missing = new
            .into_iter()
            .filter(|new| new.is_appended && !in_base.contains(&new.message.id));
        let missing: Vec<_> = missing.map(|new| Arc::new(new.message.clone())).collect();
        Arc::make_mut(&mut conversation.messages).extend(missing);
        (conversation, Vec::new())
    }

    fn which_are_here(&self, new: &[NewMessage<'_>]) -> HashSet<String> {
        let ids: HashSet<&str> = new.iter().map(|new| new.message.id.as_str()).collect();
        let here = self
            .messages
            .iter()
            .filter(|message| ids.contains(message.id.as_str()));
        here.map(|message| message.id.clone()).collect()
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The messages as they stand now, for whoever outlives the next change.
    pub fn history(&self) -> History {
        History::new(Arc::clone(&self.messages), self.kept.clone())
    }

    /// The last message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// Applies one event. An unknown target changes nothing and says so.
    pub fn apply(&mut self, event: MessageEvent) -> Result<(), TargetNotFound> {
        if !matches!(event, MessageEvent::Append { .. }) {
            self.kept = Kept::default();
        }
        match event {
            MessageEvent::Append { message } => self.list().push(Arc::new(message)),
            MessageEvent::Replace { target_id, message } => {
                let at = self.find(target_id)?;
                self.touch(at);
                self.list()[at] = Arc::new(message);
            }
            MessageEvent::Remove { target_id } => {
                let at = self.find(target_id)?;
                self.touch(at);
                self.list().remove(at);
            }
            MessageEvent::Truncate => {
                self.rewritten |= self.folded > 0;
                self.folded = 0;
                self.list().clear();
            }
        }
        Ok(())
    }

    /// The id of the message that `event` would add, where another message has it already.
    pub fn taken_id<'a>(&self, event: &'a MessageEvent) -> Option<&'a str> {
        let id = match event {
            MessageEvent::Append { message } => &message.id,
            MessageEvent::Replace { target_id, message } if *target_id != message.id => &message.id,
            _ => return None,
        };
        self.position(id).map(|_| id.as_str())
    }

    /// How the stored base becomes what stands here.
    pub fn fold(&self) -> Fold<'_> {
        if self.rewritten {
            Fold::Rewrite(&self.messages)
        } else {
            Fold::Append(&self.messages[self.folded..])
        }
    }

    /// The fold is stored.
    pub fn folded(&mut self) {
        self.folded = self.messages.len();
        self.rewritten = false;
    }

    /// Calls of the last assistant message that have no result: what a turn may leave that was cut off and never resumed.
    pub fn unanswered_calls(&self) -> Vec<&ToolCall> {
        let mut answered: HashSet<&str> = HashSet::new();
        for message in self.messages.iter().rev() {
            answered.extend(
                message
                    .tool_results()
                    .map(|result| result.tool_call_id.as_str()),
            );
            if message.data.role == Role::Assistant {
                return message
                    .tool_calls()
                    .filter(|call| !answered.contains(call.tool_call_id.as_str()))
                    .collect();
            }
        }
        Vec::new()
    }

    // Edits point at recent messages: the search begins at the end.
    fn position(&self, id: &str) -> Option<usize> {
        self.messages.iter().rposition(|message| message.id == id)
    }

    fn find(&self, target_id: String) -> Result<usize, TargetNotFound> {
        self.position(&target_id)
            .ok_or(TargetNotFound { target_id })
    }

    fn list(&mut self) -> &mut Vec<Arc<Message>> {
        Arc::make_mut(&mut self.messages)
    }

    fn touch(&mut self, at: usize) {
        if at < self.folded {
            self.rewritten = true;
        }
    }
}

/// A message that a row of events adds, and leaves in place.
struct NewMessage<'a> {
    message: &'a Message,
    /// It comes at the end; else it takes the place of an older one.
    is_appended: bool,
}

fn new_messages(events: &[MessageEvent]) -> Vec<NewMessage<'_>> {
    let mut new: Vec<NewMessage<'_>> = Vec::new();
    for event in events {
        let place = |target: &str| new.iter().rposition(|new| new.message.id == target);
        match event {
            MessageEvent::Append { message } => new.push(NewMessage {
                message,
                is_appended: true,
            }),
            MessageEvent::Replace { target_id, message } => match place(target_id) {
                Some(place) => new[place].message = message,
                // One that keeps its id tells nothing: it was there before.
                None if *target_id == message.id => {}
                None => new.push(NewMessage {
                    message,
                    is_appended: false,
                }),
            },
            MessageEvent::Remove { target_id } => {
                if let Some(place) = place(target_id) {
                    new.remove(place);
                }
            }
            MessageEvent::Truncate => new.clear(),
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{MessageData, MessageSource, Part};

    fn message(id: &str, text: &str) -> Message {
        let content = vec![Part::text(text)];
        Message {
            id: id.to_owned(),
            data: MessageData {
                role: Role::User,
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
    fn an_unknown_target_changes_nothing() {
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
        assert!(matches!(conversation.fold(), Fold::Append([])));
    }

    #[test]
    fn what_was_made_of_the_messages_is_kept_while_they_only_grow() {
        let mut conversation = stored(&["a"]);
        conversation.history().kept(|seen: &mut usize| *seen = 1);
        conversation
            .apply(MessageEvent::Append {
                message: message("b", ""),
            })
            .unwrap();
        assert_eq!(conversation.history().kept(|seen: &mut usize| *seen), 1);
        let old = conversation.history();
        conversation
            .apply(MessageEvent::Remove {
                target_id: "a".into(),
            })
            .unwrap();
        assert_eq!(conversation.history().kept(|seen: &mut usize| *seen), 0);
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
        assert!(matches!(conversation.fold(), Fold::Append([new]) if new.id == "d"));
        conversation
            .apply(MessageEvent::Remove {
                target_id: "a".into(),
            })
            .unwrap();
        assert!(matches!(conversation.fold(), Fold::Rewrite([b, d]) if b.id == "b" && d.id == "d"));
    }

    /// What a turn may do to a conversation of `m0` to `m3`: targets may be old, new, or not there at all.
    fn events() -> impl Strategy<Value = Vec<MessageEvent>> {
        proptest::collection::vec((0u8..12, 0usize..12), 0..14).prop_map(|acts| {
            let mut ids: Vec<String> = (0..4)
                .map(|n| format!("m{n}"))
                .chain(["unknown".to_owned()])
                .collect();
            acts.into_iter()
                .enumerate()
                .map(|(n, (what, which))| event(what, which, n, &mut ids))
                .collect()
        })
    }

    fn event(what: u8, which: usize, n: usize, ids: &mut Vec<String>) -> MessageEvent {
        let (target_id, new) = (ids[which % ids.len()].clone(), format!("new{n}"));
        match what {
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
        /// A fold that reached the disk, or a part of it, while its events were not yet forgotten is folded again.
        #[test]
        fn a_fold_that_was_cut_off_and_repeated_comes_to_the_same(events in events(), part in 0usize..20) {
            let base: Vec<Arc<Message>> = (0..4).map(|n| Arc::new(message(&format!("m{n}"), "old"))).collect();
            let restore = |base: Vec<Arc<Message>>| {
                let stored = StoredConversation { base, events: events.clone(), warnings: Vec::new() };
                Conversation::restore(stored).0
            };
            let once = restore(base.clone());
            let cut_off = match once.fold() {
                Fold::Append(new) => base.iter().chain(&new[..part.min(new.len())]).cloned().collect(),
                // It is written beside and renamed.
                Fold::Rewrite(_) if part % 2 == 0 => base,
                Fold::Rewrite(whole) => whole.to_vec(),
            };
            let twice = restore(cut_off);
            prop_assert_eq!(once.messages(), twice.messages());
        }
    }

    #[test]
    fn calls_without_a_result_are_told() {
        let call = |id: &str| Part::ToolCall(ToolCall::new(id, "a__b", serde_json::json!({})));
        let mut calling = message("m0", "let me see");
        calling.data = MessageData {
            role: Role::Assistant,
            content: vec![call("c1"), call("c2")],
        };
        let mut conversation = stored(&[]);
        conversation
            .apply(MessageEvent::Append { message: calling })
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
            role: Role::Tool,
            content: vec![Part::ToolResult(result)],
        };
        conversation
            .apply(MessageEvent::Append { message: answer })
            .unwrap();
        assert_eq!(ids(&conversation), ["c2"]);
        let mut done = message("m2", "done");
        done.data.role = Role::Assistant;
        conversation
            .apply(MessageEvent::Append { message: done })
            .unwrap();
        assert_eq!(ids(&conversation), [""; 0]);
    }
}
