//! Stores conversations and accepted events: in crash-safe files, and in memory.
//!
//! The crate does not depend on the engine: it implements the ports of `goondan-core`. The module
//! [`suite`] contains the tests that every store must pass.

#![allow(missing_docs, reason = "internal crate")]

pub mod fs;
pub mod jsonl;
mod ledger;
pub mod memory;
mod note;
pub mod record;
pub mod suite;
pub mod transfer;
pub mod workdirs;
