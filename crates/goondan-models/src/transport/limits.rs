//! Limits on the size of an answer.

/// Largest answer, in bytes of text, reasoning and arguments; and largest event of a stream.
pub(crate) const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of bytes on the wire for one answer. An envelope of a few hundred bytes surrounds
/// every few characters.
pub(crate) const MAX_WIRE_BYTES: usize = 64 * MAX_ANSWER_BYTES;

/// Largest body of an HTTP error that is read, in bytes.
pub(crate) const MAX_ERROR_BYTES: usize = 1024 * 1024;
