//! What `--help` says.

use crate::sandbox::Sandbox;

const COMMANDS: [&[&str]; 33] = [
    &[],
    &["init"],
    &["new"],
    &["new", "tool"],
    &["validate"],
    &["run"],
    &["reload"],
    &["build"],
    &["tool"],
    &["tool", "list"],
    &["tool", "call"],
    &["connection"],
    &["connection", "list"],
    &["connection", "approve"],
    &["connection", "test"],
    &["instance"],
    &["instance", "list"],
    &["instance", "show"],
    &["instance", "retry"],
    &["instance", "delete"],
    &["instance", "export"],
    &["instance", "import"],
    &["instance", "adopt"],
    &["policy"],
    &["policy", "explain"],
    &["trust"],
    &["logs"],
    &["explain"],
    &["schema"],
    &["test"],
    &["doctor"],
    &["completions"],
    &["--version"],
];

#[test]
fn every_command_explains_itself() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let mut arguments = command.to_vec();
        if command != ["--version"] {
            arguments.push("--help");
        }
        let outcome = sandbox.gdn(&arguments);
        assert_eq!(outcome.stderr, "", "help is a result, so it goes to standard output");
        let name = format!("help {}", command.join(" "));
        sandbox.settings().bind(|| insta::assert_snapshot!(name.trim_end(), outcome.ok()));
    }
}

#[test]
fn without_a_command_the_help_is_an_error() {
    let outcome = Sandbox::new().gdn(&[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.contains("Usage: gdn"));
}

#[test]
fn completions_know_the_commands() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = sandbox.gdn(&["completions", shell]);
        assert!(outcome.ok().contains("validate"), "{shell}");
    }
}

#[test]
fn completions_know_the_codes() {
    let sandbox = Sandbox::new();
    // The scripts for the other shells complete options alone.
    for shell in ["bash", "zsh"] {
        assert!(sandbox.gdn(&["completions", shell]).ok().contains("E_TOOL_DENIED"), "{shell}");
    }
}
