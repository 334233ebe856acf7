//! Stores and journals that come with the engine.

pub mod jsonl;
pub mod memory;
