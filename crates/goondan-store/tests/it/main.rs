//! Runs the suite on the stores of this crate, and a complete swarm on them under faults.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod carried_messages;
mod checkpoints;
mod crashes;
mod damage;
mod damage_table;
mod disk_faults;
mod formats;
mod inspection_and_copies;
mod invariants;
mod random_damage;
mod retirement;
mod store_suite;
mod swarm;
mod turn_cost;
mod unreliable_store;
