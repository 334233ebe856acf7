//! What a wrong command line or a missing project leads to.

use crate::projects::{SHOUT, scripted};
use crate::sandbox::Sandbox;

/// Snapshots exit code, standard output and standard error of commands that fail.
fn snapshot(sandbox: &Sandbox, cases: &[(&str, &[&str])]) {
    for (name, arguments) in cases {
        let outcome = sandbox.gdn(arguments);
        sandbox.settings().bind(|| insta::assert_snapshot!(*name, outcome.report()));
    }
}

#[test]
fn a_wrong_command_line_says_what_is_wrong_and_what_fits() {
    snapshot(
        &Sandbox::new(),
        &[
            ("unknown command", &["valdate"]),
            ("unknown option", &["run", "--inpt", "x"]),
            ("unknown option as json", &["run", "--json", "--inpt", "x"]),
            ("bad value", &["run", "--output-format", "xml"]),
            ("two inputs", &["run", "--input", "a", "--input-file", "b"]),
            ("two volumes", &["-q", "-v", "doctor"]),
            ("input beside stream", &["run", "--input", "a", "--input-format", "stream-json"]),
            ("text beside stream", &["run", "--input-format", "stream-json", "--output-format", "text"]),
            ("bad arguments of a tool", &["tool", "call", "text-transform__case", "--args", "{text: hi}"]),
        ],
    );
}

#[test]
fn an_input_that_is_not_there_is_told() {
    let cases: &[(&str, &[&str])] =
        &[("no input", &["run", "p"]), ("no such input file", &["run", "p", "--input-file", "nothing.txt"])];
    snapshot(&scripted(SHOUT), cases);
}

#[test]
fn a_missing_project_says_how_to_make_one() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.yaml", "a: 1\n");
    snapshot(
        &sandbox,
        &[
            ("no project here", &["validate"]),
            ("no project here as json", &["validate", "--json"]),
            ("no such folder", &["run", "nowhere", "--input", "hi"]),
            ("no project and no input", &["run"]),
            ("another file", &["validate", "notes.yaml"]),
        ],
    );
}

#[test]
fn no_colour_reaches_a_pipe() {
    let sandbox = Sandbox::new();
    for arguments in [&["--help"][..], &["frob"], &["validate"], &["doctor"]] {
        let outcome = sandbox.gdn(arguments);
        assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'), "{outcome:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.command(&["completions", "bash"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
