use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{CaseOutcome, CaseReport, CheckFailure, ReportFormat, RunSummary, render};
use crate::case::CaseError;
use crate::matcher::ValueMatcher;

fn case(name: &str, outcome: CaseOutcome) -> CaseReport {
    CaseReport {
        case: name.into(),
        about: "It shows something.".into(),
        rules: vec!["T1".into(), "T4".into()],
        file: PathBuf::from("tests/tools.case.yaml"),
        line: 12,
        outcome,
        duration: Duration::from_millis(34),
        live: None,
    }
}

fn summary() -> RunSummary {
    let matcher = ValueMatcher::parse(&json!({"response": "done", "steps": 2, "text": "a\nb\n"}))
        .expect("a matcher");
    let mismatches = matcher.check(Some(&json!({"response": "<done>", "text": "a\nc\n"})));
    let failures = vec![
        CheckFailure {
            mismatches,
            ..CheckFailure::new("step 1 (send)", "not as expected")
        },
        CheckFailure::new(
            "always: secrets stay secret",
            "the value of API_KEY occurs in the logs",
        ),
    ];
    RunSummary {
        cases: vec![
            case("good", CaseOutcome::Passed),
            case("bad", CaseOutcome::Failed(failures)),
            case("not-here", CaseOutcome::Skipped("nobody to ask".into())),
        ],
        errors: vec![CaseError {
            file: PathBuf::from("tests/broken.case.yaml"),
            line: 3,
            column: 5,
            message: "unknown field `expcet`".into(),
        }],
    }
}

#[test]
fn the_text_report_has_a_line_per_case_and_a_summary() {
    insta::assert_snapshot!(render(&summary(), ReportFormat::Text));
}

#[test]
fn json_is_one_object() {
    insta::assert_snapshot!(render(&summary(), ReportFormat::Json));
}

#[test]
fn junit_is_xml() {
    insta::assert_snapshot!(render(&summary(), ReportFormat::Junit));
}

#[test]
fn the_summary_line_counts_skipped_cases_only_if_any() {
    let good = RunSummary {
        cases: vec![
            case("a", CaseOutcome::Passed),
            case("b", CaseOutcome::Passed),
        ],
        errors: Vec::new(),
    };
    assert_eq!(super::closing_line(&good), "2 passed, 0 failed\n");
    assert!(good.is_good());
    assert_eq!(
        super::closing_line(&summary()),
        "1 passed, 2 failed, 1 skipped\n"
    );
    assert!(!summary().is_good());
}

#[cfg(unix)]
#[test]
fn a_file_name_that_is_not_utf8_is_shown() {
    use std::os::unix::ffi::OsStringExt as _;
    let name = || PathBuf::from(std::ffi::OsString::from_vec(b"bad\xff.case.yaml".to_vec()));
    let mut summary = summary();
    summary.cases[0].file = name();
    summary.errors[0].file = name();
    let report = render(&summary, ReportFormat::Json);
    assert_eq!(
        report.matches("bad\u{FFFD}.case.yaml").count(),
        2,
        "{report}"
    );
}
