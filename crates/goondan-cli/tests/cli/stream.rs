//! `--input-format stream-json`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::projects::{ECHO, scripted};

const SERVE: [&str; 4] = ["run", "p", "--input-format", "stream-json"];

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn each_line_is_answered_with_its_id() {
    let sandbox = scripted(ECHO);
    let input = "\
{\"input\": \"one\", \"id\": \"first\"}

{\"input\": \"two\", \"id\": 2, \"instanceKey\": \"other\"}
{\"input\": \"three\", \"agent\": \"a\"}
";
    let arguments = [&SERVE[..], &["--output-format", "json"]].concat();
    let outcome = sandbox.gdn_with_stdin(&arguments, input);
    let (mut results, accepted): (Vec<Value>, Vec<Value>) = lines(outcome.ok())
        .into_iter()
        .partition(|line| line["type"] == "result");
    results.sort_by_key(|result| result["response"].to_string());
    let answers: Vec<_> = results
        .iter()
        .map(|result| (&result["id"], &result["instanceKey"], &result["response"]))
        .collect();
    // A line without an id gets a generated one.
    let generated = accepted.iter().find(|line| line["line"] == 4).unwrap();
    assert_eq!(generated["type"], "accepted");
    let expected: [(Value, Value, Value); 3] = [
        ("first".into(), "main".into(), "heard one".into()),
        (generated["id"].clone(), "main".into(), "heard three".into()),
        ("2".into(), "other".into(), "heard two".into()),
    ];
    assert_eq!(
        answers,
        expected
            .iter()
            .map(|(id, key, text)| (id, key, text))
            .collect::<Vec<_>>()
    );
}

#[test]
fn an_invalid_line_is_answered_with_an_error_and_the_next_line_runs() {
    let sandbox = scripted(ECHO);
    let input = "nonsense\n[1]\n{\"id\": \"x\"}\n{\"input\": \"a\", \"colour\": 1}\n{\"input\": \"a\", \"agent\": \"b\", \"id\": \"y\"}\n{\"input\": \"good\"}\n";
    let arguments = [&SERVE[..], &["--output-format", "json"]].concat();
    let outcome = sandbox.gdn_with_stdin(&arguments, input);
    let (results, errors): (Vec<Value>, Vec<Value>) = lines(outcome.ok())
        .into_iter()
        .filter(|line| line["type"] != "accepted")
        .partition(|line| line["type"] == "result");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["response"], "heard good");
    insta::assert_json_snapshot!("bad lines", errors);
}

#[test]
fn events_are_written_while_standard_input_is_open() {
    let sandbox = scripted(ECHO);
    let mut child = sandbox
        .command(&SERVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    for round in ["one", "two"] {
        writeln!(stdin, "{{\"input\": \"{round}\", \"id\": \"{round}\"}}").unwrap();
        let mut kinds = Vec::new();
        let result = loop {
            let line: Value = serde_json::from_str(&stdout.next().unwrap().unwrap()).unwrap();
            kinds.push(line["type"].as_str().unwrap().to_owned());
            if line["type"] == "result" {
                break line;
            }
        };
        assert_eq!(
            (&result["id"], &result["response"]),
            (&round.into(), &format!("heard {round}").into())
        );
        let of_turn = kinds.iter().find(|kind| *kind != "accepted");
        assert_eq!(of_turn.map(String::as_str), Some("turn.started"));
        assert!(kinds.iter().any(|kind| kind == "text.delta"));
    }
    drop(stdin);
    assert!(stdout.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_failed_turn_does_not_end_the_stream() {
    let sandbox = scripted(
        "rules: [{when: {contains: bad}, reply: {error: {status: 400, message: no}}}]\ndefault: {text: fine}\n",
    );
    let arguments = [&SERVE[..], &["--output-format", "json"]].concat();
    let outcome =
        sandbox.gdn_with_stdin(&arguments, "{\"input\": \"bad\"}\n{\"input\": \"good\"}\n");
    let mut results = lines(outcome.ok());
    results.retain(|line| line["type"] == "result");
    assert_eq!(
        (&results[0]["finishReason"], &results[0]["error"]["status"]),
        (&"error".into(), &400.into())
    );
    assert_eq!(results[1]["response"], "fine");
}
