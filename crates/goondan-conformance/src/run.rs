//! Runs all cases that were asked for, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use goondan::{Database, HostCommand};
use regex::Regex;

use crate::case::CaseError;
use crate::case::read::{FileCases, Located};
use crate::discover::discover;
use crate::live::{LiveCase, LiveOptions, LiveReport, RunReport};
use crate::report::{CaseReport, Outcome, Summary};
use crate::runner::{not_here, run_case, run_live};

/// How long one case may take where nobody says otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// The same for a live run: real models take their time.
pub const LIVE_TIME_LIMIT: Duration = Duration::from_secs(600);

/// How many live runs go on at the same time where nobody says otherwise: providers limit how often they are asked.
pub const LIVE_JOBS: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");

/// What is run, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Files with cases, and folders with `*.case.yaml` files.
    pub paths: Vec<PathBuf>,
    /// Only cases whose name contains this, or is matched by it as a regular expression.
    pub filter: Option<String>,
    /// How many cases run at the same time; twice the number of cores by default. Live it is the number of runs, 4 by default.
    pub jobs: Option<NonZeroUsize>,
    /// How long one case may take.
    pub time_limit: Duration,
    /// The database that conversations are kept in, instead of files; each case has workspaces of its own there.
    pub database: Option<Database>,
    /// So many nodes run each case: one leads and runs no turns itself, the others work for it. More than one need a database.
    pub nodes: usize,
    /// Runs the cases that have `live`, with the real models of their projects.
    pub live: Option<LiveOptions>,
    /// Runs libraries that have processes of their own in processes of that command.
    pub tool_host: Option<HostCommand>,
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
            nodes: 1,
            live: None,
            tool_host: None,
        }
    }
}

/// Runs the cases and blocks until all have ended. `on_result` hears of each case in file order, as soon as it and all
/// before it have ended.
///
/// Call it outside of asynchronous code, or on a thread that may block: each case has a runtime of its own.
pub fn run(options: &Options, on_result: &mut dyn FnMut(&CaseReport)) -> Summary {
    let found = find(options);
    let cases = run_all(&found.cases, options, on_result);
    Summary {
        cases,
        errors: found.errors,
    }
}

/// The folders of the projects whose models would be asked, each once.
pub fn live_projects(options: &Options) -> Vec<PathBuf> {
    let cases = find(options).cases;
    let live = cases.iter().filter(|located| located.case.live.is_some());
    let folders: BTreeSet<PathBuf> = live.filter_map(Located::project_folder).collect();
    folders.into_iter().collect()
}

/// The folders of the projects whose answers would be judged, each with the Model that its case names.
pub fn judged_projects(options: &Options) -> Vec<(PathBuf, Option<String>)> {
    let cases = find(options).cases;
    let judged = cases.iter().filter(|located| located.case.is_judged());
    let named = judged.filter_map(|located| {
        let live = located.case.live.as_ref()?;
        Some((located.project_folder()?, live.judge.clone()))
    });
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The cases that were asked for.
fn find(options: &Options) -> FileCases {
    let mut found = discover(&options.paths);
    if let Some(filter) = &options.filter {
        let filter = Filter::new(filter);
        found
            .cases
            .retain(|located| filter.accepts(&located.case.case));
        if found.cases.is_empty() {
            found.errors.push(nothing_left(options, filter.text));
        }
    }
    found
}

fn nothing_left(options: &Options, filter: &str) -> CaseError {
    let message = format!("no case matches the filter `{filter}`");
    CaseError {
        file: options.paths.first().cloned().unwrap_or_default(),
        line: 0,
        column: 0,
        message,
    }
}

fn jobs(options: &Options) -> NonZeroUsize {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let default = || match options.live {
        Some(_) => LIVE_JOBS,
        None => cores().saturating_mul(NonZeroUsize::MIN.saturating_add(1)),
    };
    options.jobs.unwrap_or_else(default)
}

/// A case, and how it is run.
struct Planned<'c> {
    located: &'c Located,
    mode: Mode,
}

enum Mode {
    /// As it is written.
    Scripted,
    /// With real models.
    Live(LiveCase),
    /// Not at all, for that reason.
    Skipped(String),
}

/// What came of a run of a case.
enum Piece {
    Whole(CaseReport),
    Run(RunReport, Duration),
}

