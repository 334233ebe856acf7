//! Stores and journals that come with the engine.

mod begun;
mod fs;
pub(crate) mod handled;
pub mod jsonl;
mod ledger;
pub mod memory;
