//! What the models of a run have used up.

use std::collections::BTreeMap;

use goondan::event::{RuntimeEvent, RuntimeEventKind as Kind};
use goondan::ports::model::TokenUsage;
use serde::Serialize;

/// Tokens and money.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// How often a model was asked; attempts that are repeated count once.
    pub model_calls: usize,
    /// As the providers say.
    pub tokens: TokenUsage,
    /// By the prices of the Models, by currency. Empty where no Model states its price.
    pub cost: BTreeMap<String, f64>,
}

impl Spent {
    /// Adds what something else has used up.
    pub fn add(&mut self, other: &Spent) {
        self.model_calls += other.model_calls;
        self.tokens += other.tokens;
        for (currency, amount) in &other.cost {
            *self.cost.entry(currency.clone()).or_default() += amount;
        }
    }

    /// Such as `1200 tokens, 0.0042 USD`.
    pub fn words(&self) -> String {
        let cost: String = self
            .cost
            .iter()
            .map(|(currency, amount)| format!(", {} {currency}", money(*amount)))
            .collect();
        format!("{} tokens{cost}", self.tokens.total_tokens)
    }
}

/// An amount with as many digits as it needs, six at most.
fn money(amount: f64) -> String {
    let text = format!("{amount:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// What the model calls among `events` have used up.
pub(crate) fn spent<'e>(events: impl IntoIterator<Item = &'e RuntimeEvent>) -> Spent {
    let mut spent = Spent::default();
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
    fn amounts_are_short() {
        assert_eq!(
            [0.0, 0.1 + 0.2, 12.0, 0.000_001_2].map(money),
            ["0", "0.3", "12", "0.000001"]
        );
    }
}
