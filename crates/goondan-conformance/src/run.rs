//! Runs the selected test cases, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use goondan::{HostCommand, SharedDatabase};
use regex::Regex;

use crate::case::CaseError;
use crate::case::read::{FileCases, LocatedCase};
use crate::discover::discover;
use crate::live::{LiveCase, LiveOptions, LiveReport, RunReport};
use crate::report::{CaseOutcome, CaseReport, RunSummary};
use crate::runner::{run_case, run_live, unsupported_live_reason};

/// Default time limit of a test case.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Default time limit of a live run, which waits for real models.
pub const LIVE_TIME_LIMIT: Duration = Duration::from_secs(600);

/// Default number of concurrent live runs. It is low because of the rate limits of providers.
pub const LIVE_JOBS: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");

/// Selection of test cases and run options.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Files with test cases, and directories with `*.case.yaml` files.
    pub paths: Vec<PathBuf>,
    /// Only test cases whose name contains this string or matches it as a regular expression.
    pub filter: Option<String>,
    /// Only test cases with these names. Empty: all.
    pub names: BTreeSet<String>,
    /// Number of concurrent test cases. Default: twice the number of cores. Live: number of
    /// concurrent runs, default 4.
    pub jobs: Option<NonZeroUsize>,
    /// Time limit of a test case.
    pub time_limit: Duration,
    /// Database for conversations, instead of files. Each test case has its own workspaces there.
    pub database: Option<SharedDatabase>,
    /// Number of nodes that run each test case. One node is the leader and runs no turns; the
    /// others are workers. More than one node requires a database.
    pub nodes: usize,
    /// Runs test cases that have `live`, with the real models of their projects.
    pub live: Option<LiveOptions>,
    /// Command of the host processes for libraries that need a separate process.
    pub tool_host: Option<HostCommand>,
    /// Set to start no further test cases.
    pub stop: Arc<AtomicBool>,
}

impl RunOptions {
    /// Returns the default options for all test cases in `paths`.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        RunOptions {
            paths: paths.into_iter().collect(),
            filter: None,
            names: BTreeSet::new(),
            jobs: None,
            time_limit: DEFAULT_TIME_LIMIT,
            database: None,
            nodes: 1,
            live: None,
            tool_host: None,
            stop: Arc::default(),
        }
    }
}

/// Runs the test cases and blocks until all have ended. Calls `on_result` for each test case in
/// file order, as soon as it and all earlier ones have ended.
///
/// Do not call this from asynchronous code, because it blocks the thread. Each test case has its
/// own tokio runtime.
pub fn run(options: &RunOptions, on_result: &mut dyn FnMut(&CaseReport)) -> RunSummary {
    let discovered = find(options);
    let cases = run_cases(&discovered.cases, options, on_result);
    RunSummary {
        cases,
        errors: discovered.errors,
    }
}

/// Returns the directories of all projects whose models a live run would call.
pub fn live_projects(options: &RunOptions) -> Vec<PathBuf> {
    let cases = find(options).cases;
    let live = cases.iter().filter(|located| located.case.live.is_some());
    let folders: BTreeSet<PathBuf> = live.filter_map(LocatedCase::project_folder).collect();
    folders.into_iter().collect()
}

/// Returns the directories of all projects with `judge` checks, with the Model that the test case
/// names.
pub fn judged_projects(options: &RunOptions) -> Vec<(PathBuf, Option<String>)> {
    let cases = find(options).cases;
    let judged = cases.iter().filter(|located| located.case.is_judged());
    let named_projects = judged.filter_map(|located| {
        let live = located.case.live.as_ref()?;
        Some((located.project_folder()?, live.judge.clone()))
    });
    named_projects
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Returns the selected test cases.
fn find(options: &RunOptions) -> FileCases {
    let mut discovered = discover(&options.paths);
    let is_named = |located: &LocatedCase| {
        options.names.is_empty() || options.names.contains(&located.case.case)
    };
    discovered.cases.retain(is_named);
    if let Some(filter) = &options.filter {
        let filter = NameFilter::new(filter);
        discovered
            .cases
            .retain(|located| filter.matches(&located.case.case));
        if discovered.cases.is_empty() {
            discovered.errors.push(no_match_error(options, filter.text));
        }
    }
    discovered
}

/// Creates the error for a filter that no test case matches.
fn no_match_error(options: &RunOptions, filter: &str) -> CaseError {
    let message = format!("no case matches the filter `{filter}`");
    CaseError {
        file: options.paths.first().cloned().unwrap_or_default(),
        line: 0,
        column: 0,
        message,
    }
}

/// Returns the number of test cases that run at the same time. Default: twice the number of cores;
/// fewer for live runs.
fn jobs(options: &RunOptions) -> NonZeroUsize {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let default = || match options.live {
        Some(_) => LIVE_JOBS,
        None => cores().saturating_mul(NonZeroUsize::MIN.saturating_add(1)),
    };
    options.jobs.unwrap_or_else(default)
}

/// A test case and its run mode.
struct PlannedCase<'c> {
    located: &'c LocatedCase,
    mode: CaseRunMode,
}

enum CaseRunMode {
    /// With scripted models.
    Scripted,
    /// With real models.
    Live(LiveCase),
    /// Not at all, for this reason.
    Skipped(String),
}

/// Result of one run of a test case.
enum RunResult {
    Whole(CaseReport),
    Run(RunReport, Duration),
}

