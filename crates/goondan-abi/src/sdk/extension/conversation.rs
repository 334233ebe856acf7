//! The conversation as layers around turns and steps see it.

use serde_json::Value;

use crate::wire::{ConversationSplice, ConversationUpdate, SplicePart, ToolError};

/// The messages before the turn, and the changes since then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    base: Vec<Value>,
    events: Vec<Value>,
}

impl Conversation {
    /// Returns the messages at the beginning of the turn.
    pub fn base_messages(&self) -> &[Value] {
        &self.base
    }

    /// Returns the changes since then: append, replace, remove and truncate events.
    pub fn events(&self) -> &[Value] {
        &self.events
    }

    /// Returns the current messages.
    pub fn next_messages(&self) -> Vec<Value> {
        let mut messages = self.base.clone();
        self.events
            .iter()
            .for_each(|event| apply(&mut messages, event));
        messages
    }

    /// Applies news from the host.
    ///
    /// # Errors
    ///
    /// Fails if the news belongs to another conversation.
    pub(super) fn apply_news(&mut self, news: ConversationUpdate) -> Result<(), ToolError> {
        if let Some(base) = news.base {
            *self = Conversation {
                base,
                events: Vec::new(),
            };
        }
        if let Some(ConversationSplice { of, parts }) = news.splice {
            let mut known = std::mem::take(&mut self.base);
            std::mem::take(&mut self.events)
                .iter()
                .for_each(|event| apply(&mut known, event));
            let unlike =
                || ToolError::new("the conversation in the library differs from the one in gdn");
            if known.len() != of {
                return Err(unlike());
            }
            for part in parts {
                match part {
                    SplicePart::New(message) => self.base.push(message),
                    // Each message is used at most once, so it can be moved.
                    SplicePart::Known(from, to) => {
                        let copied = known.get_mut(from..to).ok_or_else(unlike)?;
                        self.base.extend(copied.iter_mut().map(Value::take));
                    }
                }
            }
        }
        self.events.extend(news.events);
        Ok(())
    }

    /// Appends a change to the conversation.
    pub(super) fn push(&mut self, event: Value) {
        self.events.push(event);
    }
}

/// Applies a change to messages.
fn apply(messages: &mut Vec<Value>, event: &Value) {
    let target = event.get("targetId");
    let at = target.and_then(|id| {
        messages
            .iter()
            .position(|message| message.get("id") == Some(id))
    });
    let message = || event.get("message").cloned().unwrap_or_default();
    match (event.get("type").and_then(Value::as_str), at) {
        (Some("append"), _) => messages.push(message()),
        (Some("truncate"), _) => messages.clear(),
        (Some("replace"), Some(at)) => messages[at] = message(),
        (Some("remove"), Some(at)) => drop(messages.remove(at)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_applied_to_the_base_messages() {
        let mut conversation = Conversation::default();
        let message = |id: &str| json!({"id": id});
        conversation
            .apply_news(ConversationUpdate {
                base: Some(vec![message("a"), message("b")]),
                ..ConversationUpdate::default()
            })
            .unwrap();
        let events = vec![
            json!({"type": "append", "message": message("c")}),
            json!({"type": "remove", "targetId": "a"}),
            json!({"type": "replace", "targetId": "b", "message": message("d")}),
            json!({"type": "remove", "targetId": "nobody"}),
        ];
        conversation
            .apply_news(ConversationUpdate {
                events,
                ..ConversationUpdate::default()
            })
            .unwrap();
        assert_eq!(conversation.next_messages(), [message("d"), message("c")]);
        conversation.push(json!({"type": "truncate"}));
        assert_eq!(conversation.next_messages(), [] as [Value; 0]);
        assert_eq!(conversation.base_messages().len(), 2);
    }

    #[test]
    fn a_splice_replaces_the_base_messages_and_clears_events() {
        let message = |id: &str| json!({"id": id});
        let mut conversation = Conversation::default();
        conversation
            .apply_news(ConversationUpdate {
                base: Some(vec![message("a"), message("b")]),
                ..ConversationUpdate::default()
            })
            .unwrap();
        let events = vec![json!({"type": "append", "message": message("c")})];
        conversation
            .apply_news(ConversationUpdate {
                events,
                ..ConversationUpdate::default()
            })
            .unwrap();
        let parts = || {
            vec![
                SplicePart::Known(0, 1),
                SplicePart::New(message("x")),
                SplicePart::New(message("y")),
                SplicePart::Known(2, 3),
            ]
        };
        let splice = |of| Some(ConversationSplice { of, parts: parts() });
        conversation
            .apply_news(ConversationUpdate {
                splice: splice(3),
                ..ConversationUpdate::default()
            })
            .unwrap();
        assert_eq!(
            conversation.base_messages(),
            ["a", "x", "y", "c"].map(message)
        );
        assert!(conversation.events().is_empty());
        assert!(
            conversation
                .apply_news(ConversationUpdate {
                    splice: splice(3),
                    ..ConversationUpdate::default()
                })
                .is_err()
        );
    }
}
