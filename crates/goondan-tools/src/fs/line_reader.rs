//! Reads lines of large files in bounded memory.

use std::io::{self, BufRead};

/// A line without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileLine {
    /// The kept bytes.
    pub(super) bytes: Vec<u8>,
    /// Number of bytes not kept.
    pub(super) cut: u64,
}

/// Reads the next line and keeps at most `keep` bytes of it; `None` at the end.
pub(super) fn next_line(reader: &mut impl BufRead, keep: usize) -> io::Result<Option<FileLine>> {
    let mut line = FileLine {
        bytes: Vec::new(),
        cut: 0,
    };
    let mut has_input = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        has_input = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let kept_length = piece.len().min(keep - line.bytes.len());
        line.bytes.extend_from_slice(&piece[..kept_length]);
        line.cut += (piece.len() - kept_length) as u64;
        let consumed = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(consumed);
        if end.is_some() {
            if line.cut == 0 && line.bytes.last() == Some(&b'\r') {
                line.bytes.pop();
            }
            break;
        }
    }
    Ok(has_input.then_some(line))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Lines equal those of `str::lines` for every buffer size.
        #[test]
        fn next_line_matches_str_lines_for_any_buffer_size(text in "[ab\\r\\n]{0,30}", capacity in 1usize..8) {
            let mut reader = BufReader::with_capacity(capacity, text.as_bytes());
            let mut lines = Vec::new();
            while let Some(line) = next_line(&mut reader, 100).unwrap() {
                lines.push(String::from_utf8(line.bytes).unwrap());
            }
            let expected: Vec<&str> = text.lines().collect();
            prop_assert_eq!(lines, expected);
        }

        #[test]
        fn bytes_cut_from_a_long_line_are_counted(length in 0usize..50, keep in 0usize..50) {
            let text = "x".repeat(length) + "\nnext";
            let mut reader = BufReader::with_capacity(7, text.as_bytes());
            let line = next_line(&mut reader, keep).unwrap().unwrap();
            prop_assert_eq!(line.bytes.len(), length.min(keep));
            prop_assert_eq!(line.cut as usize, length.saturating_sub(keep));
            prop_assert_eq!(next_line(&mut reader, 9).unwrap().unwrap().bytes, b"next");
            prop_assert_eq!(next_line(&mut reader, 9).unwrap(), None);
        }
    }
}
