//! `message-window`: limits the number of messages at the start of a turn. The oldest messages are
//! removed permanently.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::builtin::{ConfigProblem, decode};
use super::trim::{ConversationTrim, is_pinned};
use super::{Middleware, TurnNext};
use crate::tooling::registry::ToolCatalog;
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessageEvent};

pub(super) const NAME: &str = "message-window";

const DEFAULT_MAX_MESSAGES: NonZeroUsize = NonZeroUsize::new(80).expect("80 is not zero");

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct MessageWindowConfig {
    max_messages: NonZeroUsize,
}

impl Default for MessageWindowConfig {
    fn default() -> Self {
        MessageWindowConfig {
            max_messages: DEFAULT_MAX_MESSAGES,
        }
    }
}

struct MessageWindow {
    max_messages: usize,
}

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    _tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    let config: MessageWindowConfig = decode(config)?;
    Ok(Arc::new(MessageWindow {
        max_messages: config.max_messages.get(),
    }))
}

/// Returns the indexes of the messages to remove.
fn indexes_outside(
    messages: &[Arc<Message>],
    max_messages: usize,
    stays: impl Fn(&Message) -> bool,
) -> Vec<usize> {
    let mut trim = ConversationTrim::new(messages, stays);
    trim.drop_orphans();
    if trim.remaining_size().messages > max_messages {
        trim.drop_oldest(0, |size| size.messages > max_messages);
        trim.drop_leading_answers();
    }
    trim.removed_indexes()
}

#[async_trait]
impl Middleware for MessageWindow {
    fn name(&self) -> &str {
        NAME
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let messages = context.conversation().messages();
        let removed = indexes_outside(messages, self.max_messages, |message| {
            is_pinned(message) || context.is_own(message)
        });
        let targets: Vec<String> = removed
            .into_iter()
            .map(|index| messages[index].id.clone())
            .collect();
        for target_id in targets {
            context.emit(MessageEvent::Remove { target_id }).await?;
        }
        next.run(context).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::trim::testing::{
        assert_pairs_are_whole, conversation, conversations, remaining_ids,
    };
    use super::*;

    fn ids_in_window(kinds: &str, max_messages: usize) -> String {
        let messages = conversation(kinds);
        let removed = indexes_outside(&messages, max_messages, is_pinned);
        remaining_ids(&messages, &removed)
    }

    #[test]
    fn the_oldest_messages_are_removed() {
        assert_eq!(ids_in_window("u a u a u", 3), "u2 a3 u4");
        assert_eq!(ids_in_window("u a u a u", 5), "u0 a1 u2 a3 u4");
    }

    #[test]
    fn a_tool_call_is_removed_with_its_result() {
        assert_eq!(ids_in_window("u c r a u", 4), "u4");
        assert_eq!(ids_in_window("u a u c r a u", 5), "u2 c3 r4 a5 u6");
    }

    #[test]
    fn a_window_does_not_begin_with_a_model_answer() {
        assert_eq!(ids_in_window("u a u a u", 4), "u2 a3 u4");
    }

    #[test]
    fn pinned_messages_and_the_call_of_a_pinned_result_stay() {
        assert_eq!(ids_in_window("s! u a u", 2), "s!0 u3");
        assert_eq!(ids_in_window("u c r! a u", 1), "c1 r!2");
    }

    #[test]
    fn a_result_without_a_call_is_removed_below_the_limit() {
        assert_eq!(ids_in_window("r u a", 10), "u1 a2");
    }

    proptest! {
        #[test]
        fn a_window_respects_the_limit_and_keeps_call_result_pairs(messages in conversations(), max in 1usize..20) {
            let removed = indexes_outside(&messages, max, is_pinned);
            assert_pairs_are_whole(&messages, &removed);
            let is_removed = |index: &usize| removed.contains(index);
            let mut removed_indexes = (0..messages.len()).filter(is_removed);
            prop_assert!(removed_indexes.all(|index| !is_pinned(&messages[index])));
            let left: Vec<_> = (0..messages.len()).filter(|index| !is_removed(index)).map(|i| Arc::clone(&messages[i])).collect();
            let only_protected_messages = {
                let mut remaining = ConversationTrim::new(&left, is_pinned);
                remaining.drop_oldest(0, |_| true);
                remaining.removed_indexes().is_empty()
            };
            prop_assert!(left.len() <= max || only_protected_messages);
            prop_assert_eq!(indexes_outside(&left, max, is_pinned), Vec::<usize>::new());
        }
    }
}
