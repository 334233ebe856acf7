//! Commands and options under the names that users try first.

use serde_json::Value;

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

#[test]
fn run_accepts_the_input_as_an_argument() {
    let sandbox = scripted(ECHO);
    let expected = sandbox
        .gdn(&["run", "p", "--input", "hello there"])
        .ok()
        .to_owned();
    for words in [
        ["run", "p", "hello there"].as_slice(),
        &["-C", "p", "run", "hello there"],
        &["run", "-C", "p", ".", "hello there"],
    ] {
        assert_eq!(sandbox.gdn(words).ok(), expected, "{words:?}");
    }
    let twice = sandbox.gdn(&["run", "p", "hello there", "--input", "hi"]);
    assert!(
        twice.stderr.contains("cannot be used with"),
        "{}",
        twice.stderr
    );
    let without_project = Sandbox::new().gdn(&["run", "hello there"]);
    assert!(
        without_project.stderr.contains("There is no goondan.yaml"),
        "{}",
        without_project.stderr
    );
}

#[test]
fn models_are_listed_and_tested() {
    let sandbox = scripted(ECHO);
    sandbox.write(
        "q/goondan.yaml",
        "apiVersion: goondan.ai/v1
kind: Model
metadata: {name: closed}
spec: {provider: openai, model: gpt-5, endpoint: 'http://127.0.0.1:9/v1', apiKey: {value: 0123456789abcdef}}
",
    );
    let models = |words: &[&str]| -> Value {
        let outcome = sandbox.gdn(&[&["models", "--json"], words].concat());
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{}", outcome.report()))
    };
    assert_eq!(models(&["-C", "p"])[0]["state"], "untested");
    assert_eq!(models(&["-C", "p", "--test"])[0]["state"], "answered");
    assert_eq!(models(&["-C", "q"])[0]["state"], "untested");
    let failed = models(&["-C", "q", "--test", "closed"]);
    assert_eq!(failed[0]["state"], "failed");
    assert!(failed[0]["error"]["message"].is_string(), "{failed}");
    let unknown = sandbox.gdn(&["models", "-C", "q", "open"]);
    assert!(
        unknown.stderr.contains("Use one of: closed."),
        "{}",
        unknown.stderr
    );
}

#[test]
fn commands_of_other_programs_get_a_suggestion() {
    let sandbox = Sandbox::new();
    for (theirs, ours) in [
        ("login", "gdn mcp login"),
        ("sessions", "gdn conversation list"),
        ("chat", "gdn run"),
        ("lint", "gdn validate"),
    ] {
        let refused = sandbox.gdn(&[theirs]);
        let hint = format!("Did you mean `{ours}`?");
        assert!(refused.stderr.contains(&hint), "{}", refused.stderr);
        assert!(!refused.stderr.contains("similar"), "{}", refused.stderr);
    }
}

#[test]
fn earlier_names_of_commands_and_options_work() {
    let sandbox = scripted(ECHO);
    let pairs: [(&[&str], &[&str]); 4] = [
        (
            &["instance", "list", "--help"],
            &["conversation", "list", "--help"],
        ),
        (&["trust", "--list"], &["trust", "list"]),
        (
            &["validate", "p", "--format", "short"],
            &["validate", "p", "-o", "short"],
        ),
        (
            &["run", "p", "hi", "--yes"],
            &["run", "p", "hi", "--approve-all"],
        ),
    ];
    for (earlier, current) in pairs {
        assert_eq!(
            sandbox.gdn(earlier).ok(),
            sandbox.gdn(current).ok(),
            "{earlier:?}"
        );
    }
}

#[test]
fn colors_can_be_forced() {
    let sandbox = Sandbox::new();
    let plain = sandbox.gdn(&["--help"]).ok().to_owned();
    assert!(!plain.contains('\u{1b}'));
    assert!(
        sandbox
            .gdn(&["--color", "always", "--help"])
            .ok()
            .contains('\u{1b}')
    );
    assert!(
        !sandbox
            .gdn(&["--color=never", "--help"])
            .ok()
            .contains('\u{1b}')
    );
}

#[test]
fn unquoted_inputs_and_misused_options_get_a_suggestion() {
    let sandbox = scripted(ECHO);
    for (words, hint) in [
        (
            ["-C", "p", "run", "hello", "there"].as_slice(),
            "gdn run 'hello there'",
        ),
        (
            &["-C", "p", "run", ".", "hello", "there"],
            "Quote an input of several words",
        ),
        (
            &["-C", "p", "send", "hello", "there"],
            "Quote an input of several words",
        ),
        (&["ps", "-o", "json"], "Use `--json` to print JSON."),
        (&["-C", "p", "validate", "-o", "xml"], "possible values"),
        (&["add", "mcp"], "There is no command `gdn add`."),
    ] {
        let outcome = sandbox.gdn(words);
        assert!(
            outcome.stderr.contains(hint),
            "{words:?}: {}",
            outcome.stderr
        );
    }
    let lines = sandbox.gdn(&["-C", "p", "run", "-o", "jsonl", "hello there"]);
    assert!(
        lines.ok().contains("\"type\":\"result\""),
        "{}",
        lines.report()
    );
    sandbox.gdn(&["-C", "p", "validate", "-o", "text"]).ok();
    let outcome = sandbox.gdn(&["-C", "p", "run", "nowhere", "--input", "hi"]);
    assert!(!outcome.stderr.contains("quote"), "{}", outcome.stderr);
}
