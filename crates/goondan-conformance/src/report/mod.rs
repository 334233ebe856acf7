//! What came of the cases, and how it is told. Nothing here prints.

mod json;
mod junit;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::case::CaseError;
use crate::case::read::Located;
use crate::live::LiveReport;
use crate::matcher::Mismatch;

pub use json::json;
pub use junit::junit;
pub use text::{case_error, case_line, closing_line, text};

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Where: a step, a part of `expect`, or what is always checked.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// Each difference, where something was compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<Mismatch>,
}

impl Failure {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            place: place.into(),
            message: message.into(),
            mismatches: Vec::new(),
        }
    }

    /// None where there is no mismatch.
    pub(crate) fn of_mismatches(
        place: &str,
        message: &str,
        mismatches: Vec<Mismatch>,
    ) -> Vec<Failure> {
        if mismatches.is_empty() {
            return Vec::new();
        }
        vec![Failure {
            mismatches,
            ..Failure::new(place, message)
        }]
    }
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "details", rename_all = "lowercase")]
pub enum Outcome {
    /// Everything was as expected.
    Passed,
    /// Something was not.
    Failed(Vec<Failure>),
    /// It can't run here, for that reason.
    Skipped(String),
}

/// What came of one case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// Its name.
    pub case: String,
    /// What it shows.
    pub about: String,
    /// The rules that it checks.
    pub rules: Vec<String>,
    /// Where it is written.
    pub file: PathBuf,
    /// The line of its name, counted from 1.
    pub line: usize,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took.
    #[serde(rename = "durationMs", serialize_with = "as_millis")]
    pub duration: Duration,
    /// Of a case that was run live: its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveReport>,
}

impl CaseReport {
    pub(crate) fn new(located: &Located, outcome: Outcome, duration: Duration) -> Self {
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

fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// What came of all cases.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// In the order of their files.
    pub cases: Vec<CaseReport>,
    /// Mistakes in the cases themselves.
    pub errors: Vec<CaseError>,
}

impl Summary {
    /// How many cases passed.
    pub fn passed(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| case.outcome == Outcome::Passed)
            .count()
    }

    /// How many cases failed, cases with mistakes in them included.
    pub fn failed(&self) -> usize {
        let failed = self
            .cases
            .iter()
            .filter(|case| matches!(case.outcome, Outcome::Failed(_)))
            .count();
        failed + self.errors.len()
    }

    /// How many cases can't run here.
    pub fn skipped(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| matches!(case.outcome, Outcome::Skipped(_)))
            .count()
    }

    /// Whether nothing failed.
    pub fn is_good(&self) -> bool {
        self.failed() == 0
    }
}

/// How a summary is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// For people: a line a case, differences, and a closing line.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// JUnit XML, as CI services read it.
    Junit,
}

/// The whole summary in one of the formats.
pub fn render(summary: &Summary, format: Format) -> String {
    match format {
        Format::Text => text(summary),
        Format::Json => json(summary),
        Format::Junit => junit(summary),
    }
}

#[cfg(test)]
mod tests;
