//! Searches single files, and combines the results of many files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

/// Maximum number of bytes shown of a line.
const MAX_SHOWN_LINE_BYTES: usize = 500;

/// Maximum number of bytes in a line of a searched file.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// A line of a result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SearchResultLine {
    /// A matching line.
    Match { number: u64, text: String },
    /// A line of context.
    Beside { number: u64, text: String },
    /// A gap between lines.
    Gap,
    /// A match in binary data, which is not shown.
    Binary,
}

/// The results of the first files in path order, up to a number of matches. Files are added in any
/// order.
pub(super) struct SearchResults {
    /// Number of matches; later files are dropped after one match more.
    min_matches: usize,
    files: BTreeMap<PathBuf, Vec<SearchResultLine>>,
    matches: usize,
}

impl SearchResults {
    /// Creates a collection for at least `min_matches` matches, if they exist, and the matches of
    /// one further file.
    pub(super) fn new(min_matches: u32) -> Self {
        SearchResults {
            min_matches: usize::try_from(min_matches).unwrap_or(usize::MAX),
            files: BTreeMap::new(),
            matches: 0,
        }
    }

    /// Returns true if [`SearchResults::add`] would keep matches of `file`: there are too few
    /// matches, or the file precedes the last one. Other files need no search.
    pub(super) fn may_include(&self, file: &Path) -> bool {
        self.matches <= self.min_matches
            || self
                .files
                .last_key_value()
                .is_none_or(|(last, _)| file < last.as_path())
    }

    /// Adds the matches of a file, and drops files that follow enough matches.
    pub(super) fn add(&mut self, file: &Path, lines: Vec<SearchResultLine>) {
        let new_matches = matches(&lines);
        if new_matches == 0 || !self.may_include(file) {
            return;
        }
        self.matches += new_matches;
        self.files.insert(file.to_owned(), lines);
        while let Some(last) = self.files.last_entry() {
            let without = self.matches - matches(last.get());
            if without <= self.min_matches {
                break;
            }
            self.matches = without;
            last.remove();
        }
    }

    /// Returns the files with their lines, in path order.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, &[SearchResultLine])> {
        self.files
            .iter()
            .map(|(file, lines)| (file.as_path(), lines.as_slice()))
    }
}

/// Returns the number of matching lines.
fn matches(lines: &[SearchResultLine]) -> usize {
    lines
        .iter()
        .filter(|line| {
            matches!(
                line,
                SearchResultLine::Match { .. } | SearchResultLine::Binary
            )
        })
        .count()
}

/// Creates a searcher. It also searches files that contain NUL bytes.
pub(super) fn build_searcher(context: usize) -> Searcher {
    let mut builder = SearcherBuilder::new();
    builder
        .binary_detection(BinaryDetection::none())
        .line_terminator(LineTerminator::crlf())
        .heap_limit(Some(MAX_LINE_BYTES))
        .before_context(context)
        .after_context(context)
        .build()
}

/// Searches one file, up to one match more than the limit.
///
/// # Errors
/// Fails if the file cannot be read, or if a line exceeds [`MAX_LINE_BYTES`].
pub(super) fn search_file(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    file: &File,
    max_matches: u32,
) -> io::Result<Vec<SearchResultLine>> {
    let mut lines = MatchCollector {
        matcher,
        lines: Vec::new(),
        left: u64::from(max_matches) + 1,
    };
    searcher.search_file(matcher, file, &mut lines)?;
    Ok(lines.lines)
}

struct MatchCollector<'a> {
    matcher: &'a RegexMatcher,
    lines: Vec<SearchResultLine>,
    /// Number of matches that are still collected.
    left: u64,
}

impl Sink for &mut MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if is_binary(line.bytes()) {
            self.lines.push(SearchResultLine::Binary);
            return Ok(false);
        }
        self.left -= 1;
        let first_match = self.matcher.find(line.bytes()).ok().flatten();
        self.lines.push(SearchResultLine::Match {
            number: line.line_number().unwrap_or(0),
            text: line_excerpt(line.bytes(), first_match.map_or(0, |hit| hit.start())),
        });
        Ok(self.left > 0)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.lines.push(SearchResultLine::Beside {
            number: line.line_number().unwrap_or(0),
            text: line_excerpt(line.bytes(), 0),
        });
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.lines.push(SearchResultLine::Gap);
        Ok(true)
    }
}

/// Returns true if a line is not text. A few NUL bytes in text do not make it binary.
fn is_binary(line: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, 0 | b'\t' | b'\n' | b'\r' | 0x1b);
    line.contains(&0) && (std::str::from_utf8(line).is_err() || line.iter().any(is_control))
}

/// Returns a line without its end. A long line is truncated to the part around the byte `found`.
fn line_excerpt(line: &[u8], found: usize) -> String {
    let (before, after) = line.split_at(found.min(line.len()));
    let before = String::from_utf8_lossy(before).replace('\0', "\\0");
    let line = before.clone() + &String::from_utf8_lossy(after).replace('\0', "\\0");
    let line = line.trim_end_matches(['\n', '\r']);
    if line.len() <= MAX_SHOWN_LINE_BYTES {
        return line.to_owned();
    }
    // The match begins in the first half of the shown part.
    let start = if before.len() > MAX_SHOWN_LINE_BYTES / 2 {
        line.floor_char_boundary(before.len() - MAX_SHOWN_LINE_BYTES / 4)
    } else {
        0
    };
    let end = line.floor_char_boundary(start + MAX_SHOWN_LINE_BYTES);
    let cut_before = if start > 0 { "[cut] " } else { "" };
    let cut_after = if end < line.len() { " [cut]" } else { "" };
    format!("{cut_before}{}{cut_after}", &line[start..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(count: usize) -> Vec<SearchResultLine> {
        (0..count)
            .map(|_| SearchResultLine::Match {
                number: 1,
                text: String::new(),
            })
            .collect()
    }

    proptest! {
        /// The order of adding files does not matter: the first files with enough matches are kept.
        #[test]
        fn search_results_do_not_depend_on_insertion_order(
            found in prop::collection::btree_map("[a-z]{1,3}", 0..5_usize, 0..20),
            most in 1..12_u32,
            seed in any::<u64>(),
        ) {
            let mut expected = Vec::new();
            let mut sum = 0;
            for (file, count) in found.iter().filter(|(_, count)| **count > 0) {
                if sum > most as usize {
                    break;
                }
                sum += count;
                expected.push(PathBuf::from(file));
            }
            let mut insertions: Vec<_> = found.iter().collect();
            insertions.sort_by_key(|(file, _)| file.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)));
            let mut hits = SearchResults::new(most);
            for (file, count) in insertions {
                if hits.may_include(Path::new(file)) {
                    hits.add(Path::new(file), lines(*count));
                }
            }
            prop_assert_eq!(hits.files().map(|(file, _)| file.to_owned()).collect::<Vec<_>>(), expected);
        }
    }
}
