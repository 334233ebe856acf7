//! The stores of this crate in the suite, and a whole swarm on them under faults.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod carried;
mod checks;
mod conformity;
mod cost;
mod crashes;
mod damage;
mod far;
mod faults;
mod retirement;
mod swarm;
