//! Runs the suite on the stores of this crate, and a complete swarm on them under faults.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod carried;
mod checkpoints;
mod checks;
mod conformity;
mod copies;
mod cost;
mod crashes;
mod damage;
mod damage_table;
mod far;
mod faults;
mod formats;
mod random_damage;
mod retirement;
mod swarm;
