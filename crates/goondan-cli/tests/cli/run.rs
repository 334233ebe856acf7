//! `gdn run` with one input.

use serde_json::Value;

use crate::projects::{ECHO, SHOUT, manifest, scripted};
use crate::sandbox::Sandbox;

#[test]
fn text_output_is_only_the_answer() {
    let sandbox = scripted(SHOUT);
    let outcome = sandbox.gdn(&["run", "p", "--input", "good morning"]);
    assert_eq!(outcome.ok(), "GOOD MORNING\n");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn verbose_output_shows_tool_calls() {
    let sandbox = scripted(SHOUT);
    let outcome = sandbox.gdn(&["run", "p", "--input", "good morning", "-v"]);
    assert_eq!(outcome.ok(), "GOOD MORNING\n");
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("tool calls", outcome.stderr));
}

#[test]
fn the_input_is_read_from_a_pipe_or_a_file() {
    let sandbox = scripted(ECHO);
    assert_eq!(
        sandbox.gdn_with_stdin(&["run", "p"], "from a pipe\n").ok(),
        "heard from a pipe\n"
    );
    sandbox.write("question.txt", "from\na file\n");
    assert_eq!(
        sandbox
            .gdn(&["run", "p", "--input-file", "question.txt"])
            .ok(),
        "heard from\na file\n"
    );
    assert_eq!(
        sandbox
            .gdn_with_stdin(&["run", "p", "--input-file", "-"], "dash")
            .ok(),
        "heard dash\n"
    );
    assert_eq!(
        sandbox.gdn_with_stdin(&["run", "p"], " \n").code,
        2,
        "the input is empty"
    );
}

#[test]
fn json_output_is_one_object_with_the_result() {
    let sandbox = scripted(SHOUT);
    let outcome = sandbox.gdn(&[
        "run",
        "p",
        "--input",
        "hi",
        "--output-format",
        "json",
        "-k",
        "ticket",
    ]);
    let mut result: Value = serde_json::from_str(outcome.ok()).unwrap();
    assert_eq!(result["traceId"].as_str().map(str::len), Some(32));
    for name in ["turnId", "traceId", "durationMs"] {
        let value = result[name].take();
        assert!(!value.is_null(), "{name}");
        result[name] = "[…]".into();
    }
    insta::assert_json_snapshot!("result", result);
    assert_eq!(
        sandbox
            .gdn(&["run", "p", "--input", "hi", "--json"])
            .ok()
            .lines()
            .count(),
        1
    );
}

#[test]
fn stream_json_output_has_one_event_per_line_and_the_result_last() {
    let sandbox = scripted(SHOUT);
    let outcome = sandbox.gdn(&[
        "run",
        "p",
        "--input",
        "hi",
        "--output-format",
        "stream-json",
    ]);
    let lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    let events: Vec<&str> = kinds
        .iter()
        .copied()
        .filter(|kind| *kind != "text.delta")
        .collect();
    let expected = [
        "turn.started",
        "step.started",
        "model.completed",
        "tool.called",
        "tool.completed",
        "step.completed",
        "step.started",
        "model.completed",
        "step.completed",
        "turn.completed",
        "result",
    ];
    assert_eq!(events, expected);
    let text: String = lines
        .iter()
        .filter_map(|line| line["delta"].as_str())
        .collect();
    assert_eq!(text, "One moment.HI");
}

#[test]
fn a_conversation_continues_under_its_key() {
    let sandbox = scripted("default: {text: 'turn {{ turn }}'}\n");
    let run_with_key = |key: &str| {
        sandbox
            .gdn(&["run", "p", "--input", "hi", "-k", key])
            .ok()
            .to_owned()
    };
    assert_eq!(
        (run_with_key("x"), run_with_key("x"), run_with_key("y")),
        (
            "turn 1\n".to_owned(),
            "turn 2\n".to_owned(),
            "turn 1\n".to_owned()
        )
    );
}

#[test]
fn the_exit_code_states_why_a_turn_failed() {
    let cases = [
        (
            "model refuses the key",
            "default: {error: {status: 401, message: bad key}}\n",
            6,
        ),
        (
            "model refuses the request",
            "default: {error: {status: 400, message: too long}}\n",
            1,
        ),
        (
            "script without a reply",
            "rules: [{when: {contains: zzz}, reply: {text: a}}]\n",
            3,
        ),
        (
            "step limit",
            "default: {calls: [{id: c, tool: text-transform__case, args: {text: a, to: upper}}]}\n",
            1,
        ),
    ];
    for (name, script, code) in cases {
        let sandbox = scripted(script);
        let outcome = sandbox.gdn(&["run", "p", "--input", "hi"]);
        assert_eq!(outcome.code, code, "{name}: {outcome:#?}");
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(format!("failed turn {name}"), outcome.report()));
        let as_json = sandbox.gdn(&["run", "p", "--input", "hi", "--json"]);
        let result: Value = serde_json::from_str(&as_json.stdout).unwrap();
        let error: Value = serde_json::from_str(&as_json.stderr).unwrap();
        assert_eq!(error["exitCode"], code, "{name}");
        assert_ne!(result["finishReason"], "text_response", "{name}");
    }
}

