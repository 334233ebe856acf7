//! Runs all cases that were asked for, several at a time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use goondan::Database;
use regex::Regex;

use crate::case::CaseError;
use crate::case::read::Located;
use crate::discover::discover;
use crate::report::{CaseReport, Summary};
use crate::runner::run_case;

/// How long one case may take where nobody says otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// What is run, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Files with cases, and folders with `*.case.yaml` files.
    pub paths: Vec<PathBuf>,
    /// Only cases whose name contains this, or is matched by it as a regular expression.
    pub filter: Option<String>,
    /// How many cases run at the same time; twice the number of cores by default.
    pub jobs: Option<NonZeroUsize>,
    /// How long one case may take.
    pub time_limit: Duration,
    /// The database that conversations are kept in, instead of files; each case has workspaces of its own there.
    pub database: Option<Database>,
}

impl Options {
    /// All cases below `paths`, with the defaults.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Options {
            paths: paths.into_iter().collect(),
            filter: None,
            jobs: None,
            time_limit: DEFAULT_TIME_LIMIT,
            database: None,
        }
    }
}

/// Runs the cases and blocks until all have ended. `on_result` hears of each case in file order, as soon as it and all
/// before it have ended.
///
/// Call it outside of asynchronous code, or on a thread that may block: each case has a runtime of its own.
pub fn run(options: &Options, on_result: &mut dyn FnMut(&CaseReport)) -> Summary {
    let mut found = discover(&options.paths);
    if let Some(filter) = &options.filter {
        let filter = Filter::new(filter);
        found.cases.retain(|located| filter.accepts(&located.case.case));
        if found.cases.is_empty() {
            found.errors.push(nothing_left(options, filter.text));
        }
    }
    let cases = run_all(&found.cases, options, on_result);
    Summary { cases, errors: found.errors }
}

fn nothing_left(options: &Options, filter: &str) -> CaseError {
    let message = format!("no case matches the filter `{filter}`");
    CaseError { file: options.paths.first().cloned().unwrap_or_default(), line: 0, column: 0, message }
}

fn jobs(options: &Options) -> NonZeroUsize {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    options.jobs.unwrap_or_else(|| cores().saturating_mul(NonZeroUsize::MIN.saturating_add(1)))
}

fn run_all(cases: &[Located], options: &Options, on_result: &mut dyn FnMut(&CaseReport)) -> Vec<CaseReport> {
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs(options).get().min(cases.len()) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while let Some((index, located)) = take(cases, next) {
                    // The receiver lives until all senders are gone.
                    let _ = done.send((index, run_case(located, options)));
                }
            });
        }
        drop(done);
        in_order(results, on_result)
    })
}

fn take<'c>(cases: &'c [Located], next: &AtomicUsize) -> Option<(usize, &'c Located)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, cases.get(index)?))
}

/// Puts results back into the order of their cases.
fn in_order(results: mpsc::Receiver<(usize, CaseReport)>, on_result: &mut dyn FnMut(&CaseReport)) -> Vec<CaseReport> {
    let mut early = BTreeMap::new();
    let mut ordered = Vec::new();
    for (index, report) in results {
        early.insert(index, report);
        while let Some(report) = early.remove(&ordered.len()) {
            on_result(&report);
            ordered.push(report);
        }
    }
    ordered
}

/// Which names are meant.
struct Filter<'f> {
    text: &'f str,
    regex: Option<Regex>,
}

impl<'f> Filter<'f> {
    /// Text that is no regular expression is taken as it stands.
    fn new(text: &'f str) -> Self {
        Filter { text, regex: Regex::new(text).ok() }
    }

    fn accepts(&self, name: &str) -> bool {
        name.contains(self.text) || self.regex.as_ref().is_some_and(|regex| regex.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_text_or_an_expression() {
        assert!(Filter::new("queue").accepts("one-key-queues"));
        assert!(Filter::new("^one.*s$").accepts("one-key-queues"));
        assert!(!Filter::new("^key").accepts("one-key-queues"));
        assert!(!Filter::new("(").accepts("one-key-queues"));
    }

    #[test]
    fn a_filter_that_matches_nothing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.case.yaml"), "case: a\nfiles: {goondan.yaml: x}\n").unwrap();
        let mut options = Options::new([dir.path().to_owned()]);
        options.filter = Some("zzz".into());
        let summary = run(&options, &mut |_| panic!("nothing runs"));
        assert_eq!(summary.errors[0].message, "no case matches the filter `zzz`");
        assert!(!summary.is_good());
    }
}
