//! Lists of span attributes.

use chrono::{DateTime, Utc};
use goondan_core::event::UsageCost;
use goondan_core::ports::model::TokenUsage;

use crate::otlp::{AttributeValue, KeyValue, attribute};

/// Attributes of a span under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpanAttributes(Vec<KeyValue>);

impl SpanAttributes {
    /// Adds an attribute, or replaces its value.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<AttributeValue>) -> &mut Self {
        let new = attribute(key, value);
        match self.0.iter_mut().find(|known| known.key == key) {
            Some(known) => *known = new,
            None => self.0.push(new),
        }
        self
    }

    /// Adds an attribute if it has a value.
    pub(crate) fn set_optional(
        &mut self,
        key: &str,
        value: Option<impl Into<AttributeValue>>,
    ) -> &mut Self {
        if let Some(value) = value {
            self.set(key, value);
        }
        self
    }

    /// Adds token usage and cost.
    pub(crate) fn usage(
        &mut self,
        usage: Option<TokenUsage>,
        cost: Option<&UsageCost>,
    ) -> &mut Self {
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

    /// Adds the other attributes, without a check for duplicates.
    pub(crate) fn append(&mut self, more: SpanAttributes) {
        self.0.extend(more.0);
    }

    /// Returns the attributes.
    pub(crate) fn into_key_values(self) -> Vec<KeyValue> {
        self.0
    }
}

/// Converts a time to OTLP: nanoseconds since the Unix epoch.
pub(crate) fn unix_nanos(time: DateTime<Utc>) -> u64 {
    time.timestamp_nanos_opt()
        .and_then(|nanos| u64::try_from(nanos).ok())
        .unwrap_or_default()
}
