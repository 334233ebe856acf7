//! JSON Lines files whose writer may have been interrupted.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::record_sequence::{LineContent, RecordSequence};
use super::{checksum, file_format};
use crate::fs::{DataFile, FileSystem, RealFs};

pub(super) struct ParsedLines<T> {
    /// The records in their order, each with its byte range including the line break.
    pub(super) values: Vec<(T, Range<usize>)>,
    pub(super) warnings: Vec<LineWarning>,
    /// Start of the first line that is damaged or not in its place, or the end of the last line.
    pub(super) sound_until: usize,
}

/// Problem of a file that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineWarning {
    /// Message about an incomplete last line: a write was interrupted.
    CutOff(String),
    /// Message about a damaged line.
    Damage(String),
}

impl fmt::Display for LineWarning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (LineWarning::CutOff(text) | LineWarning::Damage(text)) = self;
        out.write_str(text)
    }
}

impl<T> ParsedLines<T> {
    fn new() -> Self {
        ParsedLines {
            values: Vec::new(),
            warnings: Vec::new(),
            sound_until: 0,
        }
    }

    /// Drops the byte ranges.
    pub(super) fn into_values(self) -> (Vec<T>, Vec<String>) {
        (
            self.values.into_iter().map(|(value, _)| value).collect(),
            self.warnings.iter().map(LineWarning::to_string).collect(),
        )
    }
}

/// Reads every line of `path`. A missing file counts as empty. An incomplete last line and
/// unreadable lines are skipped and reported as warnings.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> io::Result<(Vec<T>, Vec<String>)> {
    read(&RealFs, path).map(ParsedLines::into_values)
}

/// Reads lines like [`read_lines`], on `fs`.
pub(super) fn read<T: DeserializeOwned>(
    fs: &dyn FileSystem,
    path: &Path,
) -> io::Result<ParsedLines<T>> {
    match fs.read_if_there(path)? {
        Some(bytes) => parse(&bytes, path),
        None => Ok(ParsedLines::new()),
    }
}

/// Appends each value to `bytes` as one line of JSON, without checksum and sequence number.
pub(super) fn encode<T: Serialize>(
    bytes: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    for value in values {
        serde_json::to_writer(&mut *bytes, &value)?;
        bytes.push(b'\n');
    }
    Ok(())
}

/// Appends complete lines with checksums, and with sequence numbers from `next` on. Returns the
/// number after the last line.
pub(super) fn encode_sealed<T: Serialize>(
    bytes: &mut Vec<u8>,
    mut next: Option<u64>,
    values: impl IntoIterator<Item = T>,
) -> io::Result<Option<u64>> {
    for value in values {
        let start = bytes.len();
        serde_json::to_writer(&mut *bytes, &value)?;
        checksum::seal(bytes, start, next);
        bytes.push(b'\n');
        next = next.map(|number| number + 1);
    }
    Ok(next)
}

/// Returns the content of a complete file. Without records the file is empty.
pub(super) fn encode_file<T: Serialize>(path: &Path, records: &[T]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !records.is_empty() {
        file_format::add_header(&mut bytes, path);
    }
    encode_sealed(&mut bytes, Some(FIRST_SEQUENCE), records)?;
    Ok(bytes)
}

/// Appends lines of [`encode`] with checksums, and with sequence numbers from `next` on. Returns
/// the number after the last line.
pub(super) fn seal_lines(
    bytes: &mut Vec<u8>,
    encoded: &[u8],
    mut next: Option<u64>,
) -> Option<u64> {
    for line in encoded.split_inclusive(|byte| *byte == b'\n') {
        let start = bytes.len();
        bytes.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        checksum::seal(bytes, start, next);
        bytes.push(b'\n');
        next = next.map(|number| number + 1);
    }
    next
}

/// Sequence number of the first record of a file.
pub(super) const FIRST_SEQUENCE: u64 = 1;

/// Reads one line at a time.
pub(super) struct LineReader<S> {
    source: S,
    line: Vec<u8>,
    number: usize,
    end: usize,
}

/// A line, including its line break if it has one.
pub(super) struct JsonlFileLine<'a> {
    pub(super) bytes: &'a [u8],
    /// Byte range in the file.
    pub(super) range: Range<usize>,
    /// Line number, starting at 1.
    pub(super) number: usize,
}

impl LineReader<BufReader<FileReader>> {
    /// Opens the file at `path` without reading it into memory; `None` if it does not exist.
    pub(super) fn open(fs: &dyn FileSystem, path: &Path) -> io::Result<Option<Self>> {
        LineReader::open_at(fs, path, 0)
    }

    /// Opens the file like [`LineReader::open`], at the start of a line. Line numbers begin there.
    pub(super) fn open_at(
        fs: &dyn FileSystem,
        path: &Path,
        start: u64,
    ) -> io::Result<Option<Self>> {
        const BUFFER: usize = 64 * 1024;
        if !fs.exists(path) {
            return Ok(None);
        }
        let file = fs.open(path)?.file;
        let reader = FileReader {
            len: file.len()?,
            file,
            at: start,
        };
        if reader.len < start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut lines = LineReader::new(BufReader::with_capacity(BUFFER, reader));
        lines.end = usize::try_from(start).map_err(io::Error::other)?;
        Ok(Some(lines))
    }
}

