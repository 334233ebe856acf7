//! Keeps the beginning and the end of an output of any length.

use std::collections::VecDeque;

pub(crate) use goondan_core::utf8_cut::without_cut_end;
use goondan_core::utf8_cut::{take_text, without_cut_start};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes of a character that is not complete.
const MAX_UNFINISHED_BYTES: usize = 3;

/// The first and the last bytes of a stream, in bounded memory.
#[derive(Debug)]
pub(crate) struct OutputCapture {
    /// Number of bytes kept at either end.
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Number of bytes received, kept or not.
    total: u64,
}

impl OutputCapture {
    /// Creates a capture that keeps about `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        OutputCapture {
            half: limit / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    /// Adds output. Only the beginning and the end of all output are kept.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.total = self.total.saturating_add(piece.len() as u64);
        let (first, rest) = piece.split_at(piece.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Reads `stream` to its end, if there is one, and passes its text to `show`. Cancel safe: the
    /// bytes read so far are kept.
    pub(crate) async fn read(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        show: impl Fn(&str),
    ) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 16 * 1024];
        let mut open = Vec::new();
        // A read error ends an output like its end.
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..count]);
            open.extend_from_slice(&buffer[..count]);
            show(&take_text(&mut open));
        }
    }

    /// Removes an unfinished character at the end, and returns its bytes.
    pub(crate) fn take_unfinished(&mut self) -> Vec<u8> {
        let kept_bytes = self.head.iter().chain(&self.tail).copied();
        let mut end: Vec<u8> = kept_bytes.rev().take(MAX_UNFINISHED_BYTES).collect();
        end.reverse();
        let unfinished = end.split_off(without_cut_end(&end).len());
        for _ in &unfinished {
            self.tail.pop_back().or_else(|| self.head.pop());
        }
        self.total -= unfinished.len() as u64;
        unfinished
    }

    /// Returns the kept text. If bytes are missing, a line states how many.
    pub(crate) fn text(mut self) -> String {
        let kept_length = (self.head.len() + self.tail.len()) as u64;
        let tail = self.tail.make_contiguous();
        if kept_length == self.total {
            self.head.extend_from_slice(tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let (head, tail) = (without_cut_end(&self.head), without_cut_start(tail));
        let cut = self.total - (head.len() + tail.len()) as u64;
        format!(
            "{}\n[... {cut} bytes cut ...]\n{}",
            String::from_utf8_lossy(head),
            String::from_utf8_lossy(tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(limit: usize, chunks: &[&[u8]]) -> String {
        let mut capture = OutputCapture::new(limit);
        chunks.iter().for_each(|chunk| capture.push(chunk));
        capture.text()
    }

    #[test]
    fn short_output_is_kept_whole() {
        assert_eq!(captured(10, &[b"abc", b"", b"defghij"]), "abcdefghij");
        assert_eq!(captured(0, &[]), "");
    }

    #[test]
    fn long_output_keeps_both_ends_and_reports_the_bytes_cut() {
        assert_eq!(
            captured(6, &[b"abcdefgh"]),
            "abc\n[... 2 bytes cut ...]\nfgh"
        );
        assert_eq!(captured(0, &[b"abc"]), "\n[... 3 bytes cut ...]\n");
    }

    #[test]
    fn output_is_cut_at_character_boundaries() {
        assert_eq!(
            captured(8, &["aé€€€€z".as_bytes()]),
            "aé\n[... 9 bytes cut ...]\n€z"
        );
    }

    #[test]
    fn take_unfinished_returns_a_trailing_incomplete_character() {
        for limit in [0, 2, 8, 20] {
            let mut capture = OutputCapture::new(limit);
            capture.push("caf\u{e9}\u{20ac}".as_bytes());
            assert_eq!(capture.take_unfinished(), b"");
            capture.push(b"\xf0\x9f\x98");
            let kept = if limit < 8 { 0 } else { 3 };
            assert_eq!(capture.take_unfinished().len(), kept);
        }
        let mut capture = OutputCapture::new(20);
        capture.push("0123456789\u{e9}".as_bytes().split_last().unwrap().1);
        assert_eq!(capture.take_unfinished(), b"\xc3");
        assert_eq!(capture.text(), "0123456789");
    }

    proptest! {
        /// The chunk sizes do not matter, and the lengths of head, tail and cut part add up.
        #[test]
        fn captured_output_does_not_depend_on_chunk_sizes(text in "[a-zé€\\n]{0,60}", limit in 0usize..40, cuts in proptest::collection::vec(1usize..9, 1..9)) {
            let bytes = text.as_bytes();
            let mut chunks = Vec::new();
            let mut rest = bytes;
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let whole = captured(limit, &[bytes]);
            prop_assert_eq!(&whole, &captured(limit, &chunks));
            if bytes.len() <= limit / 2 * 2 {
                prop_assert_eq!(whole, text);
            } else {
                let (head, rest) = whole.split_once("\n[... ").unwrap();
                let (cut, tail) = rest.split_once(" bytes cut ...]\n").unwrap();
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!(head.len() + tail.len() + cut.parse::<usize>().unwrap(), text.len());
                prop_assert!(head.len() + tail.len() <= limit);
            }
        }
    }
}
