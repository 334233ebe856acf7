//! `message-compaction`: replaces the oldest messages with a summary when a conversation becomes
//! too large for the context window of the model. With a summary, the original messages stay in
//! the store.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::builtin::{ConfigProblem, decode};
use super::compaction_config::{CompactionConfig, CompactionMode, ContextShare};
use super::context::ModelQuery;
use super::summary::{self, RemovedMessages};
use super::trim::{ConversationSize, ConversationTrim, is_pinned};
use super::{Middleware, StepNext, TurnNext};
use crate::tooling::registry::ToolCatalog;
use crate::turn::context_usage::{self, CHARACTERS_PER_TOKEN};
use crate::turn::model_call::turn_error;
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome, store_failure_error};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessageEvent, MessageRole};
use goondan_core::ports::store::update;
use goondan_core::reserved_names::COMPACTED_RECORD_PREFIX;
use goondan_spec::Code;

pub(super) const NAME: &str = "message-compaction";

/// Minimum limit on a conversation in characters, if prompt and tools fill the context window.
const MIN_CONVERSATION_CHARS: usize = 4_000;

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

/// Compacts all messages with the default config.
pub(super) async fn compact_by_default(context: &mut TurnContext) -> Result<(), TurnError> {
    let config = CompactionConfig::default();
    let middleware = MessageCompaction { config };
    middleware.compact_all(context).await.map(drop)
}

/// Returns the indexes of the messages to remove. Empty if the conversation is small enough, or if
/// only summaries would be removed.
fn outdated_indexes(
    config: &CompactionConfig,
    messages: &[Arc<Message>],
    cause: CompactionCause,
    stays: impl Fn(&Message) -> bool,
) -> Vec<usize> {
    let mut trim = ConversationTrim::new(messages, stays);
    if cause == CompactionCause::Request {
        trim.drop_oldest(0, |_| true);
        trim.drop_orphans();
        return without_only_summaries(messages, trim.removed_indexes());
    }
    if !config.is_too_much(trim.remaining_size()) {
        return Vec::new();
    }
    let room = config.summary_room();
    let is_too_much = |mut size: ConversationSize| {
        size += room;
        config.is_too_much(size)
    };
    let is_start = cause == CompactionCause::TurnStart;
    let retained = if is_start {
        retained_count(messages, config.retain_last_messages)
    } else {
        // Within a turn, the input can be many messages ago. It stays in any case.
        config.retain_last_messages
    };
    match config.mode {
        CompactionMode::Truncate => trim.drop_oldest(0, |_| true),
        // Removing more messages at once reduces the number of model calls.
        CompactionMode::Remove if config.asks_model() => trim.drop_oldest(retained, |_| true),
        CompactionMode::Remove => trim.drop_oldest(retained, is_too_much),
    }
    trim.drop_orphans();
    if !is_start {
        trim.drop_leading_answers();
    }
    if is_too_much(trim.remaining_size()) {
        trim.drop_oldest(0, is_too_much);
        trim.drop_leading_answers();
    }
    without_only_summaries(messages, trim.removed_indexes())
}

/// Returns `removed`, or nothing if all of these messages are summaries.
fn without_only_summaries(messages: &[Arc<Message>], removed: Vec<usize>) -> Vec<usize> {
    let only_summaries = removed
        .iter()
        .all(|index| summary::is_summary(&messages[*index]));
    if only_summaries { Vec::new() } else { removed }
}

/// Returns the number of last messages to keep: at least `count`, extended to begin with a user
/// message.
fn retained_count(messages: &[Arc<Message>], count: usize) -> usize {
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

/// Reason for a compaction; decides which messages of the running turn stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompactionCause {
    /// The turn begins.
    TurnStart,
    /// Before the model call of a step.
    Step(u32),
    /// The provider refused the conversation of a step as too long.
    Overflow(u32),
    /// A user requested a compaction of all messages.
    Request,
}

impl CompactionCause {
    /// Returns the purpose of the summary call. Unique in a turn, because the call is journaled.
    fn purpose(self) -> String {
        match self {
            CompactionCause::TurnStart => "summary".to_owned(),
            CompactionCause::Step(index) => format!("summary-{index}"),
            CompactionCause::Overflow(index) => format!("summary-overflow-{index}"),
            CompactionCause::Request => "summary-request".to_owned(),
        }
    }
}

