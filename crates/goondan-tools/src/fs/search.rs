//! Searches single files, and combines the results of many files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

/// Maximum number of bytes shown of a line.
const MAX_SHOWN_LINE_BYTES: usize = 500;

/// A line of a result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SearchResultLine {
    /// A matching line.
    Match { number: u64, text: String },
    /// A line of context.
    Beside { number: u64, text: String },
    /// A gap between lines.
    Gap,
}

/// The results of the first files in path order, up to a number of matches. Files are added in any
/// order.
pub(super) struct SearchResults {
    /// Number of matches after which later files are dropped.
    most: usize,
    files: BTreeMap<PathBuf, Vec<SearchResultLine>>,
    matches: usize,
}

impl SearchResults {
    /// Creates a collection for at least `min_matches` matches, if they exist, and the matches of
    /// one further file.
    pub(super) fn new(min_matches: u32) -> Self {
        SearchResults {
            most: usize::try_from(min_matches).unwrap_or(usize::MAX),
            files: BTreeMap::new(),
            matches: 0,
        }
    }

    /// Returns true if the matches of `file` would be in the result.
    pub(super) fn may_include(&self, file: &Path) -> bool {
        self.matches <= self.most
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
            if without <= self.most {
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
        .filter(|line| matches!(line, SearchResultLine::Match { .. }))
        .count()
}

/// Creates a searcher for text files. A file with a zero byte is not text.
pub(super) fn searcher(context: usize) -> Searcher {
    let mut builder = SearcherBuilder::new();
    builder
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context)
        .after_context(context)
        .build()
}

/// Searches one file, up to one match more than the limit. An unreadable file has no matches.
pub(super) fn search_file(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    file: &File,
    max_matches: u32,
) -> Vec<SearchResultLine> {
    let mut lines = MatchCollector {
        lines: Vec::new(),
        left: u64::from(max_matches) + 1,
    };
    let _ = searcher.search_file(matcher, file, &mut lines);
    lines.lines
}

struct MatchCollector {
    lines: Vec<SearchResultLine>,
    /// Number of matches that are still collected.
    left: u64,
}

impl Sink for &mut MatchCollector {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.left -= 1;
        self.lines.push(SearchResultLine::Match {
            number: line.line_number().unwrap_or(0),
            text: shown(line.bytes()),
        });
        Ok(self.left > 0)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.lines.push(SearchResultLine::Beside {
            number: line.line_number().unwrap_or(0),
            text: shown(line.bytes()),
        });
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.lines.push(SearchResultLine::Gap);
        Ok(true)
    }
}

/// Returns a line without its end, truncated if it is too long.
fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    let end = line.floor_char_boundary(MAX_SHOWN_LINE_BYTES);
    let more = if end < line.len() { " [cut]" } else { "" };
    format!("{}{more}", &line[..end])
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
        fn the_order_of_arrival_does_not_matter(
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
            let mut arrivals: Vec<_> = found.iter().collect();
            arrivals.sort_by_key(|(file, _)| file.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)));
            let mut hits = SearchResults::new(most);
            for (file, count) in arrivals {
                if hits.may_include(Path::new(file)) {
                    hits.add(Path::new(file), lines(*count));
                }
            }
            prop_assert_eq!(hits.files().map(|(file, _)| file.to_owned()).collect::<Vec<_>>(), expected);
        }
    }
}
