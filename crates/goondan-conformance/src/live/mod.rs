//! Runs cases with the real models of their projects, several times each, and says how often they pass.
//!
//! A run is the case as it is, in folders of its own; only the models are others. What comes of all runs of a case is one
//! [`LiveReport`]. It knows providers through the facade alone.

mod checks;
pub(crate) mod judge;
mod models;
mod options;
mod report;
mod spent;

pub use checks::CheckRate;
pub use judge::{Verdict, model_of};
pub use options::LiveOptions;
pub use report::{LiveReport, RunReport};
pub use spent::Spent;

pub(crate) use checks::{judge_place, outcome_judge_place, step_place};
pub(crate) use models::LiveModels;
pub(crate) use options::LiveCase;
pub(crate) use spent::spent;
