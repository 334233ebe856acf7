//! Results of the test cases and their report formats. Nothing here prints.

mod json;
mod junit;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::case::read::LocatedCase;
use crate::case::{CaseError, shown_path};
use crate::live::LiveReport;
use crate::matcher::ValueMismatch;

pub use json::json;
pub use junit::junit;
pub use text::{case_error, case_line, closing_line, text};

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckFailure {
    /// Place of the check: a step, a part of `expect`, or an invariant.
    pub place: String,
    /// Failure message.
    pub message: String,
    /// Differences, if values were compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<ValueMismatch>,
}

impl CheckFailure {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        CheckFailure {
            place: place.into(),
            message: message.into(),
            mismatches: Vec::new(),
        }
    }

    /// Returns no failure if there is no mismatch.
    pub(crate) fn of_mismatches(
        place: &str,
        message: &str,
        mismatches: Vec<ValueMismatch>,
    ) -> Vec<CheckFailure> {
        if mismatches.is_empty() {
            return Vec::new();
        }
        vec![CheckFailure {
            mismatches,
            ..CheckFailure::new(place, message)
        }]
    }
}

/// Outcome of a test case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "details", rename_all = "lowercase")]
pub enum CaseOutcome {
    /// All expectations are met.
    Passed,
    /// At least one expectation is not met.
    Failed(Vec<CheckFailure>),
    /// The test case cannot run here, for this reason.
    Skipped(String),
}

/// Result of one test case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// Name of the test case.
    pub case: String,
    /// Purpose of the test case.
    pub about: String,
    /// Ids of the rules that the test case checks.
    pub rules: Vec<String>,
    /// Its file.
    #[serde(serialize_with = "shown_path")]
    pub file: PathBuf,
    /// Line of its name, from 1.
    pub line: usize,
    /// Outcome.
    #[serde(flatten)]
    pub outcome: CaseOutcome,
    /// Duration of the run.
    #[serde(rename = "durationMs", serialize_with = "as_millis")]
    pub duration: Duration,
    /// Runs of a live test case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveReport>,
}

impl CaseReport {
    pub(crate) fn new(located: &LocatedCase, outcome: CaseOutcome, duration: Duration) -> Self {
        CaseReport {
            case: located.case.case.clone(),
            about: located.case.about.clone(),
            rules: located.case.rules.clone(),
            file: located.file.clone(),
            line: located.line,
            outcome,
            duration,
            live: None,
        }
    }
}

/// Serializes a duration as milliseconds.
fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Results of all test cases.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// Results in the order of the files.
    pub cases: Vec<CaseReport>,
    /// Errors in the files of test cases.
    pub errors: Vec<CaseError>,
}

impl RunSummary {
    /// Returns the number of test cases that passed.
    pub fn passed(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| case.outcome == CaseOutcome::Passed)
            .count()
    }

    /// Returns the number of failed test cases, including those with errors in their files.
    pub fn failed(&self) -> usize {
        let failed = self
            .cases
            .iter()
            .filter(|case| matches!(case.outcome, CaseOutcome::Failed(_)))
            .count();
        failed + self.errors.len()
    }

    /// Returns the number of test cases that cannot run here.
    pub fn skipped(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| matches!(case.outcome, CaseOutcome::Skipped(_)))
            .count()
    }

    /// Returns true if nothing failed.
    pub fn is_good(&self) -> bool {
        self.failed() == 0
    }
}

/// Format of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReportFormat {
    /// Plain text: one line for each test case, differences, and a closing line.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// JUnit XML for CI services.
    Junit,
}

/// Renders a summary in one of the formats.
pub fn render(summary: &RunSummary, format: ReportFormat) -> String {
    match format {
        ReportFormat::Text => text(summary),
        ReportFormat::Json => json(summary),
        ReportFormat::Junit => junit(summary),
    }
}

#[cfg(test)]
mod tests;
