//! Lists of attributes.

use chrono::{DateTime, Utc};
use goondan_core::event::Cost;
use goondan_core::ports::model::TokenUsage;

use crate::otlp::{KeyValue, Value, attribute};

/// Attributes on their way into a span.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes(Vec<KeyValue>);

impl Attributes {
    /// One more, or another value of one that is there.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        let new = attribute(key, value);
        match self.0.iter_mut().find(|known| known.key == key) {
            Some(known) => *known = new,
            None => self.0.push(new),
        }
        self
    }

    /// One more, where there is a value.
    pub(crate) fn maybe(&mut self, key: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.set(key, value);
        }
        self
    }

    /// What was used up.
    pub(crate) fn usage(&mut self, usage: Option<TokenUsage>, cost: Option<&Cost>) -> &mut Self {
        if let Some(usage) = usage {
            self.set("gen_ai.usage.input_tokens", usage.prompt_tokens);
            self.set("gen_ai.usage.output_tokens", usage.completion_tokens);
            self.set("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
            self.set(
                "gen_ai.usage.cache_creation.input_tokens",
                usage.cache_write_tokens,
            );
        }
        if let Some(cost) = cost {
            self.set("goondan.cost.amount", cost.amount)
                .set("goondan.cost.currency", &cost.currency);
        }
        self
    }

    /// All of `more`.
    pub(crate) fn append(&mut self, more: Attributes) {
        self.0.extend(more.0);
    }

    /// As messages have them.
    pub(crate) fn done(self) -> Vec<KeyValue> {
        self.0
    }
}

/// A time as OTLP has it.
pub(crate) fn nanos(time: DateTime<Utc>) -> u64 {
    time.timestamp_nanos_opt()
        .and_then(|nanos| u64::try_from(nanos).ok())
        .unwrap_or_default()
}
