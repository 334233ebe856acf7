//! Detects text in encodings other than UTF-8. Such files are refused with the name of the
//! encoding, because they would be displayed or changed incorrectly.

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileEncoding {
    /// Text in UTF-8.
    Text,
    /// Text in another encoding, with its name for `iconv`.
    Foreign(&'static str),
    Binary,
}

/// Detects the type from the first bytes of a file, which may end within a character.
pub(crate) fn detect_encoding(start: &[u8]) -> FileEncoding {
    const BYTE_ORDER_MARKS: &[(&[u8], &str)] = &[
        (b"\xff\xfe\0\0", "UTF-32"),
        (b"\0\0\xfe\xff", "UTF-32"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    ];
    if let Some((_, name)) = BYTE_ORDER_MARKS
        .iter()
        .find(|(mark, _)| start.starts_with(mark))
    {
        return FileEncoding::Foreign(name);
    }
    if start.contains(&0) {
        return utf_16_without_mark(start).map_or(FileEncoding::Binary, FileEncoding::Foreign);
    }
    match std::str::from_utf8(start) {
        Ok(_) => FileEncoding::Text,
        Err(error) if error.error_len().is_none() => FileEncoding::Text,
        Err(_) if start.iter().copied().all(is_printed) => FileEncoding::Foreign("ISO-8859-1"),
        Err(_) => FileEncoding::Binary,
    }
}

/// Converts text in UTF-8, UTF-16 or a single-byte encoding to a string without a byte order mark.
/// Returns the bytes if they are not text, or are in UTF-32.
pub(crate) fn decoded_text(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let encoding = match detect_encoding(&bytes) {
        FileEncoding::Text => encoding_rs::UTF_8,
        FileEncoding::Foreign("ISO-8859-1") => encoding_rs::WINDOWS_1252,
        FileEncoding::Foreign("UTF-16BE") => encoding_rs::UTF_16BE,
        FileEncoding::Foreign("UTF-16" | "UTF-16LE") => encoding_rs::UTF_16LE,
        FileEncoding::Foreign(_) | FileEncoding::Binary => return Err(bytes),
    };
    // A byte order mark selects the byte order.
    Ok(encoding.decode(&bytes).0.into_owned())
}

/// Detects UTF-16 without a byte order mark. Western text has a zero in every second byte, and no
/// other zeros.
fn utf_16_without_mark(start: &[u8]) -> Option<&'static str> {
    let (pairs, _) = start.as_chunks::<2>();
    let all_pairs = |test: fn(&[u8; 2]) -> bool| pairs.len() > 1 && pairs.iter().all(test);
    if all_pairs(|&[low, high]| high == 0 && is_printed(low) && low.is_ascii()) {
        Some("UTF-16LE")
    } else if all_pairs(|&[high, low]| high == 0 && is_printed(low) && low.is_ascii()) {
        Some("UTF-16BE")
    } else {
        None
    }
}

/// Returns true for a byte that occurs in text of a single-byte encoding.
fn is_printed(byte: u8) -> bool {
    !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c' | b'\x1b')
}

/// Creates the error for a text in another encoding.
pub(crate) fn encoding_error(path: &str, encoding: &str) -> HandlerError {
    let said = match encoding {
        "ISO-8859-1" => "in a single-byte encoding such as ISO-8859-1 or Windows-1252".to_owned(),
        other => format!("in {other}"),
    };
    HandlerError::new(format!("`{path}` is text {said}; only UTF-8 is supported"))
        .code(Code::TOOL_ENCODING)
        .suggest(format!(
            "convert it first, for example with `iconv -f {encoding} -t UTF-8`"
        ))
}

/// Creates the error for a file that cannot be changed as text.
pub(crate) fn not_text_error(path: &str, bytes: &[u8]) -> HandlerError {
    match detect_encoding(bytes) {
        FileEncoding::Foreign(encoding) => encoding_error(path, encoding),
        FileEncoding::Text | FileEncoding::Binary => HandlerError::new(format!(
            "`{path}` is not UTF-8 text, so it cannot be edited"
        ))
        .code(Code::TOOL_WRONG_FILE_TYPE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf_16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn utf_8_utf_16_and_windows_1252_text_is_decoded() {
        let read = |bytes: &[u8]| decoded_text(bytes.to_vec()).ok();
        let text = Some("na\u{EF}ve \u{20AC}".to_owned());
        assert_eq!(read("\u{FEFF}na\u{EF}ve \u{20AC}".as_bytes()), text);
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            assert_eq!(read(&utf_16("\u{FEFF}na\u{EF}ve \u{20AC}", order)), text);
            assert_eq!(read(&utf_16("plain", order)).as_deref(), Some("plain"));
        }
        assert_eq!(read(b"na\xefve \x80"), text);
        assert_eq!(read(b"\xff\xfe\0\0a\0\0\0"), None);
        assert_eq!(read(b"ab\0\0cd"), None);
    }

    #[test]
    fn encodings_are_detected() {
        let cases: &[(&[u8], FileEncoding)] = &[
            (b"", FileEncoding::Text),
            (b"plain\n", FileEncoding::Text),
            ("\u{FEFF}na\u{EF}ve".as_bytes(), FileEncoding::Text),
            // The last character is incomplete.
            (b"na\xc3", FileEncoding::Text),
            (b"\x1b[1mbold\x1b[0m \x08", FileEncoding::Text),
            (b"na\xefve caf\xe9\r\n", FileEncoding::Foreign("ISO-8859-1")),
            (b"\xff\xd8\xff\xe0\x01\x02", FileEncoding::Binary),
            (b"ab\0\0cd", FileEncoding::Binary),
            (b"\0", FileEncoding::Binary),
            (
                &utf_16("\u{FEFF}a\u{4E2D}", u16::to_le_bytes),
                FileEncoding::Foreign("UTF-16"),
            ),
            (
                &utf_16("\u{FEFF}a", u16::to_be_bytes),
                FileEncoding::Foreign("UTF-16"),
            ),
            (
                &utf_16("hello\r\n", u16::to_le_bytes),
                FileEncoding::Foreign("UTF-16LE"),
            ),
            (
                &utf_16("hello\r\n", u16::to_be_bytes),
                FileEncoding::Foreign("UTF-16BE"),
            ),
            (b"\xff\xfe\0\0a\0\0\0", FileEncoding::Foreign("UTF-32")),
            (b"\0\0\xfe\xff\0\0\0a", FileEncoding::Foreign("UTF-32")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(detect_encoding(bytes), *expected, "{bytes:?}");
        }
    }
}
