//! Runs the test cases of a project, for the studio.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::spec::{Code, Diagnostic};
use goondan_conformance::case::CaseError;
use goondan_conformance::case::read::LocatedCase;
use goondan_conformance::discover::discover;
use goondan_conformance::matcher::ValueMismatch;
use goondan_conformance::report::CheckFailure;
use goondan_conformance::{CaseOutcome, CaseReport, RunOptions, RunSummary, run as run_cases};
use goondan_serve::CaseRunner;
use goondan_serve::wire::{
    CaseDifferenceBody, CaseFailureBody, CaseOutcomeBody, CaseResultBody, CaseSummaryBody,
    CaseTotalsBody, CasesBody, FileFindingBody,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex, oneshot};

use crate::commands::tool_host;
use crate::trust::TrustSettings;

/// Lists and runs the test cases in a project directory.
#[derive(Debug)]
pub(crate) struct ProjectCases {
    /// Project directory.
    root: PathBuf,
    trust: TrustSettings,
    /// Lock for a run: only one runs at a time.
    running: Mutex<()>,
}

impl ProjectCases {
    /// Creates a runner for the project in `root`, with the trust of the running swarm.
    pub(crate) fn new(root: &Path, trust: TrustSettings) -> Self {
        ProjectCases {
            root: root.to_owned(),
            trust,
            running: Mutex::new(()),
        }
    }

    /// Runs test cases on threads of their own, because they block. Such threads do not delay the
    /// end of the process.
    async fn run_cases(
        &self,
        names: Vec<String>,
        results: UnboundedSender<CaseResultBody>,
    ) -> Result<CaseTotalsBody, Diagnostic> {
        let _running = self.running.lock().await;
        let stop = Arc::new(AtomicBool::new(false));
        let (done, ended) = oneshot::channel();
        let run = {
            let root = self.root.clone();
            let trust = self.trust.clone();
            let stop = Arc::clone(&stop);
            move || run_trusted(&root, &trust, names, stop, &results)
        };
        thread::spawn(move || {
            // Fails only if the client has disconnected.
            let _ = done.send(run());
        });
        let _stop = StopOnDrop(stop);
        ended.await.unwrap_or_else(|_| Err(internal_error()))
    }
}

impl CaseRunner for ProjectCases {
    fn list(&self) -> BoxFuture<'_, Result<CasesBody, Diagnostic>> {
        let root = self.root.clone();
        async move {
            let cases = tokio::task::spawn_blocking(move || list_cases(&root)).await;
            cases.map_err(|_| internal_error())
        }
        .boxed()
    }

    fn run(
        &self,
        names: Vec<String>,
        results: UnboundedSender<CaseResultBody>,
    ) -> BoxFuture<'_, Result<CaseTotalsBody, Diagnostic>> {
        self.run_cases(names, results).boxed()
    }
}

/// Stops a run when it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs test cases if the project on disk is trusted.
fn run_trusted(
    root: &Path,
    trust: &TrustSettings,
    names: Vec<String>,
    stop: Arc<AtomicBool>,
    results: &UnboundedSender<CaseResultBody>,
) -> Result<CaseTotalsBody, Diagnostic> {
    let check = trust.reload_check();
    check(&goondan::load(root)).map_err(first_refusal)?;
    let options = RunOptions {
        names: names.iter().cloned().collect(),
        tool_host: tool_host::command(),
        // Leaves room for the running swarm.
        jobs: thread::available_parallelism().ok(),
        stop: Arc::clone(&stop),
        ..RunOptions::new([root.to_owned()])
    };
    let summary = run_cases(&options, &mut |report| {
        if results.send(result_of(report)).is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    Ok(totals(&summary, &names.into_iter().collect()))
}

/// Counts the outcomes. Errors in files count as failures of a run of all test cases.
fn totals(summary: &RunSummary, names: &BTreeSet<String>) -> CaseTotalsBody {
    let failed_files = if names.is_empty() {
        summary.errors.len()
    } else {
        0
    };
    CaseTotalsBody {
        passed: summary.passed(),
        failed: summary.failed() - summary.errors.len() + failed_files,
        skipped: summary.skipped(),
    }
}

/// Returns the test cases below the project directory.
fn list_cases(root: &Path) -> CasesBody {
    let discovered = discover(&[root.to_owned()]);
    // An error about the directory itself means that it contains no test case.
    let errors = discovered.errors.iter().filter(|error| error.file != root);
    CasesBody {
        cases: discovered
            .cases
            .iter()
            .map(|case| summary_of(root, case))
            .collect(),
        errors: errors.map(|error| finding_of(root, error)).collect(),
    }
}

/// Describes a test case for the list of test cases.
fn summary_of(root: &Path, located: &LocatedCase) -> CaseSummaryBody {
    let LocatedCase { file, line, case } = located;
    CaseSummaryBody {
        name: case.case.clone(),
        about: case.about.trim().to_owned(),
        file: relative_file(root, file),
        line: *line,
        is_live_only: case.live.is_some() && case.models.is_empty(),
    }
}

/// Describes an error in a test case file.
pub(crate) fn finding_of(root: &Path, error: &CaseError) -> FileFindingBody {
    let known_position = |number: usize| (number > 0).then_some(number);
    FileFindingBody {
        severity: "error".to_owned(),
        message: error.message.clone(),
        file: Some(relative_file(root, &error.file)),
        line: known_position(error.line),
        column: known_position(error.column),
        ..FileFindingBody::default()
    }
}

/// Returns a path relative to the project directory, with `/` as the separator.
fn relative_file(root: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(root).unwrap_or(file);
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// Converts the report of a test case to the response body.
fn result_of(report: &CaseReport) -> CaseResultBody {
    let (outcome, reason, failures) = match &report.outcome {
        CaseOutcome::Passed => (CaseOutcomeBody::Passed, None, Vec::new()),
        CaseOutcome::Skipped(reason) => {
            (CaseOutcomeBody::Skipped, Some(reason.clone()), Vec::new())
        }
        CaseOutcome::Failed(failures) => (
            CaseOutcomeBody::Failed,
            None,
            failures.iter().map(failure_of).collect(),
        ),
    };
    CaseResultBody {
        name: report.case.clone(),
        outcome,
        duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        reason,
        failures,
    }
}

/// Converts a failed check to the response body.
fn failure_of(failure: &CheckFailure) -> CaseFailureBody {
    let difference = |mismatch: &ValueMismatch| CaseDifferenceBody {
        path: mismatch.path.clone(),
        expected: mismatch.expected.clone(),
        actual: mismatch.actual.clone(),
        diff: mismatch.diff.clone(),
    };
    CaseFailureBody {
        place: failure.place.clone(),
        message: failure.message.clone(),
        differences: failure.mismatches.iter().map(difference).collect(),
    }
}

/// Returns the first reason why the project is not trusted.
fn first_refusal(refused: Vec<Diagnostic>) -> Diagnostic {
    refused.into_iter().next().unwrap_or_else(internal_error)
}

fn internal_error() -> Diagnostic {
    Diagnostic::new(
        Code::INTERNAL_ERROR,
        "The test cases can't be run: bug in gdn.",
    )
}
