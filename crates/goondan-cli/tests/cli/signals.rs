//! SIGINT, SIGTERM and SIGKILL.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

/// The signal arrives before the answer, and the test waits for the answer.
const SLOW_REPLY: &str = "default: {text: late, delayMs: 1500}\n";

/// The test does not wait for this answer.
const ENDLESS_REPLY: &str = "default: {text: late, delayMs: 600000}\n";

/// A `gdn run` whose output lines are read while it runs.
struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(sandbox: &Sandbox, arguments: &[&str], input: &str) -> Self {
        let mut command =
            sandbox.command(&[&["run", "p", "--output-format", "stream-json"], arguments].concat());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Running {
            child,
            stdout,
            stderr,
        }
    }

    /// Reads until an event of the type.
    fn until(&mut self, kind: &str) -> Value {
        self.events()
            .find(|event| event["type"] == kind)
            .unwrap_or_else(|| panic!("no {kind} was received"))
    }

    fn events(&mut self) -> impl Iterator<Item = Value> {
        self.stdout
            .by_ref()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Reads the line about finishing turns.
    fn read_ending_line(&mut self) {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        assert_eq!(
            line,
            "Finishing running turns. Press Ctrl-C again to end at once.\n"
        );
    }

    /// Waits for the end. Returns the exit code and the rest of standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

#[test]
fn a_running_turn_finishes_after_a_signal() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let sandbox = scripted(SLOW_REPLY);
        let mut running = Running::start(&sandbox, &["--input", "hi"], "");
        running.until("step.started");
        running.signal(name);
        running.read_ending_line();
        let result = running.until("result");
        assert_eq!(
            (&result["finishReason"], &result["response"]),
            (&"text_response".into(), &"late".into())
        );
        assert_eq!(
            running.end(),
            (Some(code), "error[INTERRUPTED]: Interrupted.\n".to_owned()),
            "{name}"
        );
    }
}

#[test]
fn a_turn_that_takes_longer_than_the_grace_period_resumes_at_the_next_start() {
    let sandbox = scripted(ENDLESS_REPLY);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let short =
        manifest(model, "").replace("policy: {", "policy: {shutdown: {gracePeriodSeconds: 1}, ");
    sandbox.write("p/goondan.yaml", &short);
    let mut running = Running::start(&sandbox, &["--input", "hi"], "");
    running.until("step.started");
    running.signal("INT");
    running.read_ending_line();
    let (code, stderr) = running.end();
    assert_eq!(code, Some(130));
    assert!(
        stderr.contains("Interrupted before the turn ended."),
        "{stderr}"
    );

    sandbox.write("p/script.yaml", ECHO);
    let next = sandbox.gdn(&["run", "p", "--input", "second"]);
    assert_eq!(next.ok(), "heard second\n");
    assert!(
        next.stderr.contains("a:main ended that turn: heard hi"),
        "{next:#?}"
    );
}

#[test]
fn an_open_approval_request_survives_a_restart() {
    let call = "{id: c1, tool: bash__exec, args: {command: \"touch made\"}}";
    let sandbox = scripted(&format!(
        "rules:\n  - when: {{role: user}}\n    reply: {{calls: [{call}]}}\n  - when: {{role: tool}}\n    reply: {{text: done}}\n"
    ));
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let asking = "permissions: {default: ask}\n  workdir: project";
    sandbox.write("p/goondan.yaml", &manifest(model, asking));
    let stream = ["--input-format", "stream-json"];
    let line = "{\"input\": \"go\", \"id\": \"order-1\"}\n";
    let mut running = Running::start(&sandbox, &stream, line);
    assert_eq!(running.until("accepted")["id"], "order-1");
    let asked = running.until("approval.request")["approval"].clone();
    running.signal("TERM");
    assert_eq!(running.end().0, Some(143));
    assert!(!sandbox.dir().join("p/made").exists());

    // The same line again starts no second turn.
    let mut resumed = Running::start(&sandbox, &stream, line);
    assert_eq!(resumed.until("approval.request")["approval"], asked);
    let answer = format!("{{\"approval\": {asked}, \"answer\": \"once\"}}\n");
    let stdin = resumed.child.stdin.as_mut().unwrap();
    stdin.write_all(answer.as_bytes()).unwrap();
    let result = resumed.until("result");
    assert_eq!(
        (&result["id"], &result["response"]),
        (&"order-1".into(), &"done".into())
    );
    assert!(sandbox.dir().join("p/made").exists());
    resumed.signal("TERM");
    assert_eq!(resumed.end().0, Some(143));

    let mut again = Running::start(&sandbox, &stream, line);
    assert_eq!(again.until("result")["response"], "done");
    drop(again.child.stdin.take());
    assert_eq!(
        again
            .events()
            .filter(|event| event["type"] == "turn.started")
            .count(),
        0
    );
    assert_eq!(again.end().0, Some(0));
}

