//! Tests of the runner, and of the conformance cases of this repository.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod live;
mod product;
mod runner;
