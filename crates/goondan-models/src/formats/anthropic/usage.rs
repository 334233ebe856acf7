//! Token counts of Anthropic's messages.

use goondan_core::ports::model::TokenUsage;
use serde_json::Value;

/// Token counts so far. Later events repeat the counts of earlier ones, or leave them out.
#[derive(Debug, Default)]
pub(super) struct UsageCounts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl UsageCounts {
    /// Takes the counts of an event. They are totals that only grow.
    pub(super) fn add(&mut self, usage: &Value) {
        let raise_count = |known: &mut u64, key: &str| {
            *known = usage[key].as_u64().unwrap_or(0).max(*known);
        };
        raise_count(&mut self.input, "input_tokens");
        raise_count(&mut self.output, "output_tokens");
        raise_count(&mut self.cache_read, "cache_read_input_tokens");
        raise_count(&mut self.cache_write, "cache_creation_input_tokens");
    }

    /// Returns the counts in the engine's terms. The input tokens of this API do not include cached
    /// ones.
    pub(super) fn to_token_usage(&self) -> TokenUsage {
        let prompt_tokens = self
            .input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write);
        TokenUsage {
            prompt_tokens,
            completion_tokens: self.output,
            total_tokens: prompt_tokens.saturating_add(self.output),
            cached_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
        }
    }
}
