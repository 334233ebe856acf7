//! What a turn or a whole run may use up. Over it, a turn ends with the reason instead of another step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_spec::Code;
use goondan_spec::kinds::Budget;

use crate::engine::Spending;
use crate::life::{Life, Stopwatch};
use goondan_core::event::{Cost, TurnError};
use goondan_core::ports::model::TokenUsage;

/// What all turns of a run have used up.
pub(crate) struct Spent {
    /// Whose time counts: without that in which a person is asked.
    life: Arc<Life>,
    since: Stopwatch,
    tokens: AtomicU64,
    steps: AtomicU64,
    cost: Mutex<Option<Cost>>,
}

impl Spent {
    /// Nothing yet, of what that life does.
    pub(crate) fn new(life: &Arc<Life>) -> Self {
        let (life, since) = (Arc::clone(life), Stopwatch::start(life));
        Spent {
            life,
            since,
            tokens: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            cost: Mutex::default(),
        }
    }

    /// Something was used up.
    pub(crate) fn add(&self, spending: &Spending) {
        match spending.is_step {
            true => self.add_step(spending.usage),
            false => self.add_tokens(spending.usage),
        }
        self.add_cost(spending.cost.as_ref());
    }

    /// Another step, and what it cost.
    pub(crate) fn add_step(&self, usage: TokenUsage) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.add_tokens(usage);
    }

    /// What a question beside the steps cost.
    pub(crate) fn add_tokens(&self, usage: TokenUsage) {
        self.tokens.fetch_add(usage.total_tokens, Ordering::Relaxed);
    }

    /// What an answer cost, where its model has prices. All models that a budget of money is about have theirs in one currency.
    pub(crate) fn add_cost(&self, cost: Option<&Cost>) {
        let Some(cost) = cost else { return };
        let mut spent = self.cost.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *spent {
            Some(spent) => spent.amount += cost.amount,
            nothing => *nothing = Some(cost.clone()),
        }
    }

    /// Whether `budget` allows another step; `whose` names it in the reason (`policy.budget`).
    pub(crate) fn check(&self, budget: &Budget, whose: &str) -> Result<(), TurnError> {
        let tokens = (
            self.tokens.load(Ordering::Relaxed),
            budget.max_tokens,
            "maxTokens",
        );
        let steps = (
            self.steps.load(Ordering::Relaxed),
            budget.max_steps,
            "maxSteps",
        );
        let seconds = (
            self.since.elapsed(&self.life).as_secs(),
            budget.max_duration.as_ref().map(Duration::as_secs),
            "maxDurationSeconds",
        );
        for (used, most, field) in [tokens, steps, seconds] {
            if let Some(most) = most.filter(|most| used >= *most) {
                return Err(exceeded(
                    &used.to_string(),
                    &most.to_string(),
                    &format!("{whose}.{field}"),
                ));
            }
        }
        check_cost(
            self.cost
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref(),
            budget,
            whose,
        )
    }
}

/// Whether `budget` allows another step after what was paid.
pub(crate) fn check_cost(
    paid: Option<&Cost>,
    budget: &Budget,
    whose: &str,
) -> Result<(), TurnError> {
    let (Some(paid), Some(most)) = (paid, budget.max_cost) else {
        return Ok(());
    };
    if paid.amount < most {
        return Ok(());
    }
    Err(exceeded(
        &format!("{:.4}", paid.amount),
        &format!("{most} {}", paid.currency),
        &format!("{whose}.maxCost"),
    ))
}

fn exceeded(used: &str, most: &str, field: &str) -> TurnError {
    let message = format!("the budget is used up: {used} of {most} (`{field}`)");
    TurnError::new(Code::BUDGET_EXCEEDED, message).suggest(format!(
        "Raise `{field}` of the Swarm, or start the run again."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_added_up() {
        let spent = Spent::new(&Life::new());
        let budget = Budget {
            max_cost: Some(0.5),
            ..Budget::default()
        };
        let cost = Cost {
            amount: 0.3,
            currency: "EUR".to_owned(),
        };
        spent.add_cost(Some(&cost));
        spent.add_cost(None);
        assert!(spent.check(&budget, "policy.budget").is_ok());
        spent.add_cost(Some(&cost));
        let error = spent.check(&budget, "policy.budget").unwrap_err();
        assert_eq!(
            error.message,
            "the budget is used up: 0.6000 of 0.5 EUR (`policy.budget.maxCost`)"
        );
    }

    #[test]
    fn the_reason_names_the_field() {
        let spent = Spent::new(&Life::new());
        let budget = Budget {
            max_steps: Some(2),
            ..Budget::default()
        };
        spent.add_step(TokenUsage::default());
        assert!(spent.check(&budget, "policy.budget").is_ok());
        spent.add_step(TokenUsage::default());
        let error = spent.check(&budget, "policy.budget").unwrap_err();
        assert_eq!(
            error.message,
            "the budget is used up: 2 of 2 (`policy.budget.maxSteps`)"
        );
    }
}
