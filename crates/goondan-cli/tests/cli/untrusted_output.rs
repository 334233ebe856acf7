//! Untrusted text cannot control a terminal.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::hostile_text::{assert_harmless, hostile_texts};
use crate::projects::{ECHO, manifest, scripted};
use crate::pty_session::PtySession;
use crate::sandbox::Sandbox;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

/// Returns the value as YAML: as JSON whose special characters have YAML escapes.
fn yaml(value: &Value) -> String {
    let escaped = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    value.to_string().chars().map(escaped).collect()
}

/// Creates a swarm of agent `a` that may call all tools.
fn project(script: &Value) -> Sandbox {
    let sandbox = scripted(&yaml(script));
    sandbox.write(
        "p/goondan.yaml",
        &manifest(MODEL, "permissions: {default: allow}"),
    );
    sandbox
}

/// Returns the output of `gdn` with `arguments` on a terminal.
fn on_terminal(sandbox: &Sandbox, arguments: &[&str]) -> String {
    PtySession::start(sandbox.command(arguments)).read_to_end()
}

/// Returns both output streams of a command without a terminal.
fn piped(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let outcome = sandbox.gdn(arguments);
    let seen = outcome.stdout + &outcome.stderr;
    assert_no_imitation(&seen);
    seen
}

/// Asserts that no line imitates a `gdn` error. Some of the `hostile_texts` contain a line that
/// starts with `error[E]`.
#[track_caller]
fn assert_no_imitation(seen: &str) {
    assert!(
        !seen.lines().any(|line| line.starts_with("error[E]")),
        "{seen}"
    );
}

