//! Checksums of lines. A line that is a JSON object ends with the field `crc`: the CRC32C of all
//! bytes before that field. Lines of earlier versions have no such field.

/// Reversed Castagnoli polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Tables for eight bytes at a time.
const TABLES: [[u32; 256]; 8] = tables();

const FIELD: &[u8] = b",\"crc\":\"";

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

/// Adds the checksum to the JSON object that begins at `start` and ends with `bytes`. Other values
/// stay unchanged.
pub(super) fn add(bytes: &mut Vec<u8>, start: usize) {
    let object = &bytes[start..];
    if object.len() <= 2 || object.first() != Some(&b'{') {
        return;
    }
    let crc = crc32c(&object[..object.len() - 1]);
    bytes.pop();
    bytes.extend_from_slice(FIELD);
    bytes.extend_from_slice(format!("{crc:08x}\"}}").as_bytes());
}

/// Checks the checksum of a line, if it has one.
pub(super) fn is_intact(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let Some((object, suffix)) = line
        .len()
        .checked_sub(SUFFIX_BYTES)
        .and_then(|at| line.split_at_checked(at))
    else {
        return true;
    };
    let Some(digits) = suffix
        .strip_prefix(FIELD)
        .and_then(|rest| rest.strip_suffix(b"\"}"))
    else {
        return true;
    };
    digits == format!("{:08x}", crc32c(object)).as_bytes()
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
    fn each_changed_byte_of_the_data_is_recognized() {
        let mut line = br#"x{"record":"accepted","text":"charge"}"#.to_vec();
        add(&mut line, 1);
        line.push(b'\n');
        let line = &line[1..];
        assert!(is_intact(line) && serde_json::from_slice::<serde_json::Value>(line).is_ok());
        // A change of the checksum's own field name leaves the data as it was: the line then counts as
        // a line of an earlier version.
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
    fn lines_of_earlier_versions_have_no_checksum() {
        for line in [&b"{\"record\":\"accepted\"}\n"[..], b"{}\n", b"3\n", b"\n"] {
            assert!(is_intact(line));
        }
        let mut number = b"12345678901234567890".to_vec();
        add(&mut number, 0);
        assert_eq!(number, b"12345678901234567890");
    }
}
