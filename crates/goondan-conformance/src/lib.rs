//! Runs YAML conformance cases against a swarm: `gdn test` as a library.
//!
//! A case puts files into an empty project folder, scripts the models, does a few steps and says what must come of them.
//! [`run`] finds the cases, runs several at a time, each in folders and a tokio runtime of its own, and returns a
//! [`Summary`]; [`report`] turns that into text, JSON or JUnit XML. What must be so in every case is checked in every
//! case.
//!
//! It reaches the runtime through the facade crate `goondan` alone, and deliberately does not know terminals and
//! arguments, or which tools and providers exist.

pub mod case;
pub mod coverage;
pub mod discover;
mod invariants;
pub mod live;
pub mod matcher;
pub mod proxy;
pub mod record;
pub mod report;
pub mod rules;
mod run;
mod runner;

pub use coverage::Coverage;
pub use live::LiveOptions;
pub use report::{CaseReport, Format, Outcome, Summary};
pub use run::{
    DEFAULT_TIME_LIMIT, LIVE_JOBS, LIVE_TIME_LIMIT, Options, judged_projects, live_projects, run,
};
