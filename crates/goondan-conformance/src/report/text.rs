//! Plain-text report of a test run, for terminals.

use goondan::internal::untrusted_text;

use super::{CaseOutcome, CaseReport, CheckFailure, RunSummary};
use crate::case::CaseError;
use crate::live::{CheckRate, LiveReport};
use crate::matcher::ValueMismatch;

/// Renders the whole report: file errors first, then a line for each test case, then the closing
/// line.
pub fn text(summary: &RunSummary) -> String {
    let errors = summary.errors.iter().map(case_error);
    let cases = summary.cases.iter().map(case_line);
    errors.chain(cases).chain([closing_line(summary)]).collect()
}

/// Renders a test case on one line, followed by its failures. Live test cases also have their
/// metrics there.
pub fn case_line(report: &CaseReport) -> String {
    let (case, millis) = (
        untrusted_text::line(&report.case),
        report.duration.as_millis(),
    );
    let head = match &report.live {
        Some(live) => format!(
            ": {} of {} runs passed, {} must",
            live.passed,
            live.runs.len(),
            live.required
        ),
        None => format!(" ({millis} ms)"),
    };
    let figures = report.live.as_ref().map(live_figures).unwrap_or_default();
    match &report.outcome {
        CaseOutcome::Passed => format!("ok    {case}{head}\n{figures}{}", failed_runs(report)),
        CaseOutcome::Skipped(reason) => format!("skip  {case}: {}\n", untrusted_text::line(reason)),
        CaseOutcome::Failed(failures) => {
            let place = format!(
                "{}:{}",
                untrusted_text::line(report.file.display()),
                report.line
            );
            let failures: String = failures.iter().map(format_failure).collect();
            format!("FAIL  {case}{head} at {place}\n{figures}{failures}")
        }
    }
}

/// Renders the pass rates of the checks, and the time and cost of the runs.
fn live_figures(live: &LiveReport) -> String {
    let share = |passed: usize, runs: usize| format!("{passed}/{runs}");
    let width = live
        .checks
        .iter()
        .map(|check| share(check.passed, check.runs).len())
        .max()
        .unwrap_or(0);
    let line = |check: &CheckRate| {
        format!(
            "      {:>width$}  {}\n",
            share(check.passed, check.runs),
            untrusted_text::line(&check.check)
        )
    };
    let (middle, longest) = live.latency();
    let middle = middle.as_millis();
    let longest = longest.as_millis();
    let spent = live.total.words();
    let lines: String = live.checks.iter().map(line).collect();
    format!(
        "{lines}      a run took {middle} ms (median), {longest} ms at most; all took {spent}\n"
    )
}

/// Renders the failures in runs of a test case that passed nevertheless.
fn failed_runs(report: &CaseReport) -> String {
    let runs = report.live.iter().flat_map(|live| &live.runs);
    let lines = runs.flat_map(|run| {
        let line = |one: &CheckFailure| {
            indent_text(
                &format!("run {}: {}: {}", run.run, one.place, one.message),
                6,
            )
        };
        run.failures.iter().map(line).collect::<Vec<_>>()
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Renders an error in the file of a test case.
pub fn case_error(error: &CaseError) -> String {
    format!(
        "{}\n",
        indent_text(&format!("ERROR {error}"), 6).trim_start()
    )
}

/// Renders the closing line, such as `12 passed, 1 failed`.
pub fn closing_line(summary: &RunSummary) -> String {
    let skipped = match summary.skipped() {
        0 => String::new(),
        count => format!(", {count} skipped"),
    };
    format!(
        "{} passed, {} failed{skipped}\n",
        summary.passed(),
        summary.failed()
    )
}

/// Formats a failed check with its mismatches.
fn format_failure(failure: &CheckFailure) -> String {
    let mismatches: String = failure.mismatches.iter().map(format_mismatch).collect();
    format!(
        "{}\n{mismatches}",
        indent_text(&format!("{}: {}", failure.place, failure.message), 6)
    )
}

/// Formats a mismatch, with its diff on the following lines.
fn format_mismatch(mismatch: &ValueMismatch) -> String {
    let ValueMismatch {
        path,
        expected,
        actual,
        diff,
    } = mismatch;
    let path = if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    };
    let diff = diff
        .as_deref()
        .map(|diff| format!("{}\n", indent_text(diff.trim_end_matches('\n'), 10)));
    let line = indent_text(&format!("{path}expected {expected}, got {actual}"), 8);
    format!("{line}\n{}", diff.unwrap_or_default())
}

/// Indents foreign text, so that it cannot imitate lines of the report.
fn indent_text(text: &str, by: usize) -> String {
    let text = untrusted_text::lines(text).to_string();
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("{:by$}{line}", ""))
        .collect();
    lines.join("\n")
}
