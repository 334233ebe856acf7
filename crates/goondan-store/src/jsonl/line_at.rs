//! Reads single records of the log by their offsets.

use std::io;

use super::checksum;
use crate::fs::DataFile;
use crate::record::InboxRecord;

/// Number of bytes per read.
const BLOCK: usize = 8 * 1024;

/// Reads the sealed record at an offset.
///
/// # Errors
/// Fails with a description if there is no intact record.
pub(super) fn read_record(file: &mut dyn DataFile, at: u64) -> Result<InboxRecord, String> {
    let line = read_line(file, at).map_err(|error| error.to_string())?;
    if !checksum::is_sealed(&line) || !checksum::is_intact(&line) {
        return Err("its checksum does not match".to_owned());
    }
    serde_json::from_slice(&line).map_err(|error| error.to_string())
}

/// Reads the line at an offset, with its line break.
fn read_line(file: &mut dyn DataFile, at: u64) -> io::Result<Vec<u8>> {
    let end = file.len()?;
    let mut line = Vec::new();
    loop {
        let start = at + line.len() as u64;
        let left = usize::try_from(end.saturating_sub(start)).unwrap_or(BLOCK);
        if left == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let before = line.len();
        line.resize(before + left.min(BLOCK), 0);
        file.read_at(start, &mut line[before..])?;
        if let Some(line_break) = line[before..].iter().position(|byte| *byte == b'\n') {
            line.truncate(before + line_break + 1);
            return Ok(line);
        }
    }
}
