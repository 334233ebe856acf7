//! Incomplete answers, reasoning and retries in text and JSON output.

use serde_json::{Value, json};

use crate::projects::{manifest, scripted};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "\
agents:
  a:
    - {reasoning: 'Let me see.', text: a half, finishReason: length, usage: {promptTokens: 1000000}}
";

const BUSY: &str = "\
agents:
  a:
    - {error: {status: 503, message: overloaded, retryAfterMs: 10}}
    - {text: here}
";

/// Returns a swarm whose model has prices.
fn priced() -> Sandbox {
    let sandbox = scripted(SCRIPT);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}, pricing: {input: 2, output: 4}}";
    sandbox.write("p/goondan.yaml", &manifest(model, ""));
    sandbox
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_warning_follows_an_incomplete_answer() {
    let outcome = scripted(SCRIPT).gdn(&["run", "p", "--input", "go"]);
    assert_eq!((outcome.code, &*outcome.stdout), (0, "a half\n"));
    assert!(
        outcome
            .stderr
            .contains("warning: The answer is incomplete: it reached the limit of output tokens (length). Raise"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn verbose_output_shows_reasoning_on_standard_error() {
    let outcome = scripted(SCRIPT).gdn(&["run", "p", "--input", "go", "-v"]);
    assert_eq!(outcome.stdout, "a half\n");
    assert!(outcome.stderr.contains("Let me see."), "{}", outcome.stderr);
}

#[test]
fn a_json_result_has_the_finish_reason_and_the_cost() {
    let outcome = priced().gdn(&["run", "p", "--input", "go", "--output-format", "json"]);
    let result: Value = serde_json::from_str(outcome.ok()).unwrap();
    assert_eq!(result["modelFinishReason"], "length");
    assert_eq!(result["cost"], json!({"amount": 2.0, "currency": "USD"}));
    assert_eq!(result["response"], "a half");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_stream_separates_reasoning_from_text() {
    let outcome = priced().gdn(&[
        "run",
        "p",
        "--input",
        "go",
        "--output-format",
        "stream-json",
    ]);
    let lines = json_lines(outcome.ok());
    let joined = |kind: &str| -> String {
        let pieces = lines.iter().filter(|line| line["type"] == kind);
        pieces.map(|line| line["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(joined("reasoning.delta"), "Let me see.");
    assert_eq!(joined("text.delta"), "a half");
    assert_eq!(lines.last().unwrap()["modelFinishReason"], "length");
}

#[test]
fn a_retry_is_reported_on_standard_error_and_in_the_stream() {
    let outcome = scripted(BUSY).gdn(&["run", "p", "--input", "go"]);
    assert_eq!(outcome.ok(), "here\n");
    assert!(
        outcome
            .stderr
            .contains("Retrying any in 0.1 s (1 of 3): 503 overloaded"),
        "{}",
        outcome.stderr
    );
    let outcome = scripted(BUSY).gdn(&[
        "run",
        "p",
        "--input",
        "go",
        "--output-format",
        "stream-json",
    ]);
    let lines = json_lines(outcome.ok());
    let retry = lines
        .iter()
        .find(|line| line["type"] == "model.retrying")
        .unwrap();
    assert_eq!(
        (&retry["attempt"], &retry["of"], &retry["waitMs"]),
        (&json!(1), &json!(3), &json!(10))
    );
}
