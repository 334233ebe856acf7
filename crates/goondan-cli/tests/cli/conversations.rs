//! `gdn conversation` and `gdn logs`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::projects::{SHOUT, manifest, scripted};
use crate::sandbox::Sandbox;

/// Creates two conversations of one agent.
fn with_two_conversations() -> Sandbox {
    let sandbox = scripted(SHOUT);
    for key in ["main", "ticket-42"] {
        sandbox
            .gdn(&["run", "p", "--input", "good morning", "-k", key])
            .ok();
    }
    sandbox
}

#[test]
fn commands_without_state_report_that_nothing_exists() {
    let sandbox = Sandbox::new();
    let listed = sandbox.gdn(&["instance", "list"]);
    assert_eq!(
        (listed.ok(), listed.stderr.as_str()),
        ("", "No conversations found.\n")
    );
    assert_eq!(sandbox.gdn(&["instance", "list", "--json"]).ok(), "[]\n");
    let logs = sandbox.gdn(&["logs"]);
    assert_eq!(
        (logs.ok(), logs.stderr.as_str()),
        ("", "No events found.\n")
    );
    let shown = sandbox.gdn(&["instance", "show", "a:main"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("no such instance", shown.report()));
}

#[test]
fn conversations_are_listed_and_shown() {
    let sandbox = with_two_conversations();
    let listed = sandbox.gdn(&["instance", "list"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("instance list", listed.ok()));
    let rows: Value =
        serde_json::from_str(sandbox.gdn(&["instance", "list", "--json", "-n", "1"]).ok()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["instanceKey"], "ticket-42");
    let shown = sandbox.gdn(&["instance", "show", "a:main"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("instance show", shown.ok()));
    assert_eq!(rows[0].get("title"), None);
    let json: Value = serde_json::from_str(
        sandbox
            .gdn(&["instance", "show", "ticket-42", "--json"])
            .ok(),
    )
    .unwrap();
    assert_eq!(json["messages"].as_array().unwrap().len(), 4);
    let context = sandbox.gdn(&["instance", "show", "a:main", "--context"]);
    let rows: Vec<&str> = context.ok().lines().skip(1).collect();
    assert!(rows[0].starts_with("system ") && rows[5].starts_with("total "));
    assert_eq!(rows[6], "window       128000");
    let context = sandbox.gdn(&["instance", "show", "a:main", "--context", "--json"]);
    let json: Value = serde_json::from_str(context.ok()).unwrap();
    assert_eq!(json["context"]["window"], 128_000);
    let ambiguous = sandbox.gdn(&["instance", "show", "a"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("ambiguous instance", ambiguous.report()));
}

#[test]
fn titles_are_listed_and_shown() {
    let sandbox = with_two_conversations();
    let state = sandbox.state().join("workspaces");
    let workspace = std::fs::read_dir(state).unwrap().next().unwrap().unwrap();
    let id = goondan::ids::InstanceId::new("a", "main");
    let workspace = goondan::Workspace {
        id: String::new(),
        dir: workspace.path(),
    };
    let records = workspace.instance_dir(&id).join("extensions");
    std::fs::create_dir_all(&records).unwrap();
    std::fs::write(records.join("gdn.title.json"), "\"Bees \\u202efly\"").unwrap();
    let listed = sandbox.gdn(&["conversation", "list"]);
    let lines: Vec<&str> = listed.ok().lines().collect();
    assert!(lines[0].ends_with("TITLE"), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.ends_with("Bees \\u{202e}fly")),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.ends_with(" -")), "{lines:?}");
    let json = sandbox.gdn(&["conversation", "list", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(json.ok()).unwrap();
    let titled = rows
        .iter()
        .find(|row| row["instanceKey"] == "main")
        .unwrap();
    assert_eq!(titled["title"], "Bees \u{202e}fly");
    let shown = sandbox.gdn(&["conversation", "show", "a:main"]);
    assert_eq!(shown.ok().lines().nth(1), Some("Bees \\u{202e}fly"));
}

#[test]
fn delete_requires_confirmation_and_removes_all_messages() {
    let sandbox = with_two_conversations();
    let unsure = sandbox.gdn(&["conversation", "delete", "a:main"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("delete without a terminal", unsure.report()));
    let elsewhere = sandbox.gdn_in(
        ".",
        &["conversation", "delete", "--project", "./p", "a:main"],
    );
    assert!(
        elsewhere
            .stderr
            .contains("gdn conversation delete --project ./p a:main --force"),
        "{}",
        elsewhere.report()
    );
    sandbox
        .gdn(&["instance", "delete", "a:main", "--force"])
        .ok();
    assert!(!sandbox.gdn(&["instance", "list"]).ok().contains("a:main"));
    sandbox
        .gdn(&["instance", "delete", "a:main", "--force"])
        .ok();
    let again = sandbox.gdn(&["run", "p", "--input", "anew", "--output-format", "json"]);
    assert!(again.ok().contains("ANEW"));
    let messages: Value =
        serde_json::from_str(sandbox.gdn(&["instance", "show", "a:main", "--json"]).ok()).unwrap();
    assert_eq!(
        messages["messages"].as_array().unwrap().len(),
        4,
        "the new conversation has no messages of the old one"
    );
}

#[test]
fn logs_are_filtered_by_trace_conversation_and_agent() {
    let sandbox = with_two_conversations();
    let all = sandbox.gdn(&["logs", "--json"]);
    let events: Vec<Value> = all
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let trace = events[0]["traceId"].as_str().unwrap();
    let one = sandbox.gdn(&["logs", "--json", "--trace", trace]);
    assert_eq!(one.ok().lines().count() * 2, events.len());
    let last = sandbox.gdn(&["logs", "-n", "1", "-k", "main"]);
    assert_eq!(last.ok().lines().count(), 1);
    assert!(last.stdout.contains("a:main turn.completed"), "{last:#?}");
    assert_eq!(
        sandbox.gdn(&["logs", "--agent", "nobody"]).stderr,
        "No events found.\n"
    );
}

#[test]
fn an_interrupted_tool_call_is_shown_as_uncertain() {
    let sandbox = scripted(
        "default: {calls: [{id: c, tool: bash__exec, args: {command: 'echo begun; sleep 600', timeoutMs: 700000}}]}\n",
    );
    // Without approval requests: their state at the time of the kill would depend on timing.
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: allow}"),
    );
    let mut running = sandbox.command(&[
        "run",
        "p",
        "--input",
        "go",
        "--output-format",
        "stream-json",
    ]);
    let mut running = running
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(lines.any(|line| line.contains("tool.called")));
    let pid = running.id().to_string();
    let signal = || Command::new("kill").arg(&pid).status().unwrap();
    assert!(signal().success());
    let mut ending = String::new();
    BufReader::new(running.stderr.take().unwrap())
        .read_line(&mut ending)
        .unwrap();
    assert!(signal().success());
    assert_eq!(running.wait().unwrap().code(), Some(143));

    let shown = sandbox.gdn(&["instance", "show", "a:main"]);
    let mut settings = sandbox.settings();
    settings.add_filter(r"turn-[\w-]+", "[TURN]");
    settings.bind(|| insta::assert_snapshot!("instance with a cut-off turn", shown.ok()));
    let json: Value =
        serde_json::from_str(sandbox.gdn(&["instance", "show", "a:main", "--json"]).ok()).unwrap();
    let effects = json["unfinished"].as_array().unwrap();
    let uncertain: Vec<&Value> = effects
        .iter()
        .filter(|effect| effect["uncertain"] == true)
        .collect();
    assert_eq!(uncertain.len(), 1);
    assert_eq!(uncertain[0]["intent"]["toolName"], "bash__exec");
}

#[test]
fn a_failed_event_is_listed_until_it_is_retried() {
    const BROKEN: &str = "default: {error: {status: 400, message: too long}}\n";
    let sandbox = scripted(BROKEN);
    for input in ["one", "two"] {
        assert_eq!(sandbox.gdn(&["run", "p", "--input", input]).code, 1);
    }
    let shown = sandbox.gdn(&["instance", "show", "a:main"]);
    let mut settings = sandbox.settings();
    settings.add_filter(r"(?m)^\S+  \[TIME\]", "[EVENT]  [TIME]");
    settings.bind(|| insta::assert_snapshot!("instance with failed events", shown.ok()));
    let failed_events = || {
        let json: Value =
            serde_json::from_str(sandbox.gdn(&["instance", "show", "a:main", "--json"]).ok())
                .unwrap();
        json["deadLetters"].as_array().unwrap().clone()
    };
    let again = sandbox.gdn(&["instance", "retry", "a:main", "--project", "p"]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (1, ""),
        "the retry fails again"
    );
    assert_eq!(again.stderr.matches("too long").count(), 2, "{again:#?}");

    sandbox.write("p/script.yaml", crate::projects::ECHO);
    let first = failed_events()[0]["event"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let one = sandbox.gdn(&["instance", "retry", "a:main", &first, "--project", "p"]);
    assert_eq!(one.ok(), "heard one\n");
    let rest = sandbox.gdn(&["instance", "retry", "a", "--project", "p", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(rest.ok()).unwrap()["response"],
        "heard two"
    );
    assert!(failed_events().is_empty());
    let none = sandbox.gdn(&["instance", "retry", "a:main", "--project", "p"]);
    assert_eq!(
        (none.ok(), none.stderr.as_str()),
        (
            "",
            "a:main has no failed events, so there is nothing to retry.\n"
        )
    );
    let unknown = sandbox.gdn(&[
        "instance",
        "retry",
        "a:main",
        "no-such-event",
        "--project",
        "p",
    ]);
    assert_eq!(unknown.code, 1);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("retry of an unknown event", unknown.report()));
}

#[test]
fn an_imported_conversation_equals_the_exported_one() {
    let sandbox = with_two_conversations();
    let exported = sandbox.gdn(&["instance", "export", "a:main"]);
    assert_eq!(exported.ok().lines().count(), 5, "{exported:#?}");
    let written = sandbox.gdn(&["instance", "export", "a:main", "-o", "main.jsonl"]);
    assert_eq!(
        (written.ok(), written.stderr.as_str()),
        ("", "Exported a:main to main.jsonl.\n")
    );
    assert_eq!(
        std::fs::read_to_string(sandbox.dir().join("main.jsonl")).unwrap(),
        exported.stdout
    );

    let refused = sandbox.gdn(&["instance", "import", "main.jsonl"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("import over an instance", refused.report()));
    let imported = sandbox.gdn(&["instance", "import", "main.jsonl", "--as", "a:copy"]);
    assert!(
        imported.ok().is_empty() && imported.stderr.starts_with("Imported a:copy into p-"),
        "{imported:#?}"
    );
    let messages = |name: &str| {
        let shown = sandbox.gdn(&["instance", "show", name, "--json"]);
        serde_json::from_str::<Value>(shown.ok()).unwrap()["messages"].clone()
    };
    assert_eq!(messages("a:copy"), messages("a:main"));
    let continued = sandbox.gdn(&["run", "p", "--input", "and on", "-k", "copy"]);
    assert!(continued.ok().contains("AND ON"), "{continued:#?}");
    assert_eq!(messages("a:copy").as_array().unwrap().len(), 8);
}

#[test]
fn all_conversations_can_be_moved_to_another_state_root() {
    let sandbox = with_two_conversations();
    let all = sandbox.gdn(&["instance", "export", "--all"]);
    sandbox
        .gdn(&["instance", "delete", "a:main", "--force"])
        .ok();
    sandbox
        .gdn(&["instance", "delete", "a:ticket-42", "--force"])
        .ok();
    let nowhere = sandbox.gdn_with_stdin(
        &["instance", "import", "-", "--state-root", "elsewhere"],
        all.ok(),
    );
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("import into no workspace", nowhere.report()));
    let arguments = [
        "instance",
        "import",
        "-",
        "--workspace",
        "s",
        "--json",
        "--state-root",
        "elsewhere",
    ];
    let imported: Value =
        serde_json::from_str(sandbox.gdn_with_stdin(&arguments, all.ok()).ok()).unwrap();
    assert_eq!(imported["imported"].as_array().unwrap().len(), 2);
    let again = sandbox.gdn(&["instance", "export", "--all", "--state-root", "elsewhere"]);
    assert_eq!(again.ok(), all.stdout);
    let truncated = &all.stdout[..all.stdout.len() - 20];
    let refused = sandbox.gdn_with_stdin(&["instance", "import", "-"], truncated);
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (1, ""),
        "{refused:#?}"
    );
    assert!(
        refused.stderr.contains("[IMPORT_ERROR]")
            && refused.stderr.contains("Nothing was imported."),
        "{refused:#?}"
    );
    assert_eq!(
        sandbox.gdn(&["instance", "list"]).stderr,
        "No conversations found.\n"
    );
    let refused = sandbox.gdn_with_stdin(
        &["instance", "import", "-", "--workspace", "neww"],
        truncated,
    );
    assert_eq!(refused.code, 1, "{refused:#?}");
    assert!(
        !sandbox.state().join("workspaces/neww").exists(),
        "no workspace is created"
    );
    sandbox
        .gdn_with_stdin(&["instance", "import", "-", "--project", "p"], all.ok())
        .ok();
    assert_eq!(
        sandbox
            .gdn_in("p", &["instance", "list", "--json"])
            .ok()
            .matches("instanceKey")
            .count(),
        2
    );
}

#[test]
fn tool_calls_without_a_turn_are_logged() {
    let sandbox = scripted(SHOUT);
    let args = r#"{"text": "hi", "to": "upper"}"#;
    sandbox
        .gdn_in(
            "p",
            &["tool", "call", "text-transform__case", "--args", args],
        )
        .ok();
    let logs = sandbox.gdn_in("p", &["logs"]);
    assert!(
        logs.ok().contains("a:main tool.completed"),
        "{}",
        logs.report()
    );
    assert!(
        sandbox
            .gdn_in("p", &["logs", "-k", "other"])
            .stderr
            .starts_with("No events found for the project in ")
    );
}

#[test]
fn an_export_masks_secrets() {
    let sandbox = scripted("default: {text: 'I keep hunter2-hunter2 to myself'}\n");
    sandbox
        .gdn(&["run", "p", "--input", "the key is hunter2-hunter2"])
        .ok();
    let mut export = sandbox.command(&["instance", "export", "a:main"]);
    let exported = export
        .env("SOME_API_KEY", "hunter2-hunter2")
        .output()
        .unwrap();
    let exported = String::from_utf8(exported.stdout).unwrap();
    assert!(
        exported.contains("the key is ***") && exported.contains("I keep *** to myself"),
        "{exported}"
    );
    assert!(!exported.contains("hunter2"), "{exported}");
}

#[test]
fn a_workspace_in_use_rejects_delete_and_import() {
    let sandbox = with_two_conversations();
    sandbox
        .gdn(&["instance", "export", "a:main", "-o", "main.jsonl"])
        .ok();
    let mut command = sandbox.command(&[
        "run",
        "p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ]);
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut inputs = running.stdin.take().unwrap();
    writeln!(inputs, "{}", serde_json::json!({"input": "hello"})).unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(
        lines.any(|line| line.contains("\"result\"")),
        "the swarm is running"
    );
    let mut settings = sandbox.settings();
    settings.add_filter(r"process \d+", "process [PID]");
    let refused = sandbox.gdn(&["instance", "delete", "a:main", "--force"]);
    settings.bind(|| insta::assert_snapshot!("delete from a workspace at work", refused.report()));
    let refused = sandbox.gdn(&["instance", "import", "main.jsonl", "--as", "a:copy"]);
    settings.bind(|| insta::assert_snapshot!("import into a workspace at work", refused.report()));
    assert_eq!(
        sandbox.gdn(&["instance", "export", "a:main"]).code,
        0,
        "reading is always allowed"
    );
    drop(inputs);
    assert!(running.wait().unwrap().success());
    sandbox
        .gdn(&["instance", "delete", "a:main", "--force"])
        .ok();
}

#[test]
fn logs_are_exported_as_otlp_spans() {
    let sandbox = with_two_conversations();
    let printed = sandbox.gdn(&["logs", "--otlp", "--json"]);
    let requests: Vec<Value> = printed
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let spans = requests[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    let roots: Vec<&Value> = spans
        .iter()
        .filter(|span| span.get("parentSpanId").is_none())
        .collect();
    assert_eq!(roots.len(), 2, "one for each turn: {spans:#?}");
    let trace = roots[0]["traceId"].as_str().unwrap();
    assert!(
        sandbox
            .gdn(&["logs", "--trace", trace])
            .ok()
            .contains("turn.started"),
        "the id of the root span is the trace id"
    );
    let nowhere = sandbox.gdn(&["logs", "--otlp"]);
    assert_eq!(nowhere.code, 3);
    assert!(
        nowhere.stderr.contains("OTEL_EXPORTER_OTLP_ENDPOINT"),
        "{nowhere:#?}"
    );
    let mut command = sandbox.command(&["logs", "--otlp"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let down = sandbox.run_command(command);
    assert_eq!(down.code, 1);
    assert!(down.stderr.contains("E_TELEMETRY_RECEIVER"), "{down:#?}");
}

#[cfg(unix)]
#[test]
fn logs_follow_ends_when_the_output_pipe_closes() {
    use std::io::{BufRead as _, BufReader};

    let sandbox = scripted(crate::projects::ECHO);
    sandbox.gdn(&["run", "p", "--input", "hi"]).ok();
    let mut command = sandbox.command(&["logs", "--project", "p", "--follow"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    drop(output);
    assert!(child.wait().unwrap().success());
}
