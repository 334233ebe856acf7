//! How much of an answer is taken.

/// The largest answer, in bytes of text, reasoning and arguments; and the largest line of a stream.
pub(crate) const ANSWER: usize = 16 * 1024 * 1024;

/// The most that may come over the wire for one answer, in bytes. Every few characters travel in an envelope of a few
/// hundred, hence the distance.
pub(crate) const WIRE: usize = 64 * ANSWER;

/// How much of an answer is read that is no stream, in bytes: an error, a web page.
pub(crate) const ERROR: usize = 1024 * 1024;