/// Tokens of a request in addition to a quarter of the characters of its conversation: the system
/// prompt and the tools, and the difference to the provider's count. `None` before the provider has
/// reported its first count in the turn.
#[derive(Default)]
struct RequestOverhead(Option<i64>);

/// Returns the size of the conversation.
fn size(context: &TurnContext) -> ConversationSize {
    let messages = context.conversation().messages().iter();
    messages
        .map(|message| ConversationSize::from_message(message))
        .sum()
}

/// Returns the approximate number of tokens of a text.
fn tokens(characters: usize) -> i64 {
    i64::try_from(characters / CHARACTERS_PER_TOKEN).unwrap_or(i64::MAX)
}

/// Returns a number of tokens that can become negative.
fn to_tokens(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Returns the maximum length of the transcript for a summary: half of the context window.
fn transcript_limit(context: &TurnContext) -> usize {
    let window = usize::try_from(context.agent().context_window()).unwrap_or(usize::MAX);
    window.saturating_mul(CHARACTERS_PER_TOKEN) / 2
}

/// Returns true for an input or a note; false for the work of the model and for summaries.
fn is_input(message: &Message) -> bool {
    let is_work = matches!(
        message.data.role,
        MessageRole::Assistant | MessageRole::Tool
    );
    !is_work && !summary::is_summary(message)
}

/// Returns the ids of the last answer with calls and of everything after it: the model has not read
/// these results.
fn open_calls(messages: &[Arc<Message>]) -> HashSet<&str> {
    let start = messages
        .iter()
        .rposition(|message| message.data.role == MessageRole::Assistant);
    let is_open = |start: &usize| messages[*start].tool_calls().next().is_some();
    let open_messages = start
        .filter(is_open)
        .map_or(&[][..], |start| &messages[start..]);
    open_messages
        .iter()
        .map(|message| message.id.as_str())
        .collect()
}

/// Stores the messages that a summary replaces.
async fn keep_original(
    context: &TurnContext,
    summary_id: &str,
    messages: &[Arc<Message>],
) -> Result<(), TurnError> {
    let name = format!("{COMPACTED_RECORD_PREFIX}{summary_id}");
    let original = json!(
        messages
            .iter()
            .map(|message| &**message)
            .collect::<Vec<_>>()
    );
    // A resumed turn has stored them already.
    let change = |stored: Option<Value>| stored.is_none().then(|| original.clone());
    update(&*context.engine.store, context.instance(), &name, change)
        .await
        .map_err(|error| store_failure_error(&error))
}

impl MessageCompaction {
    /// Removes outdated messages, or replaces them by a summary. Returns true if it removed any.
    async fn compact_conversation(
        &self,
        context: &mut TurnContext,
        config: &CompactionConfig,
        cause: CompactionCause,
    ) -> Result<bool, TurnError> {
        let messages = context.conversation().messages();
        let open_messages = open_calls(messages);
        let outdated_messages = outdated_indexes(config, messages, cause, |message| {
            is_pinned(message)
                || context.is_own(message)
                    && (cause == CompactionCause::TurnStart || is_input(message))
                || open_messages.contains(message.id.as_str())
        });
        let mut outdated_messages: Vec<Arc<Message>> = outdated_messages
            .into_iter()
            .map(|index| Arc::clone(&messages[index]))
            .collect();
        if outdated_messages.is_empty() {
            return Ok(false);
        }
        if config.append_summary {
            let message = self
                .summary(context, config, cause, &outdated_messages)
                .await?;
            keep_original(context, &message.id, &outdated_messages).await?;
            // Within a turn, the input comes before the work that the summary describes.
            let at = match cause {
                CompactionCause::TurnStart | CompactionCause::Request => 0,
                _ => outdated_messages.len() - 1,
            };
            let target_id = outdated_messages.remove(at).id.clone();
            context
                .emit(MessageEvent::Replace { target_id, message })
                .await?;
        }
        for message in &outdated_messages {
            let target_id = message.id.clone();
            context.emit(MessageEvent::Remove { target_id }).await?;
        }
        Ok(true)
    }

    /// Returns the message that replaces one of the `gone` messages.
    async fn summary(
        &self,
        context: &mut TurnContext,
        config: &CompactionConfig,
        cause: CompactionCause,
        gone: &[Arc<Message>],
    ) -> Result<Message, TurnError> {
        let removed = RemovedMessages::from_messages(gone);
        let written = if config.asks_model() {
            self.written_by_model(context, config, cause, gone).await?
        } else {
            None
        };
        let text = summary::text(&config.summary_prefix, &removed, written.as_deref());
        let metadata = summary::metadata(self.mode_name(), &removed, written.is_some());
        Ok(context.new_message(MessageRole::System, NAME, &text, metadata))
    }

    /// Returns `None` if the model fails or returns no text: a turn must not fail because of a
    /// missing summary. A compaction on request fails instead, so that no message is lost.
    async fn written_by_model(
        &self,
        context: &mut TurnContext,
        config: &CompactionConfig,
        cause: CompactionCause,
        gone: &[Arc<Message>],
    ) -> Result<Option<String>, TurnError> {
        let limit = config.summary_limit();
        let purpose = cause.purpose();
        let question = ModelQuery {
            extension: NAME,
            purpose: &purpose,
            instructions: summary::instructions(limit),
            text: summary::transcript(gone, transcript_limit(context)),
        };
        match context.ask_model(question).await? {
            Ok(text) if text.trim().is_empty() && cause == CompactionCause::Request => {
                let message = "The model wrote no summary. The conversation is unchanged.";
                Err(TurnError::new(Code::MODEL_EMPTY, message))
            }
            Err(error) if cause == CompactionCause::Request => Err(turn_error(error)),
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

    /// Returns the number of characters that the conversation may have within the share of the
    /// context window; `None` without a limit.
    fn character_limit(&self, context: &mut TurnContext, tools: &ToolCatalog) -> Option<usize> {
        let ContextShare(share) = self.config.context_share;
        if share == 0.0 {
            return None;
        }
        let window = context.agent().context_window() as f64 * share;
        let overhead = match context.note::<RequestOverhead>().0 {
            Some(overhead) => overhead,
            None => context_usage::overhead(context.agent(), tools),
        };
        let characters_left =
            usize::try_from((window as i64).saturating_sub(overhead)).unwrap_or_default();
        let characters = characters_left.saturating_mul(CHARACTERS_PER_TOKEN);
        Some(characters.max(MIN_CONVERSATION_CHARS))
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
        let tools = context.agent().catalog.clone();
        let limit = self.character_limit(context, &tools);
        let config = self.config.with_character_limit(limit);
        self.compact_conversation(context, &config, CompactionCause::TurnStart)
            .await?;
        next.run(context).await
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        let (index, tools) = (context.index, context.catalog.clone());
        let turn = context.turn();
        let mut now = size(turn);
        // The first step follows the compaction at the start of the turn.
        if index > 0
            && let Some(limit) = self.character_limit(turn, &tools)
        {
            let config = self.config.with_only_character_limit(limit);
            if config.is_too_much(now)
                && self
                    .compact_conversation(turn, &config, CompactionCause::Step(index))
                    .await?
            {
                now = size(turn);
            }
        }
        let outcome = next.run(context).await?;
        if let Some(usage) = outcome.usage {
            // The tokens of the request beyond its messages. After a compaction inside of the step,
            // the difference is wrong until the next step.
            let note = context.turn().note::<RequestOverhead>();
            note.0 = Some(to_tokens(usage.prompt_tokens) - tokens(now.characters));
        }
        Ok(outcome)
    }

    async fn shorten_conversation(
        &self,
        context: &mut TurnContext,
        step: u32,
    ) -> Result<bool, TurnError> {
        let config = self
            .config
            .with_only_character_limit(size(context).characters / 2);
        self.compact_conversation(context, &config, CompactionCause::Overflow(step))
            .await
    }

    async fn compact_all(&self, context: &mut TurnContext) -> Result<bool, TurnError> {
        self.compact_conversation(context, &self.config, CompactionCause::Request)
            .await?;
        // Handled, even if there was nothing to remove.
        Ok(true)
    }
}

/// Compacts all messages with the agent's `message-compaction`, or with its default config.
pub(crate) async fn compact_conversation(context: &mut TurnContext) -> Result<(), TurnError> {
    let layers = Arc::clone(&context.facts.layers);
    for middleware in layers.turn.iter() {
        if middleware.compact_all(context).await? {
            return Ok(());
        }
    }
    compact_by_default(context).await
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::super::compaction_config::SummaryBy;
    use super::super::trim::testing::{
        assert_pairs_are_whole, conversation, conversations, remaining_ids,
    };
    use super::*;

    fn config(
        max_messages: usize,
        retain_last_messages: usize,
        summary_by: SummaryBy,
    ) -> CompactionConfig {
        CompactionConfig {
            max_messages: NonZeroUsize::new(max_messages),
            retain_last_messages,
            summary_by,
            ..CompactionConfig::default()
        }
    }

    fn compact(kinds: &str, config: &CompactionConfig) -> String {
        let messages = conversation(kinds);
        let last = messages.last().map(|message| message.id.clone());
        let removed = outdated_indexes(config, &messages, CompactionCause::TurnStart, |message| {
            is_pinned(message) || Some(&message.id) == last.as_ref()
        });
        remaining_ids(&messages, &removed)
    }

    #[test]
    fn nothing_is_removed_within_both_limits() {
        assert_eq!(
            compact("u a u a u", &config(5, 0, SummaryBy::Plain)),
            "u0 a1 u2 a3 u4"
        );
    }

    #[test]
    fn a_plain_summary_replaces_as_few_messages_as_possible() {
        assert_eq!(
            compact("u a u a u", &config(4, 2, SummaryBy::Plain)),
            "u2 a3 u4"
        );
    }

    #[test]
    fn a_model_summary_replaces_all_but_the_retained_messages() {
        assert_eq!(
            compact("u a u a u a u a u", &config(8, 1, SummaryBy::Model)),
            "u8"
        );
        assert_eq!(
            compact("u a u a u a u a u", &config(8, 3, SummaryBy::Model)),
            "u6 a7 u8"
        );
    }

    #[test]
    fn retained_messages_begin_with_a_user_message() {
        assert_eq!(
            compact("u a u c r a u", &config(6, 2, SummaryBy::Model)),
            "u2 c3 r4 a5 u6"
        );
    }

    #[test]
    fn retained_messages_are_removed_when_the_limits_require_it() {
        assert_eq!(compact("u c r a u", &config(3, 4, SummaryBy::Plain)), "u4");
    }

    #[test]
    fn truncate_keeps_only_the_protected_messages() {
        let config = CompactionConfig {
            mode: CompactionMode::Truncate,
            ..config(4, 4, SummaryBy::Plain)
        };
        assert_eq!(compact("u s! u a u", &config), "s!1 u4");
    }

    #[test]
    fn the_character_limit_removes_messages_like_the_message_limit() {
        let config = CompactionConfig {
            max_characters: NonZeroUsize::new(30),
            append_summary: false,
            ..CompactionConfig::default()
        };
        assert_eq!(
            compact(
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
        fn compaction_respects_the_limit_and_keeps_call_result_pairs(
            messages in conversations(),
            max in 2usize..20,
            retain in 0usize..6,
            model in any::<bool>(),
            truncate in any::<bool>(),
            step in any::<bool>(),
        ) {
            let summary_by = if model { SummaryBy::Model } else { SummaryBy::Plain };
            let mode = if truncate { CompactionMode::Truncate } else { CompactionMode::Remove };
            let config = CompactionConfig { mode, ..config(max, retain, summary_by) };
            let cause = if step { CompactionCause::Step(1) } else { CompactionCause::TurnStart };
            let removed = outdated_indexes(&config, &messages, cause, is_pinned);
            assert_pairs_are_whole(&messages, &removed);
            prop_assert!(removed.iter().all(|index| !is_pinned(&messages[*index])));
            let left: Vec<_> = (0..messages.len()).filter(|i| !removed.contains(i)).map(|i| Arc::clone(&messages[i])).collect();
            let mut remaining = ConversationTrim::new(&left, is_pinned);
            remaining.drop_oldest(0, |_| true);
            let with_summary = left.len() + usize::from(!removed.is_empty());
            prop_assert!(with_summary <= max || remaining.removed_indexes().is_empty());
            prop_assert!(messages.len() > max || removed.is_empty());
        }
    }
}
