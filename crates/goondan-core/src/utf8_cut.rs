//! Cuts of a byte stream that keep each character whole.
//!
//! A read, a poll or a limit can end within a character. Converted separately, both parts would
//! become replacement characters, and the character would be lost.

/// Returns the number of bytes at the end that begin a character without completing it.
fn unfinished_bytes(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last() {
        Some(last)
            if std::str::from_utf8(last.invalid())
                .is_err_and(|error| error.error_len().is_none()) =>
        {
            last.invalid().len()
        }
        _ => 0,
    }
}

/// Drops an unfinished character at the end.
pub fn without_cut_end(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() - unfinished_bytes(bytes)]
}

/// Drops the rest of an unfinished character at the start.
pub fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000);
    &bytes[continuation.count()..]
}

/// Takes the text up to an unfinished character, which stays in `bytes` for the next piece.
pub fn take_text(bytes: &mut Vec<u8>) -> String {
    let rest = bytes.split_off(bytes.len() - unfinished_bytes(bytes));
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_incomplete_characters_are_kept_back() {
        let mut bytes = b"caf\xc3".to_vec();
        assert_eq!(
            (take_text(&mut bytes).as_str(), &bytes[..]),
            ("caf", &b"\xc3"[..])
        );
        bytes.extend(b"\xa9\xff");
        assert_eq!(
            (take_text(&mut bytes).as_str(), bytes.len()),
            ("\u{e9}\u{fffd}", 0)
        );
        assert_eq!(without_cut_end("a\u{20ac}".as_bytes()).len(), 4);
        assert_eq!(without_cut_end(&"a\u{20ac}".as_bytes()[..3]), b"a");
        assert_eq!(without_cut_start(&"\u{20ac}b".as_bytes()[1..]), b"b");
    }

    proptest! {
        #[test]
        fn the_output_of_all_chunks_equals_the_text(text in "[a-z\u{e9}\u{20ac}\u{1f600}]{0,30}", size in 1usize..6) {
            let mut bytes = Vec::new();
            let mut output = String::new();
            for piece in text.as_bytes().chunks(size) {
                bytes.extend_from_slice(piece);
                output.push_str(&take_text(&mut bytes));
            }
            prop_assert_eq!((output, bytes.len()), (text, 0));
        }
    }
}
