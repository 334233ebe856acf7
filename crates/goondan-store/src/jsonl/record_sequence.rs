//! Checks that the records of a file are complete and in order, by their sequence numbers.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::checksum;
use super::file_format::{self, FoundHeader};
use super::lines::JsonlFileLine;

/// Number of missing sequence numbers up to which each is remembered. A larger gap is the effect of a
/// wrong number rather than of lost lines.
const PLAUSIBLE_GAP: u64 = 100_000;

/// Content of a line, according to its header, checksum and sequence number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineContent {
    /// An empty line, a header, or a second copy of an earlier record.
    Nothing,
    /// A record, with its position among the records of the file.
    Record(u64),
    /// A line that must not be used, with the reason.
    Damaged(String),
    /// The incomplete last line of an interrupted write, with its description.
    CutOff(String),
}

/// Tracks the sequence numbers of one file, line by line.
pub(super) struct RecordSequence {
    path: PathBuf,
    /// The number of the next record.
    next: u64,
    /// True if the records of the file have numbers.
    is_numbered: bool,
    /// Numbers that were skipped and did not come later.
    missing: BTreeSet<u64>,
    /// Numbers assigned to lines with an unknown number.
    assumed: BTreeSet<u64>,
    /// Problems that do not make a line unusable, each with its line number.
    problems: Vec<String>,
    /// True if every record came in its order, exactly once.
    is_in_order: bool,
}

impl RecordSequence {
    /// Creates the check of the file at `path`.
    pub(super) fn new(path: &Path) -> Self {
        RecordSequence {
            path: path.to_owned(),
            next: 1,
            is_numbered: false,
            missing: BTreeSet::new(),
            assumed: BTreeSet::new(),
            problems: Vec::new(),
            is_in_order: true,
        }
    }

    /// Checks the next line.
    ///
    /// # Errors
    /// Fails if a newer program wrote the file.
    pub(super) fn check(&mut self, line: &JsonlFileLine<'_>) -> io::Result<LineContent> {
        if line.bytes.last() != Some(&b'\n') {
            self.skip_damaged_line();
            let length = line.bytes.len();
            let problem = format!("dropped a line that was cut off ({length} bytes)");
            return Ok(LineContent::CutOff(problem));
        }
        if let Some(header) = file_format::read_header(line.bytes, &self.path)? {
            self.header(line, header);
            return Ok(LineContent::Nothing);
        }
        if line.bytes.trim_ascii().is_empty() {
            return Ok(LineContent::Nothing);
        }
        if !checksum::is_intact(line.bytes) {
            let problem = "skipped a line that was changed: its checksum does not match";
            self.skip_damaged_line();
            return Ok(LineContent::Damaged(problem.to_owned()));
        }
        Ok(match checksum::sequence_number(line.bytes) {
            Some(number) => self.check_number(line, number),
            None => self.without_number(line),
        })
    }

    /// Records that the record in a line, which was reported as intact, can't be decoded.
    pub(super) fn record_undecodable(&mut self) {
        self.is_in_order = false;
    }

    /// Returns true if every line so far was intact and in its place.
    pub(super) fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// Returns the number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the problems so far, including missing records.
    pub(super) fn into_problems(mut self) -> Vec<String> {
        let mut missing = self.missing.iter().copied().peekable();
        while let Some(first) = missing.next() {
            let mut last = first;
            while missing.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            let path = self.path.display();
            self.problems.push(match first == last {
                true => format!("{path}: record {first} is missing"),
                false => format!("{path}: records {first} to {last} are missing"),
            });
        }
        self.problems
    }

    fn report_problem(&mut self, line: &JsonlFileLine<'_>, problem: &str) {
        self.is_in_order = false;
        let path = self.path.display();
        self.problems
            .push(format!("{path}:{}: {problem}", line.number));
    }

    fn header(&mut self, line: &JsonlFileLine<'_>, header: FoundHeader) {
        let is_first = line.number == 1;
        self.is_numbered |= is_first;
        match header {
            FoundHeader::Damaged(problem) => self.report_problem(line, &problem),
            FoundHeader::Intact if !is_first => {
                self.report_problem(line, "a header is inside the file")
            }
            FoundHeader::Intact => {}
        }
    }

    /// Advances the sequence by one for a damaged line, whose number cannot be read.
    fn skip_damaged_line(&mut self) {
        self.is_in_order = false;
        self.assumed.insert(self.next);
        self.next += 1;
    }

    fn check_number(&mut self, line: &JsonlFileLine<'_>, number: u64) -> LineContent {
        if line.number == 1 {
            self.report_problem(line, "the header is missing");
        }
        self.is_numbered = true;
        if number == self.next {
            self.next += 1;
        } else if self.assumed.contains(&number) {
            // Lines before this one were no records, or fewer than assumed.
            self.assumed.split_off(&number);
            self.next = number + 1;
        } else if number < self.next {
            if !self.missing.remove(&number) {
                self.report_problem(line, &format!("left out a second copy of record {number}"));
                return LineContent::Nothing;
            }
            self.report_problem(line, &format!("record {number} is not in its place"));
        } else if number - self.next > PLAUSIBLE_GAP {
            let problem = format!("the records between {} and {number} are missing", self.next);
            self.report_problem(line, &problem);
            self.next = number + 1;
        } else {
            self.is_in_order = false;
            self.missing.extend(self.next..number);
            self.next = number + 1;
        }
        LineContent::Record(number)
    }

    /// An intact line of an earlier version, or one whose checksum field lost its name.
    fn without_number(&mut self, line: &JsonlFileLine<'_>) -> LineContent {
        let number = self.next;
        self.next += 1;
        if self.is_numbered {
            self.assumed.insert(number);
            self.report_problem(
                line,
                match checksum::is_sealed(line.bytes) {
                    true => "a record has no sequence number: an earlier gdn wrote it",
                    false => "a record has no checksum: its content could not be verified",
                },
            );
        }
        LineContent::Record(number)
    }
}
