//! The conversation, as layers around turns and steps see it.

use serde_json::Value;

use crate::wire::News;

/// What was said before the turn began, and what has changed since then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    base: Vec<Value>,
    events: Vec<Value>,
}

impl Conversation {
    /// The messages when the turn began.
    pub fn base_messages(&self) -> &[Value] {
        &self.base
    }

    /// The changes since then: appends, replaces, removes and truncates.
    pub fn events(&self) -> &[Value] {
        &self.events
    }

    /// The messages now.
    pub fn next_messages(&self) -> Vec<Value> {
        let mut messages = self.base.clone();
        for event in &self.events {
            let target = event.get("targetId");
            let at = target.and_then(|id| messages.iter().position(|message| message.get("id") == Some(id)));
            let message = || event.get("message").cloned().unwrap_or_default();
            match (event.get("type").and_then(Value::as_str), at) {
                (Some("append"), _) => messages.push(message()),
                (Some("truncate"), _) => messages.clear(),
                (Some("replace"), Some(at)) => messages[at] = message(),
                (Some("remove"), Some(at)) => drop(messages.remove(at)),
                _ => {}
            }
        }
        messages
    }

    pub(super) fn hear(&mut self, news: News) {
        if let Some(base) = news.base {
            *self = Conversation { base, events: Vec::new() };
        }
        self.events.extend(news.events);
    }

    pub(super) fn push(&mut self, event: Value) {
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_laid_over_what_was_there() {
        let mut conversation = Conversation::default();
        let message = |id: &str| json!({"id": id});
        conversation.hear(News { base: Some(vec![message("a"), message("b")]), ..News::default() });
        let events = vec![
            json!({"type": "append", "message": message("c")}),
            json!({"type": "remove", "targetId": "a"}),
            json!({"type": "replace", "targetId": "b", "message": message("d")}),
            json!({"type": "remove", "targetId": "nobody"}),
        ];
        conversation.hear(News { events, ..News::default() });
        assert_eq!(conversation.next_messages(), [message("d"), message("c")]);
        conversation.push(json!({"type": "truncate"}));
        assert_eq!(conversation.next_messages(), [] as [Value; 0]);
        assert_eq!(conversation.base_messages().len(), 2);
    }
}
