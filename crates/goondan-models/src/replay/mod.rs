//! Recorded model calls (rule M6): [`record`] writes requests and answers to a cassette, and
//! `provider: replay` replays them without a network.
//!
//! A cassette is a file of JSON lines with one [`CassetteEntry`] per line, in the order in which
//! the answers were complete. It contains no key: requests have none, and the values of variables
//! that are named like secrets are masked.

mod cassette;
mod compare;
mod entry;
mod mask;
mod play;
mod record;
mod state_paths;

pub use entry::{AskedMessage, AskedResult, CassetteEntry, RecordedPiece, RecordedRequest};
pub use mask::CassetteMask;
pub(crate) use play::CassettePlayers;
pub use record::record;

#[cfg(test)]
mod tests;