impl<'c> Planned<'c> {
    fn of(located: &'c Located, options: &Options) -> Self {
        let live = options
            .live
            .as_ref()
            .map(|live| (LiveCase::of(located, live), not_here(located, options)));
        let mode = match live {
            None => Mode::Scripted,
            Some((None, _)) => Mode::Skipped("it has no `live`".to_owned()),
            Some((Some(_), Some(reason))) => Mode::Skipped(reason),
            Some((Some(live), None)) => Mode::Live(live),
        };
        Planned { located, mode }
    }

    fn runs(&self) -> u32 {
        if let Mode::Live(live) = &self.mode {
            live.runs
        } else {
            1
        }
    }

    /// Does the run of that number, from 1.
    fn run(&self, number: u32, options: &Options) -> Piece {
        match &self.mode {
            Mode::Scripted => Piece::Whole(run_case(self.located, options)),
            Mode::Skipped(reason) => Piece::Whole(CaseReport::new(
                self.located,
                Outcome::Skipped(reason.clone()),
                Duration::ZERO,
            )),
            Mode::Live(live) => {
                let begun = Instant::now();
                Piece::Run(
                    run_live(self.located, live, number, options),
                    begun.elapsed(),
                )
            }
        }
    }

    /// The report of the case, once all of its runs are over.
    fn report(&self, pieces: Vec<Piece>) -> CaseReport {
        let (mut runs, mut duration) = (Vec::new(), Duration::ZERO);
        for piece in pieces {
            match piece {
                Piece::Whole(report) => return report,
                Piece::Run(run, time) => {
                    runs.push(run);
                    duration += time;
                }
            }
        }
        let Mode::Live(live) = &self.mode else {
            unreachable!("only live cases come in runs")
        };
        let report = LiveReport::of(&self.located.case, live, runs);
        CaseReport {
            live: Some(report.clone()),
            ..CaseReport::new(self.located, report.outcome(live), duration)
        }
    }
}

fn run_all(
    cases: &[Located],
    options: &Options,
    on_result: &mut dyn FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let planned: Vec<Planned<'_>> = cases
        .iter()
        .map(|located| Planned::of(located, options))
        .collect();
    let work: Vec<(usize, u32)> = planned
        .iter()
        .enumerate()
        .flat_map(|(case, one)| (1..=one.runs()).map(move |run| (case, run)))
        .collect();
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs(options).get().min(work.len()) {
            let (done, next, work, planned) = (done.clone(), &next, &work, &planned);
            scope.spawn(move || {
                while let Some(&(case, run)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver lives until all senders are gone.
                    let _ = done.send((case, planned[case].run(run, options)));
                }
            });
        }
        drop(done);
        in_order(&planned, results, on_result)
    })
}

/// Puts results back into the order of their cases. A case is told once all of its runs are over.
fn in_order(
    planned: &[Planned<'_>],
    results: mpsc::Receiver<(usize, Piece)>,
    on_result: &mut dyn FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let mut early: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
    let mut ordered = Vec::new();
    let is_whole = |case: usize, pieces: &Vec<Piece>| {
        u32::try_from(pieces.len()).is_ok_and(|count| count == planned[case].runs())
    };
    for (index, piece) in results {
        early.entry(index).or_default().push(piece);
        while early
            .get(&ordered.len())
            .is_some_and(|pieces| is_whole(ordered.len(), pieces))
        {
            let pieces = early.remove(&ordered.len()).unwrap_or_default();
            let report = planned[ordered.len()].report(pieces);
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
        Filter {
            text,
            regex: Regex::new(text).ok(),
        }
    }

    fn accepts(&self, name: &str) -> bool {
        name.contains(self.text)
            || self
                .regex
                .as_ref()
                .is_some_and(|regex| regex.is_match(name))
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
        std::fs::write(
            dir.path().join("a.case.yaml"),
            "case: a\nfiles: {goondan.yaml: x}\n",
        )
        .unwrap();
        let mut options = Options::new([dir.path().to_owned()]);
        options.filter = Some("zzz".into());
        let summary = run(&options, &mut |_| panic!("nothing runs"));
        assert_eq!(
            summary.errors[0].message,
            "no case matches the filter `zzz`"
        );
        assert!(!summary.is_good());
    }
}
