//! For people.

use goondan::inside::shown;

use super::{CaseReport, Failure, Outcome, Summary};
use crate::case::CaseError;
use crate::matcher::Mismatch;

/// Everything: mistakes in cases first, then a line a case, then the closing line.
pub fn text(summary: &Summary) -> String {
    let errors = summary.errors.iter().map(case_error);
    let cases = summary.cases.iter().map(case_line);
    errors.chain(cases).chain([closing_line(summary)]).collect()
}

/// A line about one case, with everything that is wrong below it.
pub fn case_line(report: &CaseReport) -> String {
    let (case, millis) = (shown::line(&report.case), report.duration.as_millis());
    match &report.outcome {
        Outcome::Passed => format!("ok    {case} ({millis} ms)\n"),
        Outcome::Skipped(reason) => format!("skip  {case}: {}\n", shown::line(reason)),
        Outcome::Failed(failures) => {
            let place = format!("{}:{}", shown::line(report.file.display()), report.line);
            let failures: String = failures.iter().map(failure).collect();
            format!("FAIL  {case} ({millis} ms) at {place}\n{failures}")
        }
    }
}

/// A line about a mistake in a case.
pub fn case_error(error: &CaseError) -> String {
    format!("{}\n", indented(&format!("ERROR {error}"), 6).trim_start())
}

/// Such as `12 passed, 1 failed`.
pub fn closing_line(summary: &Summary) -> String {
    let skipped = match summary.skipped() {
        0 => String::new(),
        count => format!(", {count} skipped"),
    };
    format!("{} passed, {} failed{skipped}\n", summary.passed(), summary.failed())
}

fn failure(failure: &Failure) -> String {
    let mismatches: String = failure.mismatches.iter().map(mismatch).collect();
    format!("{}\n{mismatches}", indented(&format!("{}: {}", failure.place, failure.message), 6))
}

fn mismatch(mismatch: &Mismatch) -> String {
    let Mismatch { path, expected, actual, diff } = mismatch;
    let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let diff = diff.as_deref().map(|diff| format!("{}\n", indented(diff.trim_end_matches('\n'), 10)));
    let line = indented(&format!("{path}expected {expected}, got {actual}"), 8);
    format!("{line}\n{}", diff.unwrap_or_default())
}

/// Text of tools, models and files, each line of it deeper than those of the report.
fn indented(text: &str, by: usize) -> String {
    let text = shown::lines(text).to_string();
    let lines: Vec<String> = text.lines().map(|line| format!("{:by$}{line}", "")).collect();
    lines.join("\n")
}
