//! For programs: one object.

use serde::Serialize;

use super::{CaseReport, Summary};
use crate::case::CaseError;

#[derive(Serialize)]
struct Report<'s> {
    passed: usize,
    failed: usize,
    skipped: usize,
    cases: &'s [CaseReport],
    errors: &'s [CaseError],
}

/// The counts, every case, and mistakes in cases.
pub fn json(summary: &Summary) -> String {
    let report = Report {
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
