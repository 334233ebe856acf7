//! `message-compaction`: replaces the oldest messages with a summary when a conversation becomes
//! too large.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::builtin::{ConfigProblem, decode};
use super::context::ModelQuery;
use super::summary::{self, RemovedMessages};
use super::trim::{ConversationSize, ConversationTrim, is_pinned};
use super::{Middleware, TurnNext};
use crate::tooling::registry::ToolCatalog;
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessageEvent, MessageRole};

pub(super) const NAME: &str = "message-compaction";

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CompactionConfig {
    max_messages: NonZeroUsize,
    max_characters: NonZeroUsize,
    /// Number of last messages to keep, unless the limits require removing them.
    retain_last_messages: usize,
    mode: CompactionMode,
    append_summary: bool,
    summary_by: SummaryBy,
    summary_prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CompactionMode {
    /// Removes the oldest messages.
    Remove,
    /// Removes all messages.
    Truncate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SummaryBy {
    /// The agent's model writes the summary.
    Model,
    /// The summary only contains the number of messages; no model call.
    Plain,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        CompactionConfig {
            max_messages: NonZeroUsize::new(40).expect("40 is not zero"),
            max_characters: NonZeroUsize::new(12_000).expect("12,000 is not zero"),
            retain_last_messages: 8,
            mode: CompactionMode::Remove,
            append_summary: true,
            summary_by: SummaryBy::Model,
            summary_prefix: "[message-compaction]".to_owned(),
        }
    }
}

impl CompactionConfig {
    /// Returns `true` if a conversation of this size must be compacted.
    fn is_too_much(&self, size: ConversationSize) -> bool {
        size.messages > self.max_messages.get() || size.characters > self.max_characters.get()
    }

    /// Returns `true` if a model writes the summary.
    fn asks_model(&self) -> bool {
        self.append_summary && self.summary_by == SummaryBy::Model
    }

    /// Returns the length limit of a model summary: a quarter of `max_characters`.
    fn summary_limit(&self) -> usize {
        (self.max_characters.get() / 4).max(1)
    }

    /// Returns the maximum size of a summary.
    fn summary_room(&self) -> ConversationSize {
        match (self.append_summary, self.summary_by) {
            (false, _) => ConversationSize::default(),
            (true, SummaryBy::Plain) => ConversationSize {
                messages: 1,
                characters: summary::room(&self.summary_prefix),
            },
            (true, SummaryBy::Model) => ConversationSize {
                messages: 1,
                characters: summary::room(&self.summary_prefix) + self.summary_limit(),
            },
        }
    }
}

struct MessageCompaction {
    config: CompactionConfig,
}

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    _tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    Ok(Arc::new(MessageCompaction {
        config: decode(config)?,
    }))
}

/// Returns the indexes of the messages to remove. Empty if the conversation is small enough, or if
/// only summaries would be removed.
fn outdated(
    config: &CompactionConfig,
    messages: &[Arc<Message>],
    stays: impl Fn(&Message) -> bool,
) -> Vec<usize> {
    let mut trim = ConversationTrim::new(messages, stays);
    if !config.is_too_much(trim.left()) {
        return Vec::new();
    }
    let room = config.summary_room();
    let too_much = |mut size: ConversationSize| {
        size += room;
        config.is_too_much(size)
    };
    let retained = retained(messages, config.retain_last_messages);
    match config.mode {
        CompactionMode::Truncate => trim.drop_oldest(0, |_| true),
        // Removing more messages at once reduces the number of model calls.
        CompactionMode::Remove if config.asks_model() => trim.drop_oldest(retained, |_| true),
        CompactionMode::Remove => trim.drop_oldest(retained, too_much),
    }
    trim.drop_orphans();
    if too_much(trim.left()) {
        trim.drop_oldest(0, too_much);
        trim.drop_leading_answers();
    }
    let removed = trim.gone();
    let only_summaries = removed
        .iter()
        .all(|index| summary::is_summary(&messages[*index]));
    if only_summaries { Vec::new() } else { removed }
}

/// Returns the number of last messages to keep: at least `count`, extended to begin with a user
/// message.
fn retained(messages: &[Arc<Message>], count: usize) -> usize {
    let mut start = messages.len().saturating_sub(count);
    while start > 0
        && messages.get(start).is_some_and(|message| {
            matches!(
                message.data.role,
                MessageRole::Assistant | MessageRole::Tool
            )
        })
    {
        start -= 1;
    }
    messages.len() - start
}

impl MessageCompaction {
    /// Removes outdated messages, or replaces them by a summary.
    async fn compact(&self, context: &mut TurnContext) -> Result<(), TurnError> {
        let messages = context.conversation().messages();
        let outdated_messages = outdated(&self.config, messages, |message| {
            is_pinned(message) || context.is_own(message)
        });
        let outdated_messages: Vec<Arc<Message>> = outdated_messages
            .into_iter()
            .map(|index| Arc::clone(&messages[index]))
            .collect();
        let mut targets = outdated_messages.iter().map(|message| message.id.clone());
        if self.config.append_summary
            && let Some(target_id) = targets.next()
        {
            let message = self.summary(context, &outdated_messages).await?;
            context
                .emit(MessageEvent::Replace { target_id, message })
                .await?;
        }
        for target_id in targets {
            context.emit(MessageEvent::Remove { target_id }).await?;
        }
        Ok(())
    }

