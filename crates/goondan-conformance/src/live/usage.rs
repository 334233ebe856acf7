//! Usage of the models of a run.

use std::collections::BTreeMap;

use goondan::event::{RuntimeEvent, RuntimeEventKind as Kind};
use goondan::ports::model::TokenUsage;
use serde::Serialize;

/// Tokens and cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpending {
    /// Number of model calls. Retries do not count.
    pub model_calls: usize,
    /// Tokens, as reported by the providers.
    pub tokens: TokenUsage,
    /// Cost by currency, from the prices of the Models. Empty if no Model states its price.
    pub cost: BTreeMap<String, f64>,
}

impl ModelSpending {
    /// Adds the usage of another run.
    pub fn add(&mut self, other: &ModelSpending) {
        self.model_calls += other.model_calls;
        self.tokens += other.tokens;
        for (currency, amount) in &other.cost {
            *self.cost.entry(currency.clone()).or_default() += amount;
        }
    }

    /// Returns the usage as a string, such as `1200 tokens, 0.0042 USD`.
    pub fn words(&self) -> String {
        let cost: String = self
            .cost
            .iter()
            .map(|(currency, amount)| format!(", {} {currency}", format_amount(*amount)))
            .collect();
        format!("{} tokens{cost}", self.tokens.total_tokens)
    }
}

/// Formats an amount with at most six decimals.
fn format_amount(amount: f64) -> String {
    let text = format!("{amount:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Returns the usage of the model calls in `events`.
pub(crate) fn usage_of<'e>(events: impl IntoIterator<Item = &'e RuntimeEvent>) -> ModelSpending {
    let mut spent = ModelSpending::default();
    for event in events {
        let (Kind::ModelCompleted { call, .. } | Kind::ModelFailed { call, .. }) = &event.kind
        else {
            continue;
        };
        spent.model_calls += 1;
        spent.tokens += call.token_usage.unwrap_or_default();
        if let Some(cost) = &call.cost {
            *spent.cost.entry(cost.currency.clone()).or_default() += cost.amount;
        }
    }
    spent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_amounts_have_no_trailing_zeros() {
        assert_eq!(
            [0.0, 0.1 + 0.2, 12.0, 0.000_001_2].map(format_amount),
            ["0", "0.3", "12", "0.000001"]
        );
    }
}
