//! What strangers wrote does nothing to a terminal.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::hostile::{assert_harmless, texts};
use crate::person::Person;
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

/// JSON is YAML, once what can't stand in YAML is escaped as YAML does.
fn yaml(value: &Value) -> String {
    let escaped = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    value.to_string().chars().map(escaped).collect()
}

/// A swarm of agent `a` that may do anything.
fn project(script: &Value) -> Sandbox {
    let sandbox = scripted(&yaml(script));
    sandbox.write(
        "p/goondan.yaml",
        &manifest(MODEL, "permissions: {default: allow}"),
    );
    sandbox
}

/// All that `arguments` put on a terminal.
fn on_terminal(sandbox: &Sandbox, arguments: &[&str]) -> String {
    Person::at(sandbox.command(arguments)).read_to_end()
}

/// Both streams of a command that is watched by nobody.
fn piped(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let outcome = sandbox.gdn(arguments);
    let seen = outcome.stdout + &outcome.stderr;
    assert_no_imitation(&seen);
    seen
}

/// Some of the texts have a line that looks like an error of ours.
#[track_caller]
fn assert_no_imitation(seen: &str) {
    assert!(
        !seen.lines().any(|line| line.starts_with("error[E]")),
        "{seen}"
    );
}

#[test]
fn a_warning_reads_like_a_note() {
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
fn ctrl_c_at_a_question_interrupts_a_call() {
    let sandbox = scripted(ECHO);
    let args = r#"{"command": "rm x"}"#;
    let mut person =
        Person::at(sandbox.command(&["tool", "call", "bash__exec", "-p", "p", "--args", args]));
    person.read_until("[y");
    person.write("\x03");
    assert_eq!(person.exit_code(), Some(130));
}

#[test]
fn keys_inputs_and_answers_of_conversations() {
    let sandbox = scripted(ECHO);
    let lines: String = texts()
        .iter()
        .map(|text| json!({"input": text, "instanceKey": text}).to_string() + "\n")
        .collect();
    let answers = sandbox.gdn_reading(
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
    assert_eq!(results.count(), texts().len());
    for command in [
        &["instance", "list", "--all"][..],
        &["logs", "-n", "100000"],
        &["instance", "show", "a"],
    ] {
        let seen = piped(&sandbox, command);
        assert!(seen.lines().count() >= texts().len(), "{seen}");
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
    let mut expected = texts();
    keys.sort_unstable();
    expected.sort_unstable();
    assert_eq!(keys, expected, "programs get the very keys");
    for text in texts().iter().step_by(9) {
        let name = format!("a:{text}");
        assert_harmless(&piped(&sandbox, &["instance", "show", &name]));
        assert_harmless(&piped(&sandbox, &["instance", "delete", &name]));
        assert_harmless(&piped(&sandbox, &["instance", "delete", &name, "--force"]));
        assert_harmless(&piped(&sandbox, &["instance", "show", &name]));
    }
}

#[test]
fn names_arguments_and_results_of_tools() {
    let call = |(index, text): (usize, String)| match index % 2 {
        0 => json!({"id": format!("c{index}"), "tool": text, "args": {"x": text}}),
        _ => {
            json!({"id": format!("c{index}"), "tool": "text-transform__case", "args": {"text": text, "to": text}})
        }
    };
    let calls: Vec<Value> = texts().into_iter().enumerate().map(call).collect();
    let answer = texts().join(" ");
    let sandbox = project(&json!({"rules": [
        {"when": {"role": "user"}, "reply": {"text": answer, "calls": calls}},
        {"when": {"role": "tool"}, "reply": {"text": answer}},
    ]}));
    let seen = on_terminal(&sandbox, &["run", "p", "--input", "go", "-v"]);
    assert!(seen.matches('←').count() >= texts().len(), "{seen}");
    assert_harmless(&seen);
    let exact = sandbox.gdn(&["run", "p", "--input", "go", "-k", "other", "-v"]);
    assert_eq!(
        exact.ok(),
        format!("{answer}\n"),
        "a program gets the very answer"
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
fn errors_that_repeat_what_was_said() {
    let sandbox = scripted(ECHO);
    for text in texts() {
        assert_harmless(&piped(
            &sandbox,
            &["run", "p", "--input", "x", "--agent", &text],
        ));
        assert_harmless(&piped(&sandbox, &["validate", &text]));
    }
    let sandbox = project(
        &json!({"default": {"error": {"kind": "status", "status": 400, "message": texts().join(" ")}}}),
    );
    assert_harmless(&piped(&sandbox, &["run", "p", "--input", "x"]));
}

#[test]
fn names_and_lines_of_yaml_and_of_files() {
    let sandbox = scripted(ECHO);
    for (index, text) in texts().iter().enumerate() {
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
    assert!(errors >= texts().len(), "{errors}: {json}");
    assert_harmless(&on_terminal(&sandbox, &["validate", "p", "--json"]));
    assert_harmless(&on_terminal(&sandbox, &["run", "p", "--input", "x"]));
    assert_harmless(&on_terminal(&sandbox, &["doctor", "p"]));
}

#[test]
fn reports_of_cases() {
    let sandbox = Sandbox::new();
    let files = json!({"goondan.yaml": manifest("{provider: scripted, model: any}", "")});
    let case = |name: &str, text: &String| {
        yaml(&json!({
            "case": name, "about": text, "rules": ["M1"], "files": files, "models": {"a": [{"text": text}]},
            "steps": [{"send": {"input": text}, "expect": {"response": format!("not {text}")}}],
        }))
    };
    let texts = texts();
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

/// The model runs one command after the other: the first waits for a file, the second must be asked for.
const ASKED: &str = "\
permissions:
    default: allow
    rules:
      - {permission: execute, action: ask}
      - {tool: bash__*, args: {command: 'until test -e go; do sleep 0.02; done'}, action: allow}";

#[test]
fn a_question_is_answered_by_nothing_that_was_typed_before_it() {
    let texts = texts();
    let key = &texts[3];
    let (wait, risky) = (
        "until test -e go; do sleep 0.02; done",
        format!("rm -r x # {}", texts.join("")),
    );
    let run =
        |command: &str| json!({"calls": [{"tool": "bash__exec", "args": {"command": command}}]});
    let script = json!({"agents": {"a": [run(wait), run(&risky), {"text": "it is over"}]}});
    let sandbox = scripted(&yaml(&script));
    sandbox.write("p/goondan.yaml", &manifest(MODEL, ASKED));
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
    let mut person = Person::at(command);
    person.read_until("a> ");
    person.write("go\r");
    let mut seen = person.read_until("→ bash__exec");
    person.write("y\ry\r");
    sandbox.write("p/go", "");
    seen += &person.read_until("Allow this? [y]es, for this [c]onversation, [a]lways, [N]o: ");
    person.write("n\r");
    let after = person.read_until("it is over");
    assert!(
        after.contains("← bash__exec") && after.contains("error "),
        "it was refused: {after}"
    );
    seen += &after;
    seen += &person.read_until("a> ");
    person.write("/quit\r");
    assert_eq!(person.exit_code(), Some(0));
    assert_harmless(&seen);
    assert!(
        !seen.contains("\nerror[E]"),
        "no row of a stranger begins like one of ours: {seen}"
    );
}

/// A warning that names the state root, which is open to everybody.
#[test]
fn log_lines() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = scripted(ECHO);
    for text in texts().iter().filter(|text| !text.contains('/')).step_by(9) {
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
