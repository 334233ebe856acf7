//! Budgets of a turn and of a whole run. A turn that exceeds one ends with the reason instead of
//! another step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_spec::Code;
use goondan_spec::kinds::BudgetLimits;

use crate::activity::{ActiveStopwatch, ActivityTracker};
use crate::usage_increment::UsageIncrement;
use goondan_core::event::{TurnError, UsageCost};
use goondan_core::ports::model::TokenUsage;

/// Usage of all turns of a run, or of one turn.
pub(crate) struct UsageTotals {
    /// Provides the clock, which pauses while an approval is pending.
    tracker: Arc<ActivityTracker>,
    since: ActiveStopwatch,
    tokens: AtomicU64,
    steps: AtomicU64,
    cost: Mutex<Option<UsageCost>>,
}

impl UsageTotals {
    pub(crate) fn new(tracker: &Arc<ActivityTracker>) -> Self {
        let (tracker, since) = (Arc::clone(tracker), ActiveStopwatch::start(tracker));
        UsageTotals {
            tracker,
            since,
            tokens: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            cost: Mutex::default(),
        }
    }

    /// Adds the usage of a model call: tokens and cost, and a step if it was one.
    pub(crate) fn add(&self, spending: &UsageIncrement) {
        if spending.is_step {
            self.add_step(spending.usage)
        } else {
            self.add_tokens(spending.usage)
        }
        self.add_cost(spending.cost.as_ref());
    }

    pub(crate) fn add_step(&self, usage: TokenUsage) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.add_tokens(usage);
    }

    /// Adds the tokens of a model call outside the steps.
    pub(crate) fn add_tokens(&self, usage: TokenUsage) {
        self.tokens.fetch_add(usage.total_tokens, Ordering::Relaxed);
    }

    /// Adds the cost of an answer, if its model has prices. All models under a cost budget use one
    /// currency.
    pub(crate) fn add_cost(&self, cost: Option<&UsageCost>) {
        let Some(cost) = cost else { return };
        let mut spent = self.cost.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *spent {
            Some(spent) => spent.amount += cost.amount,
            nothing => *nothing = Some(cost.clone()),
        }
    }

    /// Fails if more time has passed than `limit`.
    pub(crate) fn check_duration(
        &self,
        limit: Option<Duration>,
        budget_field: &str,
    ) -> Result<(), TurnError> {
        let seconds = self.since.elapsed(&self.tracker).as_secs();
        match limit.map(|limit| limit.as_secs()) {
            Some(limit) if seconds >= limit => Err(exceeded_error(
                &seconds.to_string(),
                &limit.to_string(),
                &format!("{budget_field}.maxDurationSeconds"),
            )),
            _ => Ok(()),
        }
    }

    /// Waits until `limit` has passed, not counting the time of approval requests. Never returns
    /// without a limit.
    pub(crate) async fn exceeded_duration(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let time_left = limit.saturating_sub(self.since.elapsed(&self.tracker));
            if time_left.is_zero() {
                return;
            }
            tokio::time::sleep(time_left).await;
        }
    }

    /// Fails if `budget` allows no further step. `budget_field` is the budget's path in the error, such as
    /// `policy.runBudget`.
    pub(crate) fn check(&self, budget: &BudgetLimits, budget_field: &str) -> Result<(), TurnError> {
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
        for (used, limit, field) in [tokens, steps] {
            if let Some(limit) = limit.filter(|limit| used >= *limit) {
                return Err(exceeded_error(
                    &used.to_string(),
                    &limit.to_string(),
                    &format!("{budget_field}.{field}"),
                ));
            }
        }
        self.check_duration(budget.max_duration, budget_field)?;
        check_cost(
            self.cost
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref(),
            budget,
            budget_field,
        )
    }
}

/// Fails if `paid` has reached `budget.maxCost`.
pub(crate) fn check_cost(
    paid: Option<&UsageCost>,
    budget: &BudgetLimits,
    budget_field: &str,
) -> Result<(), TurnError> {
    let (Some(paid), Some(max_cost)) = (paid, budget.max_cost) else {
        return Ok(());
    };
    if paid.amount < max_cost {
        return Ok(());
    }
    Err(exceeded_error(
        &format!("{:.4}", paid.amount),
        &format!("{max_cost} {}", paid.currency),
        &format!("{budget_field}.maxCost"),
    ))
}

/// Returns the error for a used-up budget.
fn exceeded_error(used: &str, limit: &str, field: &str) -> TurnError {
    let message = format!("the budget is used up: {used} of {limit} (`{field}`)");
    TurnError::new(Code::BUDGET_EXCEEDED, message).suggest(format!(
        "Raise `{field}` of the Swarm, or start the run again."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_added_up() {
        let usage = UsageTotals::new(&ActivityTracker::new());
        let budget = BudgetLimits {
            max_cost: Some(0.5),
            ..BudgetLimits::default()
        };
        let cost = UsageCost {
            amount: 0.3,
            currency: "EUR".to_owned(),
        };
        usage.add_cost(Some(&cost));
        usage.add_cost(None);
        assert!(usage.check(&budget, "policy.runBudget").is_ok());
        usage.add_cost(Some(&cost));
        let error = usage.check(&budget, "policy.runBudget").unwrap_err();
        assert_eq!(
            error.message,
            "the budget is used up: 0.6000 of 0.5 EUR (`policy.runBudget.maxCost`)"
        );
    }

    #[test]
    fn the_budget_error_names_the_field() {
        let usage = UsageTotals::new(&ActivityTracker::new());
        let budget = BudgetLimits {
            max_steps: Some(2),
            ..BudgetLimits::default()
        };
        usage.add_step(TokenUsage::default());
        assert!(usage.check(&budget, "policy.runBudget").is_ok());
        usage.add_step(TokenUsage::default());
        let error = usage.check(&budget, "policy.runBudget").unwrap_err();
        assert_eq!(
            error.message,
            "the budget is used up: 2 of 2 (`policy.runBudget.maxSteps`)"
        );
    }
}
