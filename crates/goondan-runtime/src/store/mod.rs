//! Stores and journals that come with the engine.

mod begun;
mod fs;
pub(crate) mod handled;
pub mod jsonl;
mod ledger;
pub mod lifecycle;
pub mod memory;
mod note;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
pub mod transfer;

#[cfg(test)]
mod tests;
