//! Searches files on all processors at once, and gives back what they hold in the order of the files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

use super::walk::processors;

/// How many bytes of a line are shown.
const LONGEST: usize = 500;
/// How many files a thread takes at a time.
const BATCH: usize = 64;

/// A line of a result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It matches.
    Match { number: u64, text: String },
    /// It stands near one that does.
    Beside { number: u64, text: String },
    /// There are lines between the last one and the next.
    Gap,
}

/// A file that holds matches.
pub(super) struct Hit {
    /// Its place in the list.
    pub(super) file: usize,
    /// What it holds.
    pub(super) lines: Vec<Line>,
}

/// Searches `files` until the first ones of them hold more than `most` matches, each thread with a searcher of its own. The
/// threads take batches in order, and finish those that they have taken: so nothing in front of a hit was left out.
pub(super) fn search_all<S>(
    files: &[PathBuf],
    most: u32,
    cancellation: &CancellationToken,
    searcher: impl Fn() -> S + Sync,
) -> Vec<Hit>
where
    S: FnMut(&Path) -> Vec<Line>,
{
    let (next, matches) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let work = || {
        let (mut search, mut hits) = (searcher(), Vec::new());
        while matches.load(Ordering::Relaxed) <= most && !cancellation.is_cancelled() {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= files.len() {
                break;
            }
            for (file, path) in files.iter().enumerate().skip(first).take(BATCH) {
                let lines = search(path);
                let found = lines.iter().filter(|line| matches!(line, Line::Match { .. })).count();
                matches.fetch_add(found, Ordering::Relaxed);
                if found > 0 {
                    hits.push(Hit { file, lines });
                }
            }
        }
        hits
    };
    let mut hits: Vec<Hit> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors().min(files.len().div_ceil(BATCH))).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    hits.sort_unstable_by_key(|hit| hit.file);
    hits
}

/// Looks into text files; one that holds a zero byte is no text.
pub(super) fn searcher(context: usize) -> Searcher {
    let mut builder = SearcherBuilder::new();
    builder.binary_detection(BinaryDetection::quit(0)).before_context(context).after_context(context).build()
}

/// What one file holds, up to one match more than are wanted. One that cannot be read holds nothing.
pub(super) fn search_file(searcher: &mut Searcher, matcher: &RegexMatcher, file: &Path, most: u32) -> Vec<Line> {
    let mut lines = Lines { lines: Vec::new(), left: u64::from(most) + 1 };
    let _ = searcher.search_path(matcher, file, &mut lines);
    lines.lines
}

/// Takes what the searcher finds in one file.
struct Lines {
    lines: Vec<Line>,
    left: u64,
}

impl Sink for &mut Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.left -= 1;
        self.lines.push(Line::Match { number: line.line_number().unwrap_or(0), text: shown(line.bytes()) });
        Ok(self.left > 0)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.lines.push(Line::Beside { number: line.line_number().unwrap_or(0), text: shown(line.bytes()) });
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.lines.push(Line::Gap);
        Ok(true)
    }
}

/// A line without its end, cut where it is too long.
fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    let end = line.floor_char_boundary(LONGEST);
    let more = if end < line.len() { " [cut]" } else { "" };
    format!("{}{more}", &line[..end])
}
