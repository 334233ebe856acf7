//! Runs the suite on a real PostgreSQL: `tests/postgres.sh cargo test -p goondan-store-postgres`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod adoption;
mod conformity;
mod holding;
mod members;
mod place;
mod tables;
