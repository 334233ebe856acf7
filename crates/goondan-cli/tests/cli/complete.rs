//! Completions that shell scripts request. `tests/completions.sh` tests the shells.

use crate::sandbox::Sandbox;

const PROJECT: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: beekeeper}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/text-transform, exports: [case]}, {ref: Tool/notes}]
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec:
  mcp: {command: notes-server}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: desk}
spec:
  connectorRef: Connector/webhook
  secrets: {signingSecret: {value: 0123456789abcdef}}
  ingress: {rules: [{route: {agentRef: Agent/beekeeper}}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: apiary}
spec: {entryAgent: Agent/beekeeper, agents: [{ref: Agent/beekeeper}]}
";

/// Returns the completions of fish after the words, without their descriptions.
fn completions(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let mut command = sandbox.command_without_trust(&[&["--", "gdn"], words].concat());
    command.env("GOONDAN_COMPLETE", "fish");
    let outcome = sandbox.run_command(command);
    assert_eq!(outcome.stderr, "");
    outcome
        .ok()
        .lines()
        .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
        .collect()
}

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("goondan.yaml", PROJECT);
    sandbox.write("script.yaml", "default: {text: Buzz.}\n");
    sandbox.write("below/it/file", "");
    sandbox
}

#[test]
fn each_shell_has_a_completion_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = Sandbox::new().gdn(&["completions", shell]);
        assert!(outcome.ok().contains("GOONDAN_COMPLETE"), "{shell}");
    }
}

#[test]
fn commands_options_and_codes_complete_without_a_project() {
    let sandbox = Sandbox::new();
    assert!(completions(&sandbox, &["va"]).contains(&"validate".to_owned()));
    assert!(completions(&sandbox, &["validate", "--st"]).contains(&"--strict".to_owned()));
    assert!(
        completions(&sandbox, &["explain", "E_TOOL_DEN"]).contains(&"E_TOOL_DENIED".to_owned())
    );
    assert!(completions(&sandbox, &["run", "--agent", ""]).is_empty());
}

#[test]
fn names_of_the_enclosing_project_are_completed() {
    let sandbox = project();
    assert_eq!(sandbox.gdn(&["validate"]).code, 0);
    for (words, name) in [
        (&["run", "--agent", "b"][..], "beekeeper"),
        (&["run", "--swarm", ""], "apiary"),
        (&["tool", "call", "t"], "text-transform__case"),
        (&["mcp", "login", ""], "notes"),
        (&["connection", "test", ""], "desk"),
    ] {
        assert!(
            completions(&sandbox, words).contains(&name.to_owned()),
            "{words:?}: {:?}",
            completions(&sandbox, words)
        );
    }
}

#[test]
fn conversation_names_with_shell_syntax_are_not_completed() {
    let sandbox = Sandbox::new();
    sandbox.write("goondan.yaml", &PROJECT.replace(", {ref: Tool/notes}", ""));
    sandbox.write("script.yaml", "default: {text: Buzz.}\n");
    for key in ["main", "$(touch executed)", "a\u{1b}[2Jb"] {
        sandbox
            .gdn(&["run", "--instance-key", key, "--input", "hello"])
            .ok();
    }
    let mut command = sandbox.command_without_trust(&["--", "gdn", "instance", "show", ""]);
    command
        .env("GOONDAN_COMPLETE", "fish")
        .env("GOONDAN_STATE_ROOT", sandbox.state());
    let outcome = sandbox.run_command(command);
    let words: Vec<&str> = outcome
        .ok()
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    assert_eq!(words, ["beekeeper:main"]);
}

#[test]
fn an_invalid_project_or_an_unknown_shell_has_no_completions() {
    let sandbox = project();
    sandbox.write("goondan.yaml", "kind: [");
    assert!(completions(&sandbox, &["run", "--agent", ""]).is_empty());
    let mut command = sandbox.command_without_trust(&["--", "gdn", ""]);
    command.env("GOONDAN_COMPLETE", "tcsh");
    let outcome = sandbox.run_command(command);
    assert_eq!(
        (
            outcome.code,
            outcome.stdout.as_str(),
            outcome.stderr.as_str()
        ),
        (2, "", "")
    );
}
