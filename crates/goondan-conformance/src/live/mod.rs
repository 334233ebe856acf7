//! Live runs: test cases with the real models of their projects, repeated to measure pass rates.
//!
//! A run is the unchanged test case in new directories; only the models differ. The result of all
//! runs is a [`LiveReport`]. This module uses providers only through the facade.

mod checks;
pub(crate) mod judge;
mod models;
mod options;
mod report;
mod usage;

pub use checks::CheckRate;
pub use judge::{JudgeVerdict, model_of};
pub use options::LiveOptions;
pub use report::{LiveReport, RunReport};
pub use usage::ModelSpending;

pub(crate) use checks::{judge_label, outcome_judge_label, step_label};
pub(crate) use models::LiveModels;
pub(crate) use options::LiveCase;
pub(crate) use usage::usage_of;
