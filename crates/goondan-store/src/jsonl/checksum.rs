//! Checksums and sequence numbers of lines. A line that is a JSON object ends with the fields `seq`,
//! its number in the file, and `crc`, the CRC32C of all bytes before that field. Lines of earlier
//! versions have neither field.

use std::io::Write as _;

/// Reversed Castagnoli polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Tables for eight bytes at a time.
const TABLES: [[u32; 256]; 8] = tables();

const FIELD: &[u8] = b",\"crc\":\"";

const SEQUENCE_FIELD: &[u8] = b",\"seq\":";

/// Length of the largest sequence number.
const MAX_SEQUENCE_DIGITS: usize = 20;

/// Upper bound for the length of both fields, with the line break.
pub(super) const MAX_SEAL_BYTES: usize =
    SEQUENCE_FIELD.len() + MAX_SEQUENCE_DIGITS + SUFFIX_BYTES + 1;

const HEX_DIGITS: usize = 8;

/// Length of the field, with the braces of the object.
const SUFFIX_BYTES: usize = FIELD.len() + HEX_DIGITS + 2;

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Returns the CRC32C of `bytes`.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let word = u64::from_le_bytes(*chunk) ^ u64::from(crc);
        crc = word
            .to_le_bytes()
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)]);
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

/// Returns the checksum as it is written, with leading zeros.
fn hex_digits(crc: u32) -> [u8; HEX_DIGITS] {
    let mut digits = [0; HEX_DIGITS];
    write!(&mut digits[..], "{crc:08x}").expect("the digits fit");
    digits
}

/// Adds the sequence number and the checksum to the JSON object that begins at `start` and ends with
/// `bytes`. Other values stay unchanged.
pub(super) fn seal(bytes: &mut Vec<u8>, start: usize, sequence: Option<u64>) {
    let object = &bytes[start..];
    if object.len() <= 2 || object.first() != Some(&b'{') {
        return;
    }
    bytes.pop();
    if let Some(sequence) = sequence {
        bytes.extend_from_slice(SEQUENCE_FIELD);
        write!(bytes, "{sequence}").expect("a Vec takes everything");
    }
    let crc = crc32c(&bytes[start..]);
    bytes.extend_from_slice(FIELD);
    bytes.extend_from_slice(&hex_digits(crc));
    bytes.extend_from_slice(b"\"}");
}

/// Returns the fields of a sealed line before its checksum, and the digits of the checksum; `None`
/// if the line has no checksum.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_end();
    let (object, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_BYTES)?)?;
    let digits = suffix.strip_prefix(FIELD)?.strip_suffix(b"\"}")?;
    Some((object, digits))
}

/// Checks the checksum of a line, if it has one.
pub(super) fn is_intact(line: &[u8]) -> bool {
    split(line).is_none_or(|(object, digits)| digits == hex_digits(crc32c(object)))
}

/// Returns true if the line has a checksum, right or wrong.
pub(super) fn is_sealed(line: &[u8]) -> bool {
    split(line).is_some()
}

/// Returns the sequence number of a sealed line. The line may lack its beginning.
pub(super) fn sequence_number(line: &[u8]) -> Option<u64> {
    split_sequence(split(line)?.0).1
}

/// Splits the sequence number from the fields before the checksum.
fn split_sequence(object: &[u8]) -> (&[u8], Option<u64>) {
    let digits = object
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (rest, digits) = object.split_at(object.len() - digits);
    let number = || std::str::from_utf8(digits).ok()?.parse().ok();
    match rest.strip_suffix(SEQUENCE_FIELD).zip(number()) {
        Some((fields, number)) => (fields, Some(number)),
        None => (object, None),
    }
}

/// Appends a line, including its line break, with another sequence number and a new checksum.
pub(super) fn reseal(bytes: &mut Vec<u8>, line: &[u8], sequence: Option<u64>) {
    let start = bytes.len();
    match split(line) {
        Some((object, _)) => {
            bytes.extend_from_slice(split_sequence(object).0);
            bytes.push(b'}');
        }
        None => bytes.extend_from_slice(line.trim_ascii_end()),
    }
    seal(bytes, start, sequence);
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        // Check values of RFC 3720.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn each_changed_byte_of_the_data_is_detected() {
        let mut line = br#"x{"record":"accepted","text":"charge"}"#.to_vec();
        seal(&mut line, 1, Some(7));
        line.push(b'\n');
        let line = &line[1..];
        assert!(is_intact(line) && serde_json::from_slice::<serde_json::Value>(line).is_ok());
        // Changes to the checksum's field name are not tested: the line then counts as a line of an
        // earlier version.
        for at in 0..line.len() - "\n".len() - SUFFIX_BYTES {
            let mut changed = line.to_vec();
            changed[at] ^= 1;
            assert!(!is_intact(&changed), "byte {at}");
        }
        let mut changed = line.to_vec();
        let last_digit = line.len() - 4;
        changed[last_digit] ^= 1;
        assert!(!is_intact(&changed));
    }

    #[test]
    fn lines_without_a_checksum_are_accepted() {
        for line in [&b"{\"record\":\"accepted\"}\n"[..], b"{}\n", b"3\n", b"\n"] {
            assert!(is_intact(line));
        }
        let mut number = b"12345678901234567890".to_vec();
        seal(&mut number, 0, Some(1));
        assert_eq!(number, b"12345678901234567890");
    }

    #[test]
    fn a_sequence_number_can_be_read_and_replaced() {
        let mut line = br#"{"seq":4}"#.to_vec();
        seal(&mut line, 0, Some(12));
        assert_eq!(sequence_number(&line), Some(12));
        assert_eq!(sequence_number(&line[3..]), Some(12));
        let mut other = Vec::new();
        reseal(&mut other, &line, Some(3));
        assert!(is_intact(&other) && other.starts_with(br#"{"seq":4,"seq":3,"crc":"#));
        let mut old = Vec::new();
        reseal(&mut old, &other, None);
        assert_eq!((sequence_number(&old), is_sealed(&old)), (None, true));
        let mut plain = Vec::new();
        reseal(&mut plain, b"{\"a\":1}\n", Some(1));
        assert_eq!(sequence_number(&plain), Some(1));
    }
}
