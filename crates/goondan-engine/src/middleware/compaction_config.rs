//! Config of the extension `message-compaction`, with its limits and defaults.

use std::num::NonZeroUsize;

use serde::Deserialize;

use super::summary;
use super::trim::ConversationSize;

/// Maximum length of a summary in characters.
const MAX_SUMMARY_CHARS: usize = 8_000;

/// Share of a context window, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct ContextShare(pub(super) f64);

impl TryFrom<f64> for ContextShare {
    type Error = &'static str;

    fn try_from(share: f64) -> Result<Self, Self::Error> {
        if (0.0..=1.0).contains(&share) {
            Ok(ContextShare(share))
        } else {
            Err("it must be a number from 0 to 1")
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CompactionConfig {
    pub(super) max_messages: Option<NonZeroUsize>,
    pub(super) max_characters: Option<NonZeroUsize>,
    /// Share of the context window that the conversation may fill; 0: no limit.
    pub(super) context_share: ContextShare,
    /// Number of last messages to keep, unless the limits require removing them.
    pub(super) retain_last_messages: usize,
    pub(super) mode: CompactionMode,
    pub(super) append_summary: bool,
    pub(super) summary_by: SummaryBy,
    pub(super) summary_prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CompactionMode {
    /// Removes the oldest messages.
    Remove,
    /// Removes all messages.
    Truncate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SummaryBy {
    /// The agent's model writes the summary.
    Model,
    /// The summary only contains the number of messages; no model call.
    Plain,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        CompactionConfig {
            max_messages: None,
            max_characters: None,
            context_share: ContextShare(0.8),
            retain_last_messages: 8,
            mode: CompactionMode::Remove,
            append_summary: true,
            summary_by: SummaryBy::Model,
            summary_prefix: "[message-compaction]".to_owned(),
        }
    }
}

impl CompactionConfig {
    /// Returns true if a conversation of this size must be compacted.
    pub(super) fn is_too_much(&self, size: ConversationSize) -> bool {
        let exceeds = |size: usize, limit: Option<NonZeroUsize>| {
            limit.is_some_and(|limit| size > limit.get())
        };
        exceeds(size.messages, self.max_messages) || exceeds(size.characters, self.max_characters)
    }

    /// Returns the config with `characters` as a further limit. The lower limit applies.
    pub(super) fn with_character_limit(&self, characters: Option<usize>) -> Self {
        // `limit` can be 0, which the field cannot hold. One character more makes no difference.
        let characters = characters.map(|limit| NonZeroUsize::MIN.saturating_add(limit));
        CompactionConfig {
            max_characters: [self.max_characters, characters]
                .into_iter()
                .flatten()
                .min(),
            ..self.clone()
        }
    }

    /// Returns the config with only a limit on characters.
    pub(super) fn with_only_character_limit(&self, characters: usize) -> Self {
        CompactionConfig {
            max_messages: None,
            max_characters: None,
            ..self.clone()
        }
        .with_character_limit(Some(characters))
    }

    /// Returns true if a model writes the summary.
    pub(super) fn asks_model(&self) -> bool {
        self.append_summary && self.summary_by == SummaryBy::Model
    }

    /// Returns the length limit of a model summary: a quarter of `max_characters`, at most
    /// [`MAX_SUMMARY_CHARS`].
    pub(super) fn summary_limit(&self) -> usize {
        let quarter = self.max_characters.map(|limit| (limit.get() / 4).max(1));
        quarter.unwrap_or(MAX_SUMMARY_CHARS).min(MAX_SUMMARY_CHARS)
    }

    /// Returns the maximum size of a summary.
    pub(super) fn summary_room(&self) -> ConversationSize {
        match (self.append_summary, self.summary_by) {
            (false, _) => ConversationSize::default(),
            (true, SummaryBy::Plain) => ConversationSize {
                messages: 1,
                characters: summary::max_overhead(&self.summary_prefix),
            },
            (true, SummaryBy::Model) => ConversationSize {
                messages: 1,
                characters: summary::max_overhead(&self.summary_prefix) + self.summary_limit(),
            },
        }
    }
}
