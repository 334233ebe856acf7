//! Limits on what may be asked in a minute: of a Model, and of a Swarm.

use schemars::JsonSchema;

use crate::decode::Field;
use crate::findings::Findings;

/// The field with the limit on money.
pub(super) const COST: &str = "costPerMinute";

/// How much may be asked in a minute; absent means without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateLimits {
    /// Attempts to ask a model.
    pub requests_per_minute: Option<u64>,
    /// Tokens that models read and write.
    pub tokens_per_minute: Option<u64>,
    /// What that costs, in the currency of the prices.
    pub cost_per_minute: Option<f64>,
}

impl RateLimits {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == RateLimits::default()
    }
}

pub(super) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<RateLimits> {
    let mut fields = field.fields(findings)?;
    let requests = fields
        .optional("requestsPerMinute")
        .map(|field| field.whole(1, findings));
    let tokens = fields
        .optional("tokensPerMinute")
        .map(|field| field.whole(1, findings));
    let cost = fields.optional(COST).map(|field| {
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

/// What may be asked in a minute. Beyond it, a step waits.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RateLimits")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(super) struct RateLimitsShape {
    /// How many requests may be made in a minute. A request that is repeated counts again.
    #[schemars(range(min = 1))]
    requests_per_minute: Option<u64>,
    /// How many tokens may be read and written in a minute. They count once the answer is there.
    #[schemars(range(min = 1))]
    tokens_per_minute: Option<u64>,
    /// How much answers may cost in a minute, in the currency of `pricing`, which each model needs. They count once they are there.
    #[schemars(extend("exclusiveMinimum" = 0))]
    cost_per_minute: Option<f64>,
}
