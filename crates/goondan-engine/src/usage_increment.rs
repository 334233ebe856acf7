//! Usage of one step or one model call.

use goondan_core::event::UsageCost;
use goondan_core::ports::model::TokenUsage;
use serde::{Deserialize, Serialize};

/// Usage of one step or one model call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct UsageIncrement {
    pub(crate) usage: TokenUsage,
    /// Counts as a step.
    pub(crate) is_step: bool,
    pub(crate) cost: Option<UsageCost>,
}
