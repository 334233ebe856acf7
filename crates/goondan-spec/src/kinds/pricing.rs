//! `spec.pricing` of a Model.

use schemars::JsonSchema;

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

/// The currency of prices that name none.
const DEFAULT_CURRENCY: &str = "USD";

/// Prices per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPricing {
    /// Tokens that the model reads.
    pub input: f64,
    /// Tokens that the model reads from the provider's cache.
    pub cached_input: f64,
    /// Tokens that the model reads and that the provider writes to its cache.
    pub cache_write: f64,
    /// Tokens that the model writes.
    pub output: f64,
    /// The currency of the prices (default `USD`).
    pub currency: String,
}

/// Token counts by price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PricedTokens {
    /// Tokens that the model read, including those of the cache.
    pub input: u64,
    /// Input tokens that came from the provider's cache.
    pub cached: u64,
    /// Input tokens that the provider wrote to its cache.
    pub cache_write: u64,
    /// Tokens that the model wrote.
    pub output: u64,
}

impl ModelPricing {
    /// The cost of `tokens`.
    pub fn cost(&self, tokens: PricedTokens) -> f64 {
        const MILLION: f64 = 1_000_000.0;
        let cached = tokens.cached.min(tokens.input);
        let written = tokens.cache_write.min(tokens.input - cached);
        let plain = tokens.input - cached - written;
        let read = plain as f64 * self.input
            + cached as f64 * self.cached_input
            + written as f64 * self.cache_write;
        (read + tokens.output as f64 * self.output) / MILLION
    }
}

/// Reads `pricing` of a Model.
pub(super) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ModelPricing> {
    let mut fields = field.fields(findings)?;
    let input = fields
        .required("inputPerMillion", findings)
        .and_then(|field| read_price(&field, findings));
    let cached_input = fields.read("cachedInputPerMillion", findings, read_price);
    let cache_write = fields.read("cacheWritePerMillion", findings, read_price);
    let output = fields
        .required("outputPerMillion", findings)
        .and_then(|field| read_price(&field, findings));
    let currency = fields.read("currency", findings, FieldReader::text);
    fields.finish(findings);
    let (input, currency) = (input?, currency?.unwrap_or(DEFAULT_CURRENCY).to_owned());
    Some(ModelPricing {
        input,
        cached_input: cached_input?.unwrap_or(input),
        cache_write: cache_write?.unwrap_or(input),
        output: output?,
        currency,
    })
}

/// Reads a price per million tokens.
fn read_price(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<f64> {
    field.number(
        "0 or more",
        |price| price >= 0.0 && price.is_finite(),
        findings,
    )
}

/// Prices per million tokens.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Pricing")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PricingSpec {
    /// The price of a million tokens that the model reads.
    #[schemars(range(min = 0))]
    input: f64,
    /// The price of a million tokens that the model reads from the provider's cache [default: that
    /// of `inputPerMillion`].
    #[schemars(range(min = 0))]
    cached_input: Option<f64>,
    /// The price of a million tokens that the provider writes to its cache [default: that of
    /// `inputPerMillion`].
    #[schemars(range(min = 0))]
    cache_write: Option<f64>,
    /// The price of a million tokens that the model writes.
    #[schemars(range(min = 0))]
    output: f64,
    /// The currency of the prices.
    #[schemars(extend("default" = DEFAULT_CURRENCY))]
    currency: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_token_has_its_price() {
        let pricing = ModelPricing {
            input: 3.0,
            cached_input: 0.5,
            cache_write: 4.0,
            output: 15.0,
            currency: DEFAULT_CURRENCY.to_owned(),
        };
        let cost = |input, cached, cache_write, output| {
            pricing.cost(PricedTokens {
                input,
                cached,
                cache_write,
                output,
            })
        };
        let million = 1_000_000;
        assert_eq!(cost(million, 0, 0, million), 18.0);
        assert_eq!(cost(4 * million, million, million, 0), 6.0 + 0.5 + 4.0);
        // Cached and written tokens are counted only up to the number of input tokens.
        assert_eq!(cost(million, million, million, 0), 0.5);
        assert_eq!(cost(million, 0, 2 * million, 0), 4.0);
    }
}
