//! The protocol between a host process and its parent: one JSON value per line. The values are
//! those that are used within one process.

use std::io::{self, BufRead};

use goondan_abi::wire;
use goondan_core::plugin_session::RunningMessage;
use serde::{Deserialize, Serialize};

use crate::failure::ReportedFailure;
use crate::library_messages::Outcome;

/// A message of a host process. The opposite direction is [`crate::library_messages::LibraryCommand`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ToolHostMessage {
    /// The first line, if the library was opened.
    Opened(wire::Manifest),
    /// The first and last line, if the library was not opened.
    Failed(ReportedFailure),
    Complete {
        call: u64,
        outcome: Outcome,
    },
    Event {
        /// Id of the call, or `NO_CALL`.
        call: u64,
        event: RunningMessage,
    },
}

/// Encodes `value` as a line of JSON.
pub(crate) fn to_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads one line of at most `limit` bytes; `None` at the end.
pub(crate) fn read_line<T: for<'de> Deserialize<'de>>(
    input: &mut impl BufRead,
    limit: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    io::Read::take(&mut *input, limit).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
        Some(_) if line.len() as u64 == limit => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a line is too long",
        )),
        // The other side died in the middle of a line.
        Some(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], limit: u64) -> io::Result<Option<u32>> {
        read_line(&mut &*text, limit)
    }

    #[test]
    fn only_complete_json_lines_are_read() {
        assert_eq!(
            read(&to_line(&7).expect("JSON"), 100).expect("read"),
            Some(7)
        );
        assert_eq!(read(b"", 100).expect("read"), None);
        assert_eq!(read(b"12", 100).expect("an incomplete last line"), None);
        assert!(read(b"1234567890\n", 5).is_err());
        assert!(read(b"seven\n", 100).is_err());
        assert!(read(b"\n", 100).is_err());
    }
}