    /// Returns the message that replaces the first of the `gone` messages.
    async fn summary(
        &self,
        context: &mut TurnContext,
        gone: &[Arc<Message>],
    ) -> Result<Message, TurnError> {
        let removed = RemovedMessages::of(gone);
        let written = if self.config.asks_model() {
            self.written_by_model(context, gone).await?
        } else {
            None
        };
        let text = summary::text(&self.config.summary_prefix, &removed, written.as_deref());
        let metadata = summary::metadata(self.mode_name(), &removed, written.is_some());
        Ok(context.new_message(MessageRole::System, NAME, &text, metadata))
    }

    /// Returns `None` if the model fails or returns no text: a turn must not fail because of a
    /// missing summary.
    async fn written_by_model(
        &self,
        context: &mut TurnContext,
        gone: &[Arc<Message>],
    ) -> Result<Option<String>, TurnError> {
        let limit = self.config.summary_limit();
        let question = ModelQuery {
            extension: NAME,
            purpose: "summary",
            instructions: summary::instructions(limit),
            text: summary::transcript(gone),
        };
        match context.ask_model(question).await? {
            Ok(text) if text.trim().is_empty() => Ok(None),
            Ok(text) => Ok(Some(
                goondan_core::limits::head(text.trim(), limit).to_owned(),
            )),
            Err(error) => {
                tracing::warn!(instance = %context.instance(), %error, "the model wrote no \
                    summary; the summary contains only the number of messages");
                Ok(None)
            }
        }
    }

    /// Returns the mode as in the config.
    fn mode_name(&self) -> &'static str {
        match self.config.mode {
            CompactionMode::Remove => "remove",
            CompactionMode::Truncate => "truncate",
        }
    }
}

#[async_trait]
impl Middleware for MessageCompaction {
    fn name(&self) -> &str {
        NAME
    }

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        self.compact(context).await?;
        next.run(context).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::trim::testing::{assert_pairs_are_whole, conversation, conversations, kept};
    use super::*;

    fn config(
        max_messages: usize,
        retain_last_messages: usize,
        summary_by: SummaryBy,
    ) -> CompactionConfig {
        let max_messages = NonZeroUsize::new(max_messages).unwrap();
        CompactionConfig {
            max_messages,
            retain_last_messages,
            summary_by,
            ..CompactionConfig::default()
        }
    }

    fn compacted(words: &str, config: &CompactionConfig) -> String {
        let messages = conversation(words);
        let last = messages.last().map(|message| message.id.clone());
        let gone = outdated(config, &messages, |message| {
            is_pinned(message) || Some(&message.id) == last.as_ref()
        });
        kept(&messages, &gone)
    }

    #[test]
    fn nothing_goes_while_both_limits_hold() {
        assert_eq!(
            compacted("u a u a u", &config(5, 0, SummaryBy::Plain)),
            "u0 a1 u2 a3 u4"
        );
    }

    #[test]
    fn a_plain_summary_takes_the_place_of_as_little_as_possible() {
        assert_eq!(
            compacted("u a u a u", &config(4, 2, SummaryBy::Plain)),
            "u2 a3 u4"
        );
    }

    #[test]
    fn a_written_summary_takes_the_place_of_all_but_the_last() {
        assert_eq!(
            compacted("u a u a u a u a u", &config(8, 1, SummaryBy::Model)),
            "u8"
        );
        assert_eq!(
            compacted("u a u a u a u a u", &config(8, 3, SummaryBy::Model)),
            "u6 a7 u8"
        );
    }

    #[test]
    fn what_is_retained_begins_with_a_question() {
        assert_eq!(
            compacted("u a u c r a u", &config(6, 2, SummaryBy::Model)),
            "u2 c3 r4 a5 u6"
        );
    }

    #[test]
    fn what_is_retained_goes_where_the_limits_need_it() {
        assert_eq!(
            compacted("u c r a u", &config(3, 4, SummaryBy::Plain)),
            "u4"
        );
    }

    #[test]
    fn truncate_leaves_only_what_must_stay() {
        let config = CompactionConfig {
            mode: CompactionMode::Truncate,
            ..config(4, 4, SummaryBy::Plain)
        };
        assert_eq!(compacted("u s! u a u", &config), "s!1 u4");
    }

    #[test]
    fn characters_count_like_messages() {
        let config = CompactionConfig {
            max_characters: NonZeroUsize::new(30).unwrap(),
            append_summary: false,
            ..CompactionConfig::default()
        };
        assert_eq!(
            compacted(
                "u a u a u",
                &CompactionConfig {
                    retain_last_messages: 0,
                    ..config
                }
            ),
            "u2 a3 u4"
        );
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_pairs_stay_whole(
            messages in conversations(),
            max in 2usize..20,
            retain in 0usize..6,
            model in any::<bool>(),
            truncate in any::<bool>(),
        ) {
            let by = if model { SummaryBy::Model } else { SummaryBy::Plain };
            let mode = if truncate { CompactionMode::Truncate } else { CompactionMode::Remove };
            let config = CompactionConfig { mode, ..config(max, retain, by) };
            let gone = outdated(&config, &messages, is_pinned);
            assert_pairs_are_whole(&messages, &gone);
            prop_assert!(gone.iter().all(|index| !is_pinned(&messages[*index])));
            let left: Vec<_> = (0..messages.len()).filter(|i| !gone.contains(i)).map(|i| Arc::clone(&messages[i])).collect();
            let mut rest = ConversationTrim::new(&left, is_pinned);
            rest.drop_oldest(0, |_| true);
            let with_summary = left.len() + usize::from(!gone.is_empty());
            prop_assert!(with_summary <= max || rest.gone().is_empty());
            prop_assert!(messages.len() > max || gone.is_empty());
        }
    }
}
