//! A conversation: base plus events (rule C1).

use std::collections::HashMap;
use std::sync::Arc;

use crate::message::{Message, MessageEvent, Role};
use crate::ports::store::{Fold, StoredConversation};

/// The code of a warning about an event whose target is not there.
pub const MESSAGE_TARGET_NOT_FOUND: &str = "E_MESSAGE_TARGET_NOT_FOUND";

/// The messages as they stand, and how the base has to change to hold them.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    messages: Vec<Arc<Message>>,
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
    /// What a store held. Events that were folded before the process was cut off change nothing.
    pub fn restore(stored: StoredConversation) -> (Self, Vec<TargetNotFound>) {
        let folded = stored.base.len();
        let mut conversation = Conversation { messages: stored.base, folded, rewritten: false };
        let mut warnings = Vec::new();
        for event in stored.events {
            match &event {
                MessageEvent::Append { message } if conversation.position(&message.id).is_some() => {}
                _ => warnings.extend(conversation.apply(event).err()),
            }
        }
        (conversation, warnings)
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The last message.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// Applies one event. An unknown target changes nothing and says so.
    pub fn apply(&mut self, event: MessageEvent) -> Result<(), TargetNotFound> {
        match event {
            MessageEvent::Append { message } => self.messages.push(Arc::new(message)),
            MessageEvent::Replace { target_id, message } => {
                let at = self.find(target_id)?;
                self.touch(at);
                self.messages[at] = Arc::new(message);
            }
            MessageEvent::Remove { target_id } => {
                let at = self.find(target_id)?;
                self.touch(at);
                self.messages.remove(at);
            }
            MessageEvent::Truncate => {
                self.rewritten |= self.folded > 0;
                self.folded = 0;
                self.messages.clear();
            }
        }
        Ok(())
    }

    /// How the stored base becomes what stands here.
    pub fn fold(&self) -> Fold<'_> {
        if self.rewritten { Fold::Rewrite(&self.messages) } else { Fold::Append(&self.messages[self.folded..]) }
    }

    /// The fold is stored.
    pub fn folded(&mut self) {
        self.folded = self.messages.len();
        self.rewritten = false;
    }

    /// Calls of the last messages that have no result, by id and name: what a cut-off turn may leave.
    pub fn unanswered_calls(&self) -> Vec<(String, String)> {
        let mut open: Vec<(String, String)> = Vec::new();
        for message in self.messages.iter().rev() {
            match message.data.role {
                Role::Assistant => {
                    open.extend(message.tool_calls().map(|call| (call.tool_call_id.clone(), call.tool_name.clone())));
                    break;
                }
                Role::Tool => return Vec::new(),
                Role::User | Role::System => {}
            }
        }
        open
    }

    // Edits point at recent messages: the search begins at the end.
    fn position(&self, id: &str) -> Option<usize> {
        self.messages.iter().rposition(|message| message.id == id)
    }

    fn find(&self, target_id: String) -> Result<usize, TargetNotFound> {
        self.position(&target_id).ok_or(TargetNotFound { target_id })
    }

    fn touch(&mut self, at: usize) {
        if at < self.folded {
            self.rewritten = true;
        }
    }
}

/// The outputs of all tool calls in `messages`, by call id; a later call with the same id wins.
pub fn results_by_call(messages: &[Arc<Message>]) -> HashMap<&str, &crate::message::ToolResultPart> {
    messages.iter().flat_map(|m| m.tool_results()).map(|result| (result.tool_call_id.as_str(), result)).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{MessageData, MessageSource, Part};

    fn message(id: &str, text: &str) -> Message {
        let content = vec![Part::Text { text: text.to_owned() }];
        Message {
            id: id.to_owned(),
            data: MessageData { role: Role::User, content },
            metadata: crate::JsonObject::new(),
            created_at: DateTime::UNIX_EPOCH,
            source: MessageSource::User,
        }
    }

    fn ids(conversation: &Conversation) -> Vec<&str> {
        conversation.messages().iter().map(|message| message.id.as_str()).collect()
    }

    fn stored(base: &[&str]) -> Conversation {
        let base = base.iter().map(|id| Arc::new(message(id, "b"))).collect();
        Conversation::restore(StoredConversation { base, ..StoredConversation::default() }).0
    }

    #[test]
    fn an_unknown_target_changes_nothing() {
        let mut conversation = stored(&["a"]);
        let missing = conversation.apply(MessageEvent::Remove { target_id: "x".into() });
        assert_eq!(missing, Err(TargetNotFound { target_id: "x".into() }));
        assert_eq!(ids(&conversation), ["a"]);
        assert!(matches!(conversation.fold(), Fold::Append([])));
    }

    #[test]
    fn only_new_messages_are_appended_to_the_base() {
        let mut conversation = stored(&["a", "b"]);
        conversation.apply(MessageEvent::Append { message: message("c", "") }).unwrap();
        conversation.apply(MessageEvent::Replace { target_id: "c".into(), message: message("d", "") }).unwrap();
        assert!(matches!(conversation.fold(), Fold::Append([new]) if new.id == "d"));
        conversation.apply(MessageEvent::Remove { target_id: "a".into() }).unwrap();
        assert!(matches!(conversation.fold(), Fold::Rewrite([b, d]) if b.id == "b" && d.id == "d"));
    }

    fn events() -> impl Strategy<Value = Vec<MessageEvent>> {
        let event = (0u8..8, 0u8..6).prop_map(|(what, id)| match what {
            0..=3 => MessageEvent::Append { message: message(&format!("m{id}"), "new") },
            4 | 5 => MessageEvent::Remove { target_id: format!("m{id}") },
            6 => MessageEvent::Replace { target_id: format!("m{id}"), message: message(&format!("r{id}"), "r") },
            _ => MessageEvent::Truncate,
        });
        proptest::collection::vec(event, 0..12).prop_map(with_fresh_ids)
    }

    fn with_fresh_ids(mut events: Vec<MessageEvent>) -> Vec<MessageEvent> {
        for (index, event) in events.iter_mut().enumerate() {
            match event {
                MessageEvent::Append { message } => message.id = format!("{}-{index}", message.id),
                MessageEvent::Replace { message, .. } => message.id = format!("{}-{index}", message.id),
                MessageEvent::Remove { .. } | MessageEvent::Truncate => {}
            }
        }
        events
    }

    proptest! {
        /// A fold that reached the disk while its events were not yet forgotten is folded again after a crash.
        #[test]
        fn folding_twice_comes_to_the_same(events in events()) {
            let base: Vec<Arc<Message>> = (0..4).map(|i| Arc::new(message(&format!("m{i}"), "b"))).collect();
            let restore = |base: Vec<Arc<Message>>| {
                let stored = StoredConversation { base, events: events.clone(), warnings: Vec::new() };
                Conversation::restore(stored).0
            };
            let once = restore(base);
            let twice = restore(once.messages().to_vec());
            prop_assert_eq!(ids(&once), ids(&twice));
        }
    }
}
