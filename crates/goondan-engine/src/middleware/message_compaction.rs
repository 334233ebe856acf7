//! `message-compaction`: when a conversation has become too large, its oldest messages give way to a summary.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::builtin::{ConfigProblem, decode};
use super::context::Question;
use super::summary::{self, Removed};
use super::trim::{Size, Trim, is_pinned};
use super::{Middleware, TurnNext};
use crate::tooling::registry::Catalog;
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessageEvent, Role};

pub(super) const NAME: &str = "message-compaction";

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    max_messages: NonZeroUsize,
    max_characters: NonZeroUsize,
    /// That many of the last messages stay where the limits can be kept without them.
    retain_last_messages: usize,
    mode: Mode,
    append_summary: bool,
    summary_by: SummaryBy,
    summary_prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Mode {
    /// The oldest messages go.
    Remove,
    /// All messages go.
    Truncate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SummaryBy {
    /// The agent's model writes what was said.
    Model,
    /// Only the numbers are told; the model is not asked.
    Plain,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_messages: NonZeroUsize::new(40).expect("40 is not zero"),
            max_characters: NonZeroUsize::new(12_000).expect("12,000 is not zero"),
            retain_last_messages: 8,
            mode: Mode::Remove,
            append_summary: true,
            summary_by: SummaryBy::Model,
            summary_prefix: "[message-compaction]".to_owned(),
        }
    }
}

impl Config {
    fn is_too_much(&self, size: Size) -> bool {
        size.messages > self.max_messages.get() || size.characters > self.max_characters.get()
    }

    fn asks_model(&self) -> bool {
        self.append_summary && self.summary_by == SummaryBy::Model
    }

    /// What a model may write: a quarter of what the conversation may hold.
    fn summary_limit(&self) -> usize {
        (self.max_characters.get() / 4).max(1)
    }

    /// The room that a summary takes at most.
    fn summary_room(&self) -> Size {
        match (self.append_summary, self.summary_by) {
            (false, _) => Size::default(),
            (true, SummaryBy::Plain) => Size {
                messages: 1,
                characters: summary::room(&self.summary_prefix),
            },
            (true, SummaryBy::Model) => Size {
                messages: 1,
                characters: summary::room(&self.summary_prefix) + self.summary_limit(),
            },
        }
    }
}

struct MessageCompaction {
    config: Config,
}

pub(super) fn make(
    config: JsonObject,
    _tools: &Catalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    Ok(Arc::new(MessageCompaction {
        config: decode(config)?,
    }))
}

/// The places of the messages that go; none where the conversation is small enough, or where only a summary would go.
fn outdated(
    config: &Config,
    messages: &[Arc<Message>],
    stays: impl Fn(&Message) -> bool,
) -> Vec<usize> {
    let mut trim = Trim::new(messages, stays);
    if !config.is_too_much(trim.left()) {
        return Vec::new();
    }
    let room = config.summary_room();
    let too_much = |mut left: Size| {
        left += room;
        config.is_too_much(left)
    };
    let retained = retained(messages, config.retain_last_messages);
    match config.mode {
        Mode::Truncate => trim.drop_oldest(0, |_| true),
        // The summary stands for everything that goes: the more goes at once, the more seldom the model is asked.
        Mode::Remove if config.asks_model() => trim.drop_oldest(retained, |_| true),
        Mode::Remove => trim.drop_oldest(retained, too_much),
    }
    trim.drop_orphans();
    if too_much(trim.left()) {
        trim.drop_oldest(0, too_much);
        trim.drop_leading_answers();
    }
    let gone = trim.gone();
    let only_summaries = gone
        .iter()
        .all(|index| summary::is_summary(&messages[*index]));
    if only_summaries { Vec::new() } else { gone }
}

