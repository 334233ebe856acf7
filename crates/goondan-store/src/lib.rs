//! Keeps conversations and accepted events: in files that survive being cut off at any moment, and in memory.
//!
//! It deliberately does not know the engine: it implements the ports of `goondan-core`, and whoever writes another store finds
//! in [`suite`] what every store must do.

pub mod fs;
pub mod jsonl;
mod ledger;
pub mod memory;
mod note;
pub mod record;
pub mod suite;
pub mod transfer;
pub mod workdirs;
