//! Recorded traffic (rule M6): [`record`] writes what models were asked and what they answered to a cassette, and
//! `provider: replay` plays it back without a network.
//!
//! A cassette is a file of JSON lines, one [`CassetteEntry`] a line, in the order in which the answers were complete. It holds
//! no key: requests carry none, and values of variables that are named like secrets are masked wherever they appear.

mod cassette;
mod compare;
mod entry;
mod mask;
mod play;
mod record;

pub use entry::{AskedMessage, AskedResult, CassetteEntry, RecordedPiece, RecordedRequest};
pub use mask::CassetteMask;
pub(crate) use play::CassettePlayers;
pub use record::record;

#[cfg(test)]
mod tests;
