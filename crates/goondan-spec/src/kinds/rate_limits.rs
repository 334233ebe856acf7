//! Limits per minute on the model calls of a Model or a Swarm.

use schemars::JsonSchema;

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

pub(super) const COST_LIMIT_FIELD: &str = "costPerMinute";

/// Limits per minute on model calls. An absent limit is not enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateLimits {
    /// Attempts to call a model.
    pub requests_per_minute: Option<u64>,
    /// Tokens that models read and write.
    pub tokens_per_minute: Option<u64>,
    /// Cost, in the currency of the prices.
    pub cost_per_minute: Option<f64>,
}

impl RateLimits {
    /// Returns true if there is no limit.
    pub fn is_none(&self) -> bool {
        *self == RateLimits::default()
    }
}

/// Reads `rateLimits`; `None` if a limit is invalid.
pub(super) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<RateLimits> {
    let mut fields = field.fields(findings)?;
    let requests = fields
        .optional("requestsPerMinute")
        .map(|field| field.integer_at_least(1, findings));
    let tokens = fields
        .optional("tokensPerMinute")
        .map(|field| field.integer_at_least(1, findings));
    let cost = fields.optional(COST_LIMIT_FIELD).map(|field| {
        field.number(
            "more than 0",
            |cost| cost > 0.0 && cost.is_finite(),
            findings,
        )
    });
    fields.finish(findings);
    Some(RateLimits {
        requests_per_minute: requests.map_or(Some(None), |most| most.map(Some))?,
        tokens_per_minute: tokens.map_or(Some(None), |most| most.map(Some))?,
        cost_per_minute: cost.map_or(Some(None), |most| most.map(Some))?,
    })
}

/// Limits per minute on model calls. A step waits when a limit is reached.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RateLimits")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(super) struct RateLimitsShape {
    /// The maximum number of model calls per minute. A retry counts again.
    #[schemars(range(min = 1))]
    requests_per_minute: Option<u64>,
    /// The maximum number of tokens read and written per minute. They count when the answer is
    /// complete.
    #[schemars(range(min = 1))]
    tokens_per_minute: Option<u64>,
    /// The maximum cost per minute, in the currency of `pricing`, which each model needs. Costs
    /// count when the answer is complete.
    #[schemars(extend("exclusiveMinimum" = 0))]
    cost_per_minute: Option<f64>,
}
