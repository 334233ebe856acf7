//! JSON Lines that may have been cut off while they were written.

use std::io;
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::fs::{FileSystem, RealFs};

/// What a file of JSON Lines holds.
pub(super) struct Lines<T> {
    /// What each readable line says, and where it stands in the file, its line break included.
    pub(super) values: Vec<(T, Range<usize>)>,
    /// What could not be read, for people.
    pub(super) warnings: Vec<String>,
    /// Where the first line begins that is not readable; the end of the last line where all are.
    pub(super) sound_until: usize,
}

impl<T> Lines<T> {
    fn new() -> Self {
        Lines { values: Vec::new(), warnings: Vec::new(), sound_until: 0 }
    }

    /// Without the places.
    pub(super) fn into_values(self) -> (Vec<T>, Vec<String>) {
        (self.values.into_iter().map(|(value, _)| value).collect(), self.warnings)
    }
}

/// Reads every line of `path`; no file is an empty file. A last line without its line break was cut off while it was
/// written and does not count; any other line that can't be read is left out too. Both are told in warnings.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> io::Result<(Vec<T>, Vec<String>)> {
    read(&RealFs, path).map(Lines::into_values)
}

/// As [`read_lines`], on `fs`.
pub(super) fn read<T: DeserializeOwned>(fs: &dyn FileSystem, path: &Path) -> io::Result<Lines<T>> {
    let bytes = fs.read_if_there(path)?;
    Ok(bytes.map_or_else(Lines::new, |bytes| parse(&bytes, path)))
}

/// Adds a line for each value.
pub(super) fn encode<T: Serialize>(bytes: &mut Vec<u8>, values: impl IntoIterator<Item = T>) -> io::Result<()> {
    for value in values {
        serde_json::to_writer(&mut *bytes, &value)?;
        bytes.push(b'\n');
    }
    Ok(())
}

/// What the readable lines of a file say, one at a time: the same ones, in the same order, as [`read`] gives.
pub(super) fn values<T: DeserializeOwned>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| parse_line(line).ok().flatten())
}

fn parse<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> Lines<T> {
    let mut lines = Lines::new();
    let mut is_sound = true;
    let mut end = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let place = end..end + line.len();
        end = place.end;
        match parse_line(line) {
            Ok(Some(value)) => lines.values.push((value, place)),
            Ok(None) => {}
            Err(problem) => {
                is_sound = false;
                lines.warnings.push(format!("{}:{}: {problem}", path.display(), index + 1));
            }
        }
        if is_sound {
            lines.sound_until = end;
        }
    }
    lines
}

/// `None` for an empty line.
fn parse_line<T: DeserializeOwned>(line: &[u8]) -> Result<Option<T>, String> {
    if line.last() != Some(&b'\n') {
        return Err(format!("dropped a line that was cut off ({} bytes)", line.len()));
    }
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(line).map(Some).map_err(|error| format!("left out a line that can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_tail_is_told() {
        let lines = parse::<u32>(b"1\n2\n{\"half", Path::new("x.jsonl"));
        assert_eq!(lines.sound_until, 4);
        let (values, warnings) = lines.into_values();
        assert_eq!(values, [1, 2]);
        assert_eq!(warnings, ["x.jsonl:3: dropped a line that was cut off (6 bytes)"]);
    }

    #[test]
    fn garbage_in_the_middle_is_left_out() {
        let lines = parse::<u32>(b"1\n\n\x00\xff\n2\n", Path::new("x.jsonl"));
        assert_eq!(lines.values, [(1, 0..2), (2, 6..8)]);
        assert_eq!(values::<u32>(b"1\n\n\x00\xff\n2\n3").collect::<Vec<_>>(), [1, 2]);
        assert_eq!((lines.warnings.len(), lines.sound_until), (1, 3));
    }
}
