//! Runs YAML conformance test cases against a swarm: `gdn test` as a library.
//!
//! A test case puts files into an empty project directory, scripts the models, performs steps and
//! checks the results. [`run`] discovers the test cases and runs several at a time. Each has its
//! own directories and tokio runtime. The result is a [`RunSummary`], and [`report`] renders it as
//! plain text, JSON or JUnit XML. Invariants are checked in every test case.
//!
//! This crate uses the runtime only through the facade crate `goondan`. It has no dependency on
//! terminals, command-line arguments, or the list of tools and providers.

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

pub use coverage::RuleCoverage;
pub use live::LiveOptions;
pub use report::{CaseOutcome, CaseReport, ReportFormat, RunSummary};
pub use run::{
    DEFAULT_TIME_LIMIT, LIVE_JOBS, LIVE_TIME_LIMIT, RunOptions, judged_projects, live_projects, run,
};
