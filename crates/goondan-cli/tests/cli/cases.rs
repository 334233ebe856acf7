//! `gdn test`.

use serde_json::Value;

use crate::projects::manifest;
use crate::sandbox::Sandbox;

fn cases() -> Sandbox {
    let sandbox = Sandbox::new();
    let manifest = manifest("{provider: scripted, model: any}", "").replace('\n', "\n    ");
    let case = |name: &str, expected: &str| {
        format!(
            "case: {name}\nabout: The model answers.\nrules: [M1]\nfiles:\n  goondan.yaml: |\n    {manifest}\nmodels: {{a: [{{text: hi}}]}}\nsteps:\n  - send: {{input: go}}\n    expect: {{response: {expected}}}\n"
        )
    };
    sandbox.write("cases/good.case.yaml", &case("good", "hi"));
    sandbox.write("cases/bad.case.yaml", &case("bad", "ho"));
    sandbox
}

#[test]
fn a_failed_test_case_fails_the_command() {
    let sandbox = cases();
    let outcome = sandbox.gdn(&["test", "cases"]);
    assert_eq!(outcome.code, 1);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("test", outcome.report()));
    let good = sandbox.gdn(&["test", "cases", "--filter", "good"]);
    assert!(good.ok().ends_with("1 passed, 0 failed\n"));
}

#[test]
fn an_unknown_judge_is_an_error_before_any_model_call() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/goondan.yaml",
        &manifest("{provider: scripted, model: any}", ""),
    );
    let case = "case: x\nabout: It is polite.\nrules: [M1]\nproject: .\nlive: {runs: 2}\nmodels: {a: [{text: hi}]}\n\
                steps: [{send: {input: go}, judge: It is polite.}]\n";
    sandbox.write("p/x.case.yaml", case);
    let outcome = sandbox.gdn(&["test", "p", "--live", "--judge", "nope"]);
    assert_eq!(
        (outcome.code, &*outcome.stdout),
        (2, ""),
        "{}",
        outcome.report()
    );
    assert!(
        outcome
            .stderr
            .contains("There is no Model `nope` to judge; the Models of the project are m."),
        "{outcome:?}"
    );
}

#[test]
fn test_results_are_available_as_json_and_junit() {
    let sandbox = cases();
    let json: Value =
        serde_json::from_str(&sandbox.gdn(&["test", "cases", "--json"]).stdout).unwrap();
    assert_eq!(json["cases"].as_array().unwrap().len(), 2);
    let junit = sandbox.gdn(&["test", "cases", "--format", "junit"]);
    assert!(
        junit.stdout.starts_with("<?xml") && junit.stdout.contains("failures=\"1\""),
        "{junit:#?}"
    );
}

#[test]
fn coverage_names_rules_without_a_case() {
    let outcome = cases().gdn(&["test", "cases", "--coverage"]);
    assert!(
        outcome.ok().contains("no case: T1 ") && !outcome.stdout.contains("no case: M1 "),
        "{outcome:#?}"
    );
}

#[test]
fn a_directory_without_test_cases_is_an_error() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.gdn(&["test", "."]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stdout.ends_with("0 passed, 1 failed\n"),
        "{outcome:#?}"
    );
}