/// At least the last `count` messages, and as many before them as it takes to begin with a question.
fn retained(messages: &[Arc<Message>], count: usize) -> usize {
    let mut start = messages.len().saturating_sub(count);
    while start > 0
        && messages
            .get(start)
            .is_some_and(|message| matches!(message.data.role, Role::Assistant | Role::Tool))
    {
        start -= 1;
    }
    messages.len() - start
}

impl MessageCompaction {
    async fn compact(&self, context: &mut TurnContext) -> Result<(), TurnError> {
        let messages = context.conversation().messages();
        let gone = outdated(&self.config, messages, |message| {
            is_pinned(message) || context.is_own(message)
        });
        let gone: Vec<Arc<Message>> = gone
            .into_iter()
            .map(|index| Arc::clone(&messages[index]))
            .collect();
        let mut targets = gone.iter().map(|message| message.id.clone());
        if self.config.append_summary
            && let Some(target_id) = targets.next()
        {
            let message = self.summary(context, &gone).await?;
            context
                .emit(MessageEvent::Replace { target_id, message })
                .await?;
        }
        for target_id in targets {
            context.emit(MessageEvent::Remove { target_id }).await?;
        }
        Ok(())
    }

    /// The message that takes the place of the first of the `gone` messages.
    async fn summary(
        &self,
        context: &mut TurnContext,
        gone: &[Arc<Message>],
    ) -> Result<Message, TurnError> {
        let removed = Removed::of(gone);
        let written = if self.config.asks_model() {
            self.written_by_model(context, gone).await?
        } else {
            None
        };
        let text = summary::text(&self.config.summary_prefix, &removed, written.as_deref());
        let metadata = summary::metadata(self.mode_name(), &removed, written.is_some());
        Ok(context.new_message(Role::System, NAME, &text, metadata))
    }

    /// `None` where the model fails or has nothing to say: a turn does not fail for want of a summary.
    async fn written_by_model(
        &self,
        context: &mut TurnContext,
        gone: &[Arc<Message>],
    ) -> Result<Option<String>, TurnError> {
        let limit = self.config.summary_limit();
        let question = Question {
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
                tracing::warn!(instance = %context.instance(), %error, "the model wrote no summary; only numbers are kept");
                Ok(None)
            }
        }
    }

    fn mode_name(&self) -> &'static str {
        match self.config.mode {
            Mode::Remove => "remove",
            Mode::Truncate => "truncate",
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

    fn config(max_messages: usize, retain_last_messages: usize, summary_by: SummaryBy) -> Config {
        let max_messages = NonZeroUsize::new(max_messages).unwrap();
        Config {
            max_messages,
            retain_last_messages,
            summary_by,
            ..Config::default()
        }
    }

    fn compacted(words: &str, config: &Config) -> String {
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
        let config = Config {
            mode: Mode::Truncate,
            ..config(4, 4, SummaryBy::Plain)
        };
        assert_eq!(compacted("u s! u a u", &config), "s!1 u4");
    }

    #[test]
    fn characters_count_like_messages() {
        let config = Config {
            max_characters: NonZeroUsize::new(30).unwrap(),
            append_summary: false,
            ..Config::default()
        };
        assert_eq!(
            compacted(
                "u a u a u",
                &Config {
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
            let mode = if truncate { Mode::Truncate } else { Mode::Remove };
            let config = Config { mode, ..config(max, retain, by) };
            let gone = outdated(&config, &messages, is_pinned);
            assert_pairs_are_whole(&messages, &gone);
            prop_assert!(gone.iter().all(|index| !is_pinned(&messages[*index])));
            let left: Vec<_> = (0..messages.len()).filter(|i| !gone.contains(i)).map(|i| Arc::clone(&messages[i])).collect();
            let mut rest = Trim::new(&left, is_pinned);
            rest.drop_oldest(0, |_| true);
            let with_summary = left.len() + usize::from(!gone.is_empty());
            prop_assert!(with_summary <= max || rest.gone().is_empty());
            prop_assert!(messages.len() > max || gone.is_empty());
        }
    }
}