impl<'c> PlannedCase<'c> {
    /// Decides whether and how a test case runs.
    fn new(located: &'c LocatedCase, options: &RunOptions) -> Self {
        let live = options.live.as_ref().map(|live| {
            (
                LiveCase::for_case(located, live),
                unsupported_live_reason(located, options),
            )
        });
        let mode = match live {
            None => CaseRunMode::Scripted,
            Some((None, _)) => CaseRunMode::Skipped("it has no `live`".to_owned()),
            Some((Some(_), Some(reason))) => CaseRunMode::Skipped(reason),
            Some((Some(live), None)) => CaseRunMode::Live(live),
        };
        PlannedCase { located, mode }
    }

    /// Returns the number of runs of the test case.
    fn run_count(&self) -> u32 {
        if let CaseRunMode::Live(live) = &self.mode {
            live.runs
        } else {
            1
        }
    }

    /// Executes a run. Runs are numbered from 1.
    fn run(&self, number: u32, options: &RunOptions) -> RunResult {
        match &self.mode {
            CaseRunMode::Scripted => RunResult::Whole(run_case(self.located, options)),
            CaseRunMode::Skipped(reason) => RunResult::Whole(CaseReport::new(
                self.located,
                CaseOutcome::Skipped(reason.clone()),
                Duration::ZERO,
            )),
            CaseRunMode::Live(live) => {
                let begun = Instant::now();
                RunResult::Run(
                    run_live(self.located, live, number, options),
                    begun.elapsed(),
                )
            }
        }
    }

    /// Returns the report of the test case from the results of all its runs.
    fn build_report(&self, pieces: Vec<RunResult>) -> CaseReport {
        let mut runs = Vec::new();
        let mut duration = Duration::ZERO;
        for piece in pieces {
            match piece {
                RunResult::Whole(report) => return report,
                RunResult::Run(run, time) => {
                    runs.push(run);
                    duration += time;
                }
            }
        }
        let CaseRunMode::Live(live) = &self.mode else {
            unreachable!("only live cases have several runs")
        };
        let report = LiveReport::from_runs(&self.located.case, live, runs);
        CaseReport {
            live: Some(report.clone()),
            ..CaseReport::new(self.located, report.outcome(live), duration)
        }
    }
}

/// Runs all test cases in parallel, and calls `on_result` in the order of the test cases.
fn run_cases(
    cases: &[LocatedCase],
    options: &RunOptions,
    on_result: &mut dyn FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let planned: Vec<PlannedCase<'_>> = cases
        .iter()
        .map(|located| PlannedCase::new(located, options))
        .collect();
    let work: Vec<(usize, u32)> = planned
        .iter()
        .enumerate()
        .flat_map(|(case, plan)| (1..=plan.run_count()).map(move |run| (case, run)))
        .collect();
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs(options).get().min(work.len()) {
            let done = done.clone();
            let next = &next;
            let work = &work;
            let planned = &planned;
            scope.spawn(move || {
                while let Some(&(case, run)) = work.get(next.fetch_add(1, Ordering::Relaxed))
                    && !options.stop.load(Ordering::Relaxed)
                {
                    // The receiver exists until all senders are dropped.
                    let _ = done.send((case, planned[case].run(run, options)));
                }
            });
        }
        drop(done);
        report_in_order(&planned, results, on_result)
    })
}

/// Collects the results of runs, each with the index of its test case, until the channel closes.
/// Reports each test case in the planned order, as soon as all of its runs and those of all earlier
/// test cases have ended.
fn report_in_order(
    planned: &[PlannedCase<'_>],
    results: mpsc::Receiver<(usize, RunResult)>,
    on_report: &mut dyn FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let mut results_by_case: BTreeMap<usize, Vec<RunResult>> = BTreeMap::new();
    let mut reports = Vec::new();
    for (case_index, result) in results {
        results_by_case.entry(case_index).or_default().push(result);
        loop {
            let next_index = reports.len();
            let Some(case_results) = results_by_case.remove(&next_index) else {
                break;
            };
            let planned_case = &planned[next_index];
            let is_complete = u32::try_from(case_results.len())
                .is_ok_and(|count| count == planned_case.run_count());
            if !is_complete {
                results_by_case.insert(next_index, case_results);
                break;
            }
            let report = planned_case.build_report(case_results);
            on_report(&report);
            reports.push(report);
        }
    }
    reports
}

struct NameFilter<'f> {
    text: &'f str,
    regex: Option<Regex>,
}

impl<'f> NameFilter<'f> {
    /// A string that is not a valid regular expression is only used as a substring.
    fn new(text: &'f str) -> Self {
        NameFilter {
            text,
            regex: Regex::new(text).ok(),
        }
    }

    /// Returns true if the filter text, or the filter as a regular expression, occurs in the name.
    fn matches(&self, name: &str) -> bool {
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
        assert!(NameFilter::new("queue").matches("one-key-queues"));
        assert!(NameFilter::new("^one.*s$").matches("one-key-queues"));
        assert!(!NameFilter::new("^key").matches("one-key-queues"));
        assert!(!NameFilter::new("(").matches("one-key-queues"));
    }

    #[test]
    fn a_filter_that_matches_nothing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("a.case.yaml"),
            "case: a\nfiles: {goondan.yaml: x}\n",
        )
        .unwrap();
        let mut options = RunOptions::new([dir.path().to_owned()]);
        options.filter = Some("zzz".into());
        let summary = run(&options, &mut |_| panic!("nothing runs"));
        assert_eq!(
            summary.errors[0].message,
            "no case matches the filter `zzz`"
        );
        assert!(!summary.is_good());
    }
}