#[test]
fn a_turn_resumes_after_a_second_signal_ended_the_process() {
    let sandbox = scripted(ENDLESS_REPLY);
    let mut running = Running::start(&sandbox, &["--input", "first"], "");
    running.until("step.started");
    running.signal("INT");
    running.read_ending_line();
    running.signal("TERM");
    let (code, stderr) = running.end();
    assert_eq!(code, Some(143));
    insta::assert_snapshot!("ended at once", stderr);

    sandbox.write("p/script.yaml", ECHO);
    let next = sandbox.gdn(&["run", "p", "--input", "second"]);
    assert_eq!(next.ok(), "heard second\n");
    insta::assert_snapshot!("resumed turn", next.stderr);
    let shown: Value =
        serde_json::from_str(sandbox.gdn(&["instance", "show", "a:main", "--json"]).ok()).unwrap();
    assert_eq!(
        shown["messages"].as_array().unwrap().len(),
        4,
        "both turns are in the conversation"
    );
}

#[test]
fn after_a_signal_a_stream_reports_queued_lines_as_not_started() {
    let sandbox = scripted(SLOW_REPLY);
    let input = "{\"input\": \"one\", \"id\": 1}\n{\"input\": \"two\", \"id\": 2}\nnonsense\n";
    let mut running = Running::start(&sandbox, &["--input-format", "stream-json"], input);
    // The turn of the first line starts, and the third line is refused, in any order.
    let mut awaited = vec!["turn.started", "error"];
    while !awaited.is_empty() {
        let event = running.events().next().expect("another event");
        awaited.retain(|kind| event["type"] != *kind);
    }
    running.signal("TERM");
    running.read_ending_line();
    assert_eq!(running.until("result")["id"], "1");
    let unfinished = running.until("error");
    insta::assert_json_snapshot!("turn that did not begin", unfinished);
    assert_eq!(running.events().count(), 0);
    assert_eq!(running.end().0, Some(143));

    let next = sandbox.gdn(&["run", "p", "--input", "three"]);
    assert!(next.ok().contains("late"));
    assert!(
        next.stderr.contains("a:main ended that turn: late"),
        "{next:#?}"
    );
}

#[test]
fn a_signal_ends_a_stream_that_waits_for_input() {
    let sandbox = scripted(ECHO);
    let mut running = Running::start(
        &sandbox,
        &["--input-format", "stream-json"],
        "{\"input\": \"one\"}\n",
    );
    running.until("result");
    running.signal("INT");
    assert_eq!(running.end().0, Some(130));
}

/// Starts two processes that hold the pipe `held` open until they are killed. The delay gives `gdn`
/// time to watch the new process before it opens the pipe.
#[cfg(unix)]
const LONG_COMMAND: &str = "sleep 0.5; exec 3> held; (sleep 30; echo left >&3) & (trap '' TERM; sleep 30; echo left >&3) & wait";

/// Kills a `gdn` during a tool call that opens the pipe `held`. `agent` is the rest of the agent.
/// Returns the text that programs write into the pipe until none of them is left.
#[cfg(unix)]
fn written_after_kill(call: &Value, agent: &str) -> String {
    let script = json!({"rules": [
        {"when": {"role": "user"}, "reply": {"calls": [call]}},
        {"when": {"role": "tool"}, "reply": {"text": "late", "delayMs": 600_000}},
    ]});
    let sandbox = scripted(&script.to_string());
    let manifest = manifest(
        "{provider: scripted, model: any, options: {script: script.yaml}}",
        agent,
    );
    sandbox.write(
        "p/goondan.yaml",
        &manifest.replace("{ref: Tool/bash}", "{ref: Tool/bash}, {ref: Tool/runtime}"),
    );
    let pipe = sandbox.named_pipe("p/held");
    let mut running = Running::start(&sandbox, &["--input", "hi", "--yes"], "");
    running.until("tool.called");
    // The open succeeds when the command opens the pipe. Reads end when the last process closes it.
    let mut held = std::fs::File::open(&pipe).unwrap();
    running.signal("KILL");
    let mut left = String::new();
    held.read_to_string(&mut left).unwrap();
    running.child.wait().unwrap();
    left
}

#[cfg(unix)]
#[test]
fn tool_processes_end_when_gdn_is_killed() {
    let foreground =
        json!({"tool": "bash__exec", "args": {"command": LONG_COMMAND, "timeoutMs": 0}});
    let background =
        json!({"tool": "runtime__exec", "args": {"command": LONG_COMMAND, "background": true}});
    for call in [foreground, background] {
        assert_eq!(written_after_kill(&call, "workdir: project"), "", "{call}");
    }
}

/// Starts a process that leaves its session, starts the next process, and ends. The last one ends after 30 seconds.
#[cfg(target_os = "linux")]
const MOVING_COMMAND: &str = r#"
move='[ $(date +%s) -ge $1 ] && echo left >&3 && exit; setsid sh -c "$0" "$0" "$1" &'
exec 3> held
setsid sh -c "$move" "$move" $(($(date +%s) + 30)) &
wait
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_sandboxed_process_that_changes_sessions_ends_when_gdn_is_killed() {
    if !crate::safety::limits_signals() {
        return;
    }
    let call = json!({"tool": "bash__exec", "args": {"command": MOVING_COMMAND, "timeoutMs": 0}});
    let agent = "workdir: project\n  permissions: {default: ask, sandbox: {}}";
    assert_eq!(written_after_kill(&call, agent), "");
}