#[test]
fn an_unreachable_model_server_is_a_network_error() {
    // Nothing listens on this port any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let sandbox = Sandbox::new();
    let model = format!(
        "{{provider: openai, model: m, endpoint: 'http://127.0.0.1:{port}/v1/', apiKey: {{value: k}}, options: {{maxRetries: 0}}}}"
    );
    sandbox.write("p/goondan.yaml", &manifest(&model, ""));
    let outcome = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(outcome.code, 5, "{outcome:#?}");
    assert_eq!(outcome.stdout, "");
}

#[test]
fn an_invalid_project_does_not_run() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/goondan.yaml",
        &manifest("{provider: scripted, model: any}", "promt: {}"),
    );
    let outcome = sandbox.gdn(&["run", "p", "--input", "hi"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("run an invalid project", outcome.report()));
    let as_json = sandbox.gdn(&["run", "p", "--input", "hi", "--json"]);
    let error: Value = serde_json::from_str(&as_json.stderr).unwrap();
    assert_eq!(
        (&error["exitCode"], &error["diagnostics"][0]["code"]),
        (&4.into(), &"E_CONFIG_SCHEMA_INVALID".into())
    );
    assert!(
        !sandbox.state().join("workspaces").exists(),
        "a refused run writes no state"
    );
}

#[test]
fn missing_variables_swarms_and_files_are_errors_before_the_start() {
    let sandbox = Sandbox::new();
    let model = "{provider: openai, model: m, apiKey: {valueFrom: {env: NO_SUCH_KEY}}}";
    sandbox.write("p/goondan.yaml", &manifest(model, ""));
    let cases: [(&str, &[&str]); 4] = [
        ("missing variable", &["run", "p", "--input", "hi"]),
        (
            "no such swarm",
            &["run", "p", "--input", "hi", "--swarm", "other"],
        ),
        (
            "no such env file",
            &["run", "p", "--input", "hi", "--env-file", "nothing.env"],
        ),
        (
            "no such workdir",
            &["run", "p", "--input", "hi", "--workdir", "nothing"],
        ),
    ];
    for (name, arguments) in cases {
        let outcome = sandbox.gdn(arguments);
        assert_eq!(outcome.code, 3, "{name}: {outcome:#?}");
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name, outcome.report()));
    }
}

#[test]
fn an_unknown_agent_is_reported_with_the_existing_agents() {
    let sandbox = scripted(ECHO);
    let outcome = sandbox.gdn(&["run", "p", "--input", "hi", "--agent", "b"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("unknown agent", outcome.report()));
}

#[test]
fn yes_approves_calls_that_would_be_refused() {
    let script = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: bash__exec, args: {command: 'echo hi'}}]}
  - when: {role: tool}
    reply: {text: '{{ results.c.status }}'}
";
    let sandbox = scripted(script);
    assert_eq!(sandbox.gdn(&["run", "p", "--input", "go"]).ok(), "error\n");
    assert_eq!(
        sandbox
            .gdn(&["run", "p", "--input", "go", "--yes", "-k", "other"])
            .ok(),
        "ok\n"
    );
}

#[test]
fn a_workspace_in_use_is_reported_with_the_process_id() {
    let sandbox = scripted("default: {text: late, delayMs: 60000}\n");
    let mut holder = sandbox.command(&["run", "p", "--input-format", "stream-json"]);
    let mut holder = holder
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // After the first event, the swarm is running and holds the workspace.
    use std::io::{BufRead, BufReader, Write};
    holder
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"{\"input\": \"hi\"}\n")
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let outcome = sandbox.gdn(&["run", "p", "--input-format", "stream-json"]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains(&holder.id().to_string()),
        "{outcome:#?}"
    );
}

#[test]
fn recorded_model_calls_can_be_replayed() {
    let sandbox = scripted(SHOUT);
    let arguments = ["run", "p", "--input", "good morning"];
    sandbox
        .gdn(&[&arguments[..], &["--record", "p/cassette.jsonl"]].concat())
        .ok();
    let model = "{provider: replay, model: any, options: {cassette: cassette.jsonl}}";
    sandbox.write("p/goondan.yaml", &manifest(model, ""));
    assert_eq!(
        sandbox
            .gdn(&[&arguments[..], &["-k", "other"]].concat())
            .ok(),
        "GOOD MORNING\n"
    );
    let nowhere = sandbox.gdn(&[&arguments[..], &["--record", "no/such/folder.jsonl"]].concat());
    assert_eq!(nowhere.code, 3);
    let words = "error[CONFIG_ERROR]: `no/such/folder.jsonl` can't be written: there is no such file or directory.\n";
    assert!(nowhere.stderr.starts_with(words), "{nowhere:#?}");
}

#[test]
fn quiet_output_still_shows_errors() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/goondan.yaml",
        "apiVersion: goondan.ai/v1\nkind: Modell\nmetadata: {name: m}\n",
    );
    let outcome = sandbox.gdn(&["run", "p", "-q", "--input", "hi"]);
    assert_eq!(outcome.code, 4);
    assert!(
        outcome.stderr.contains("goondan.yaml:2:7"),
        "{}",
        outcome.stderr
    );
}
