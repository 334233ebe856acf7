//! What shells are offered, as their scripts ask for it. `tests/completions.sh` drives the shells themselves.

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

/// What fish is offered after these words, each line a word and its description.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let mut command = sandbox.stranger(&[&["--", "gdn"], words].concat());
    command.env("GOONDAN_COMPLETE", "fish");
    let outcome = sandbox.finished(command);
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
fn each_shell_has_a_script_that_asks() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = Sandbox::new().gdn(&["completions", shell]);
        assert!(outcome.ok().contains("GOONDAN_COMPLETE"), "{shell}");
    }
}

#[test]
fn commands_options_and_codes_are_offered_everywhere() {
    let sandbox = Sandbox::new();
    assert!(offered(&sandbox, &["va"]).contains(&"validate".to_owned()));
    assert!(offered(&sandbox, &["validate", "--st"]).contains(&"--strict".to_owned()));
    assert!(offered(&sandbox, &["explain", "E_TOOL_DEN"]).contains(&"E_TOOL_DENIED".to_owned()));
    assert!(offered(&sandbox, &["run", "--agent", ""]).is_empty());
}

#[test]
fn names_of_the_project_around_the_folder_are_offered() {
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
            offered(&sandbox, words).contains(&name.to_owned()),
            "{words:?}: {:?}",
            offered(&sandbox, words)
        );
    }
}

#[test]
fn conversations_are_offered_unless_a_shell_would_run_their_name() {
    let sandbox = Sandbox::new();
    sandbox.write("goondan.yaml", &PROJECT.replace(", {ref: Tool/notes}", ""));
    sandbox.write("script.yaml", "default: {text: Buzz.}\n");
    for key in ["main", "$(touch executed)", "a\u{1b}[2Jb"] {
        sandbox
            .gdn(&["run", "--instance-key", key, "--input", "hello"])
            .ok();
    }
    let mut command = sandbox.stranger(&["--", "gdn", "instance", "show", ""]);
    command
        .env("GOONDAN_COMPLETE", "fish")
        .env("GOONDAN_STATE_ROOT", sandbox.state());
    let outcome = sandbox.finished(command);
    let words: Vec<&str> = outcome
        .ok()
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    assert_eq!(words, ["beekeeper:main"]);
}

#[test]
fn a_project_with_errors_and_an_unknown_shell_offer_nothing() {
    let sandbox = project();
    sandbox.write("goondan.yaml", "kind: [");
    assert!(offered(&sandbox, &["run", "--agent", ""]).is_empty());
    let mut command = sandbox.stranger(&["--", "gdn", ""]);
    command.env("GOONDAN_COMPLETE", "tcsh");
    let outcome = sandbox.finished(command);
    assert_eq!(
        (
            outcome.code,
            outcome.stdout.as_str(),
            outcome.stderr.as_str()
        ),
        (2, "", "")
    );
}
