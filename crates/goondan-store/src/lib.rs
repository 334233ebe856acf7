//! Stores conversations and accepted events: in crash-safe files, and in memory.
//!
//! The crate does not depend on the engine: it implements the ports of `goondan-core`. The module
//! [`suite`] contains the tests that every store must pass.

#![allow(missing_docs, reason = "internal crate")]

pub mod fs;
pub mod instance_export;
pub mod jsonl;
pub mod memory;
pub mod record;
mod record_facts;
pub mod suite;
mod wal_index;
pub mod workspace_directories;
