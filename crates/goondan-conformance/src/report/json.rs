//! JSON report of a test run.

use serde::Serialize;

use super::{CaseReport, RunSummary};
use crate::case::CaseError;

#[derive(Serialize)]
struct JsonReport<'s> {
    passed: usize,
    failed: usize,
    skipped: usize,
    cases: &'s [CaseReport],
    errors: &'s [CaseError],
}

/// Renders the counts, all test cases, and errors in their files.
pub fn json(summary: &RunSummary) -> String {
    let report = JsonReport {
        passed: summary.passed(),
        failed: summary.failed(),
        skipped: summary.skipped(),
        cases: &summary.cases,
        errors: &summary.errors,
    };
    let text =
        serde_json::to_string_pretty(&report).expect("strings and numbers can be written as JSON");
    format!("{text}\n")
}
