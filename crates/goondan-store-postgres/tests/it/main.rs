//! Runs the suite on a real PostgreSQL: `tests/postgres.sh cargo test -p goondan-store-postgres`.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod database;
mod leadership;
mod schema_versions;
mod store_suite;
mod workers;
mod workspace_import;