#[test]
fn a_warning_has_no_log_level_or_module_by_default() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = scripted(ECHO);
    std::fs::create_dir(sandbox.state()).unwrap();
    std::fs::set_permissions(sandbox.state(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let seen = on_terminal(&sandbox, &["run", "p", "--input", "hi", "--no-color"]);
    assert!(
        seen.contains("warning: state root is readable by other users"),
        "{seen}"
    );
    assert!(
        !seen.contains("WARN") && !seen.contains("goondan::"),
        "{seen}"
    );
    let more = on_terminal(&sandbox, &["run", "p", "--input", "hi", "--no-color", "-v"]);
    assert!(more.contains(" WARN "), "{more}");
}

#[test]
fn ctrl_c_at_an_approval_prompt_interrupts_a_tool_call() {
    let sandbox = scripted(ECHO);
    let args = r#"{"command": "rm x"}"#;
    let mut pty = PtySession::start(sandbox.command(&[
        "tool",
        "call",
        "bash__exec",
        "-p",
        "p",
        "--args",
        args,
    ]));
    pty.read_until("[y");
    pty.write("\x03");
    assert_eq!(pty.exit_code(), Some(130));
}

#[test]
fn control_characters_in_keys_inputs_and_answers_are_escaped() {
    let sandbox = scripted(ECHO);
    let lines: String = hostile_texts()
        .iter()
        .map(|text| json!({"input": text, "instanceKey": text}).to_string() + "\n")
        .collect();
    let answers = sandbox.gdn_with_stdin(
        &[
            "run",
            "p",
            "--input-format",
            "stream-json",
            "--output-format",
            "json",
        ],
        &lines,
    );
    let results = answers
        .ok()
        .lines()
        .filter(|line| line.contains(r#""type":"result""#));
    assert_eq!(results.count(), hostile_texts().len());
    for command in [
        &["instance", "list", "--all"][..],
        &["logs", "-n", "100000"],
        &["instance", "show", "a"],
    ] {
        let seen = piped(&sandbox, command);
        assert!(seen.lines().count() >= hostile_texts().len(), "{seen}");
        assert_harmless(&seen);
        assert_harmless(&on_terminal(&sandbox, command));
    }
    for command in [
        &["instance", "list", "--all", "--json"][..],
        &["instance", "export", "--all"],
        &["logs", "--json"],
    ] {
        assert_harmless(&on_terminal(&sandbox, command));
    }
    let listed: Value =
        serde_json::from_str(sandbox.gdn(&["instance", "list", "--all", "--json"]).ok()).unwrap();
    let mut keys: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["instanceKey"].as_str().unwrap())
        .collect();
    let mut expected = hostile_texts();
    keys.sort_unstable();
    expected.sort_unstable();
    assert_eq!(keys, expected, "programs receive the exact keys");
    for text in hostile_texts().iter().step_by(9) {
        let name = format!("a:{text}");
        assert_harmless(&piped(&sandbox, &["instance", "show", &name]));
        assert_harmless(&piped(&sandbox, &["instance", "delete", &name]));
        assert_harmless(&piped(&sandbox, &["instance", "delete", &name, "--force"]));
        assert_harmless(&piped(&sandbox, &["instance", "show", &name]));
    }
}

#[test]
fn control_characters_in_tool_calls_are_escaped() {
    let call = |(index, text): (usize, String)| match index % 2 {
        0 => json!({"id": format!("c{index}"), "tool": text, "args": {"x": text}}),
        _ => {
            json!({"id": format!("c{index}"), "tool": "text-transform__case", "args": {"text": text, "to": text}})
        }
    };
    let calls: Vec<Value> = hostile_texts().into_iter().enumerate().map(call).collect();
    let answer = hostile_texts().join(" ");
    let sandbox = project(&json!({"rules": [
        {"when": {"role": "user"}, "reply": {"text": answer, "calls": calls}},
        {"when": {"role": "tool"}, "reply": {"text": answer}},
    ]}));
    let seen = on_terminal(&sandbox, &["run", "p", "--input", "go", "-v"]);
    assert!(seen.matches('←').count() >= hostile_texts().len(), "{seen}");
    assert_harmless(&seen);
    let exact = sandbox.gdn(&["run", "p", "--input", "go", "-k", "other", "-v"]);
    assert_eq!(
        exact.ok(),
        format!("{answer}\n"),
        "programs receive the exact answer"
    );
    assert_harmless(&exact.stderr);
    assert_harmless(&on_terminal(&sandbox, &["instance", "show", "a:main"]));
    assert_harmless(&on_terminal(&sandbox, &["logs", "-vv"]));
    let printed = json!({"command": format!("printf '%s' '{answer}'")}).to_string();
    for command in [
        &["tool", "call", "bash__exec", "-p", "p", "--args", &printed][..],
        &["tool", "call", &answer, "-p", "p"],
        &[
            "policy",
            "explain",
            "-p",
            "p",
            "-a",
            "a",
            "-t",
            "bash__exec",
            "--args",
            &printed,
        ],
    ] {
        assert_harmless(&on_terminal(&sandbox, command));
    }
}

#[test]
fn control_characters_in_error_messages_are_escaped() {
    let sandbox = scripted(ECHO);
    for text in hostile_texts() {
        assert_harmless(&piped(
            &sandbox,
            &["run", "p", "--input", "x", "--agent", &text],
        ));
        assert_harmless(&piped(&sandbox, &["validate", &text]));
    }
    let sandbox = project(
        &json!({"default": {"error": {"kind": "status", "status": 400, "message": hostile_texts().join(" ")}}}),
    );
    assert_harmless(&piped(&sandbox, &["run", "p", "--input", "x"]));
}

#[test]
fn control_characters_in_yaml_and_file_names_are_escaped() {
    let sandbox = scripted(ECHO);
    for (index, text) in hostile_texts().iter().enumerate() {
        let name = yaml(&json!(text));
        let document = format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec: {{{name}: 1}}\n"
        );
        sandbox.write(
            &format!("p/tools/{}{index}.yaml", text.replace('/', "")),
            &document,
        );
        sandbox.write(
            &format!("p/agents/raw{index}.yaml"),
            &format!("apiVersion: goondan.ai/v1\nkind: {text}\n"),
        );
    }
    for format in ["pretty", "short", "github"] {
        assert_harmless(&piped(&sandbox, &["validate", "p", "--format", format]));
        assert_harmless(&on_terminal(
            &sandbox,
            &["validate", "p", "--format", format],
        ));
    }
    let json = sandbox.gdn(&["validate", "p", "--format", "json"]).stdout;
    let report: Value = serde_json::from_str(&json).unwrap();
    let errors = report["errors"].as_array().unwrap().len();
    assert!(errors >= hostile_texts().len(), "{errors}: {json}");
    assert_harmless(&on_terminal(&sandbox, &["validate", "p", "--json"]));
    assert_harmless(&on_terminal(&sandbox, &["run", "p", "--input", "x"]));
    assert_harmless(&on_terminal(&sandbox, &["doctor", "p"]));
}

#[test]
fn control_characters_in_test_reports_are_escaped() {
    let sandbox = Sandbox::new();
    let files = json!({"goondan.yaml": manifest("{provider: scripted, model: any}", "")});
    let case = |name: &str, text: &String| {
        yaml(&json!({
            "case": name, "about": text, "rules": ["M1"], "files": files, "models": {"a": [{"text": text}]},
            "steps": [{"send": {"input": text}, "expect": {"response": format!("not {text}")}}],
        }))
    };
    let texts = hostile_texts();
    let cases = texts
        .iter()
        .enumerate()
        .map(|(index, text)| case(&format!("c-{index}"), text));
    sandbox.write(
        "cases/all.case.yaml",
        &cases.collect::<Vec<_>>().join("\n---\n"),
    );
    let named = texts.iter().map(|text| case(text, text));
    sandbox.write(
        "cases/names.case.yaml",
        &named.collect::<Vec<_>>().join("\n---\n"),
    );
    for format in ["text", "json", "junit"] {
        assert_harmless(&on_terminal(
            &sandbox,
            &["test", "cases", "--format", format],
        ));
    }
    let seen = piped(&sandbox, &["test", "cases"]);
    assert_eq!(
        (
            seen.matches("FAIL  c-").count(),
            seen.matches("ERROR ").count()
        ),
        (texts.len(), texts.len()),
        "{seen}"
    );
    assert_harmless(&seen);
}

/// The first command waits for a file without an approval. Other commands need an approval.
const APPROVAL_PERMISSIONS: &str = "\
permissions:
    default: allow
    rules:
      - {permission: execute, action: ask}
      - {tool: bash__*, args: {command: 'until test -e go; do sleep 0.02; done'}, action: allow}";

#[test]
fn earlier_input_does_not_answer_an_approval_request() {
    let texts = hostile_texts();
    let key = &texts[3];
    let (wait, risky) = (
        "until test -e go; do sleep 0.02; done",
        format!("rm -r x # {}", texts.join("")),
    );
    let run =
        |command: &str| json!({"calls": [{"tool": "bash__exec", "args": {"command": command}}]});
    let script = json!({"agents": {"a": [run(wait), run(&risky), {"text": "it is over"}]}});
    let sandbox = scripted(&yaml(&script));
    sandbox.write("p/goondan.yaml", &manifest(MODEL, APPROVAL_PERMISSIONS));
    let command = sandbox.command(&[
        "run",
        "p",
        "--plain",
        "--trust",
        "--workdir",
        "p",
        "-k",
        key,
    ]);
    let mut pty = PtySession::start(command);
    pty.read_until("a> ");
    pty.write("go\r");
    let mut seen = pty.read_until("→ bash__exec");
    pty.write("y\ry\r");
    sandbox.write("p/go", "");
    seen += &pty.read_until("Allow this? [y]es, for this [c]onversation, [a]lways, [N]o: ");
    pty.write("n\r");
    let after = pty.read_until("it is over");
    assert!(
        after.contains("← bash__exec") && after.contains("error "),
        "the call was refused: {after}"
    );
    seen += &after;
    seen += &pty.read_until("a> ");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
    assert_harmless(&seen);
    assert!(
        !seen.contains("\nerror[E]"),
        "no text looks like an error of gdn: {seen}"
    );
}

/// The warning names a state root that all users can read.
#[test]
fn control_characters_in_log_lines_are_escaped() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = scripted(ECHO);
    for text in hostile_texts()
        .iter()
        .filter(|text| !text.contains('/'))
        .step_by(9)
    {
        let state = sandbox.dir().join(text);
        std::fs::create_dir(&state).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o1777)).unwrap();
        let mut command = sandbox.command(&["run", "p", "--input", "x"]);
        let output = command
            .env("GOONDAN_STATE_ROOT", &state)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let seen = String::from_utf8(output.stderr).unwrap();
        assert!(
            seen.contains("state root is readable by other users"),
            "{seen}"
        );
        assert_harmless(&seen);
        assert_no_imitation(&seen);
    }
}
