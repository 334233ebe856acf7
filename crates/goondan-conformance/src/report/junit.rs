//! JUnit report for CI services, with one suite per file.

use std::path::Path;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::{CaseOutcome, CaseReport, RunSummary, text};
use crate::case::CaseError;

/// Renders JUnit XML. An error in a test case file is an error, and a failed expectation is a
/// failure.
pub fn junit(summary: &RunSummary) -> String {
    let mut report = Report::new("conformance");
    let mut files: Vec<&Path> = summary.cases.iter().map(|case| &*case.file).collect();
    files.extend(summary.errors.iter().map(|error| &*error.file));
    files.sort();
    files.dedup();
    report.add_test_suites(files.into_iter().map(|file| suite_of_file(file, summary)));
    report
        .to_string()
        .expect("the XML is written to memory; what it can't hold was dropped from its texts")
}

/// Creates the test suite of a file: its test cases, and its errors as failed test cases.
fn suite_of_file(file: &Path, summary: &RunSummary) -> TestSuite {
    let mut suite = TestSuite::new(file.display().to_string());
    let cases = summary
        .cases
        .iter()
        .filter(|case| case.file == file)
        .map(test_case);
    let errors = summary
        .errors
        .iter()
        .filter(|error| error.file == file)
        .map(broken_case);
    suite.add_test_cases(cases.chain(errors));
    suite
}

/// Converts the report of a test case.
fn test_case(report: &CaseReport) -> TestCase {
    let mut case = TestCase::new(report.case.clone(), status(report));
    case.set_classname(report.rules.join(" "))
        .set_time(report.duration);
    if report.live.is_some() {
        case.set_system_out(text::case_line(report));
        add_properties(report, &mut case);
    }
    case
}

/// Adds the metrics of a live run, for dashboards.
fn add_properties(report: &CaseReport, case: &mut TestCase) {
    let Some(live) = &report.live else { return };
    let figures = [
        ("runs", live.runs.len().to_string()),
        ("runs.passed", live.passed.to_string()),
        ("runs.required", live.required.to_string()),
        ("tokens", live.total.tokens.total_tokens.to_string()),
    ];
    let cost = live
        .total
        .cost
        .iter()
        .map(|(currency, amount)| (format!("cost.{currency}"), amount.to_string()));
    let checks = live.checks.iter().map(|check| {
        (
            format!("check.{}", check.check),
            format!("{}/{}", check.passed, check.runs),
        )
    });
    let figures = figures
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .chain(cost)
        .chain(checks);
    for (name, value) in figures {
        case.add_property(Property::new(name, value));
    }
}

/// Converts the outcome; a failed test case shows its first failure as the message.
fn status(report: &CaseReport) -> TestCaseStatus {
    match &report.outcome {
        CaseOutcome::Passed => TestCaseStatus::success(),
        CaseOutcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(reason.clone());
            status
        }
        CaseOutcome::Failed(failures) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let first = failures
                .first()
                .map(|failure| format!("{}: {}", failure.place, failure.message));
            status
                .set_message(first.unwrap_or_default())
                .set_description(text::case_line(report));
            status
        }
    }
}

/// Converts an error in a test case file.
fn broken_case(error: &CaseError) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(error.to_string());
    TestCase::new(format!("line {}", error.line), status)
}