impl<S: BufRead> LineReader<S> {
    /// Creates a reader at the beginning of a source.
    pub(super) fn new(source: S) -> Self {
        LineReader {
            source,
            line: Vec::new(),
            number: 0,
            end: 0,
        }
    }

    /// Returns the next line, including an incomplete last line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<JsonlFileLine<'_>>> {
        self.line.clear();
        let length = self.source.read_until(b'\n', &mut self.line)?;
        if length == 0 {
            return Ok(None);
        }
        let range = self.end..self.end + length;
        self.end = range.end;
        self.number += 1;
        Ok(Some(JsonlFileLine {
            bytes: &self.line,
            range,
            number: self.number,
        }))
    }
}

impl<'a> JsonlFileLine<'a> {
    /// Decodes the record in the line. Errors name `path`.
    pub(super) fn value<T: Deserialize<'a>>(&self, path: &Path) -> Result<T, String> {
        let decoded = serde_json::from_slice(self.bytes);
        decoded.map_err(|error| {
            self.describe_problem(path, &format!("skipped a line that can't be read: {error}"))
        })
    }

    /// Returns the description of a problem with this line.
    pub(super) fn describe_problem(&self, path: &Path, problem: &str) -> String {
        format!("{}:{}: {problem}", path.display(), self.number)
    }
}

/// Reads a file from its beginning up to its length at the time of opening.
pub(super) struct FileReader {
    file: Box<dyn DataFile>,
    at: u64,
    len: u64,
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len - self.at).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        self.file.read_at(self.at, &mut buffer[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Parses all lines and puts the records in their order. Problems become warnings; `sound_until` is
/// the end of the lines before the first problem.
fn parse<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> io::Result<ParsedLines<T>> {
    let mut lines = ParsedLines::new();
    let mut sequence = RecordSequence::new(path);
    let mut numbers = Vec::new();
    let mut reader = LineReader::new(bytes);
    while let Some(line) = reader.next()? {
        match sequence.check(&line)? {
            LineContent::Nothing => {}
            LineContent::Damaged(problem) => {
                let problem = line.describe_problem(path, &problem);
                lines.warnings.push(LineWarning::Damage(problem));
            }
            LineContent::CutOff(problem) => {
                let problem = line.describe_problem(path, &problem);
                lines.warnings.push(LineWarning::CutOff(problem));
            }
            LineContent::Record(number) => match line.value(path) {
                Ok(value) => {
                    lines.values.push((value, line.range.clone()));
                    numbers.push(number);
                }
                Err(problem) => {
                    sequence.record_undecodable();
                    lines.warnings.push(LineWarning::Damage(problem));
                }
            },
        }
        if sequence.is_in_order() {
            lines.sound_until = line.range.end;
        }
    }
    let problems = sequence.into_problems().into_iter();
    lines.warnings.extend(problems.map(LineWarning::Damage));
    if !numbers.is_sorted() {
        let mut numbered: Vec<_> = numbers.into_iter().zip(lines.values).collect();
        numbered.sort_by_key(|(number, _)| *number);
        lines.values = numbered.into_iter().map(|(_, value)| value).collect();
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::SimFs;

    #[test]
    fn a_torn_tail_is_reported() {
        let lines = parse::<u32>(b"1\n2\n{\"half", Path::new("x.jsonl")).unwrap();
        assert_eq!(lines.sound_until, 4);
        let (values, warnings) = lines.into_values();
        assert_eq!(values, [1, 2]);
        assert_eq!(
            warnings,
            ["x.jsonl:3: dropped a line that was cut off (6 bytes)"]
        );
    }

    #[test]
    fn garbage_between_lines_is_skipped() {
        let lines = parse::<u32>(b"1\n\n\x00\xff\n2\n", Path::new("x.jsonl")).unwrap();
        assert_eq!(lines.values, [(1, 0..2), (2, 6..8)]);
        assert_eq!((lines.warnings.len(), lines.sound_until), (1, 3));
    }

    #[test]
    fn lines_of_any_length_are_read() {
        let (fs, path) = (SimFs::new(), Path::new("/x.jsonl"));
        let (long, tail) = (format!("\"{}\"\n", "x".repeat(200_000)), "\"torn");
        fs.put(path, format!("1\n{long}\n2\n{tail}").as_bytes());
        let mut reader = LineReader::open(&fs, path).unwrap().unwrap();
        let mut read = Vec::new();
        while let Some(line) = reader.next().unwrap() {
            read.push((
                line.bytes.len(),
                line.range.start,
                line.value::<serde_json::Value>(path).is_ok(),
            ));
        }
        let end = 3 + long.len();
        assert_eq!(
            read,
            [
                (2, 0, true),
                (long.len(), 2, true),
                (1, end - 1, false),
                (2, end, true),
                (5, end + 2, false)
            ]
        );
    }

    #[test]
    fn opening_a_reader_creates_no_file() {
        let fs = SimFs::new();
        assert!(
            LineReader::open(&fs, Path::new("/x.jsonl"))
                .unwrap()
                .is_none()
        );
        assert!(!fs.exists(Path::new("/x.jsonl")));
    }
}
