//! Stores and journals that come with the engine.

mod begun;
mod fs;
pub(crate) mod handled;
pub mod jsonl;
mod ledger;
pub mod memory;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

#[cfg(test)]
mod tests;
