//! MCP servers that are real programs: their start, environment, sandbox and end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::sandbox::{Sandbox, read_until_event};

/// An MCP server in the shell. The server and a program that it starts hold the pipe `held` open.
/// The server writes its environment to `seen`, and its tool returns its process id.
const SERVER: &str = r#"#!/bin/sh
env > "$NOTES/seen"
[ -p "$NOTES/held" ] && exec 3> "$NOTES/held" && sleep 600 &
[ -p "$NOTES/held" ] && exec 3> "$NOTES/held"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"shell\",\"version\":\"1\"}}}" ;;
    *'"method":"tools/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"pid\",\"description\":\"Tells its process.\",\"inputSchema\":{\"type\":\"object\"}}]}}" ;;
    *'"method":"tools/call"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"process $$\"}]}}" ;;
    *'"id":'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}" ;;
  esac
done
"#;

/// The model calls the tool, and answers with its result.
const CALL_SCRIPT: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: shell__pid, args: {}}]}
  - when: {role: tool}
    reply: {text: '{{ results.c.output }}'}
";

const ENDLESS_TURN: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: shell__pid, args: {}}]}
  - when: {role: tool}
    reply: {text: late, delayMs: 600000}
";

/// Creates a project with the server. `more` is appended to the spec of the Agent.
fn project(script: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let notes = sandbox.dir();
    sandbox.write("p/server.sh", SERVER);
    sandbox.write("p/script.yaml", script);
    sandbox.write(
        "p/goondan.yaml",
        &format!(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {{provider: scripted, model: any, options: {{script: script.yaml}}}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {{name: shell}}
spec:
  mcp:
    command: /bin/sh
    args: [server.sh]
    env: {{NOTES: '{}', GIVEN: {{valueFrom: {{env: WANTED}}}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec:
  modelConfig: {{modelRef: Model/m}}
  tools: [{{ref: Tool/shell}}]
  {more}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: s}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}], policy: {{shutdown: {{gracePeriodSeconds: 1}}}}}}
",
            notes.display()
        ),
    );
    sandbox
}

/// Returns `gdn` with a variable that the server receives, and a variable that it must not receive.
fn command(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command
        .env("WANTED", "hand this over")
        .env("UNWANTED_TOKEN", "keep this back");
    command
}

#[test]
fn a_server_receives_only_the_variables_of_its_tool() {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: allow}");
    let outcome = sandbox.run_command(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert!(outcome.ok().starts_with("process "), "{outcome:?}");
    let seen = std::fs::read_to_string(sandbox.dir().join("seen")).unwrap();
    assert!(
        seen.contains("GIVEN=hand this over\n") && seen.contains("PATH="),
        "{seen}"
    );
    assert!(
        !seen.contains("UNWANTED_TOKEN") && !seen.contains("GOONDAN_TRUST"),
        "{seen}"
    );
}

/// Starts `gdn run` with a server that answers only after the file `ready` exists, and waits for the
/// line about the wait.
fn run_with_slow_server(sandbox: &Sandbox) -> (Child, std::io::Lines<BufReader<ChildStderr>>) {
    let server = SERVER.replacen(
        "while read",
        "while [ ! -e \"$NOTES/ready\" ]; do sleep 0.05; done\nwhile read",
        1,
    );
    sandbox.write("p/server.sh", &server);
    let mut running = command(sandbox, &["run", "p", "--input", "hi"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines();
    let notice = "waiting up to 60 s for the MCP server of Tool/shell";
    assert!(lines.any(|line| line.unwrap().contains(notice)));
    (running, lines)
}

#[test]
fn the_first_start_waits_for_a_slow_server() {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: allow}");
    let (mut running, _lines) = run_with_slow_server(&sandbox);
    sandbox.write("ready", "");
    let mut answer = String::new();
    running
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut answer)
        .unwrap();
    assert!(answer.starts_with("process "), "{answer}");
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_signal_ends_the_wait_for_a_slow_server() {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: allow}");
    let (mut running, mut lines) = run_with_slow_server(&sandbox);
    let process = running.id().to_string();
    let killed = Command::new("kill").args(["-s", "TERM", &process]).status();
    assert!(killed.unwrap().success());
    assert!(lines.any(|line| line.unwrap().contains("error[INTERRUPTED]")));
    assert_eq!(running.wait().unwrap().code(), Some(143));
}

#[test]
fn a_server_of_an_untrusted_project_is_not_started() {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: allow}");
    let lines: [&[&str]; 4] = [
        &["run", "p", "--input", "hi"],
        &["tool", "list", "--project", "p"],
        &["mcp", "list", "--project", "p", "--connect"],
        &["validate", "p", "--connect"],
    ];
    for line in lines {
        let mut command = sandbox.command_without_trust(line);
        command.env("WANTED", "x");
        let outcome = sandbox.run_command(command);
        assert!(
            outcome.code != 0 && outcome.stderr.contains("is not trusted"),
            "{line:?}: {outcome:?}"
        );
        assert!(
            outcome
                .stderr
                .contains("starts the MCP server `/bin/sh server.sh`"),
            "{line:?}: {outcome:?}"
        );
        assert!(!sandbox.dir().join("seen").exists(), "{line:?}");
    }
}

#[test]
fn a_server_and_its_child_processes_end_with_gdn() {
    for signal in ["KILL", "TERM", "INT"] {
        let sandbox = project(ENDLESS_TURN, "permissions: {default: allow}");
        let pipe = sandbox.named_pipe("held");
        let mut line = command(
            &sandbox,
            &[
                "run",
                "p",
                "--input",
                "hi",
                "--output-format",
                "stream-json",
            ],
        );
        let mut running = line
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut events = std::io::BufReader::new(running.stdout.take().unwrap());
        // The open succeeds when the server opens the pipe. Reads end when the last process closes
        // it.
        let mut held = std::fs::File::open(&pipe).unwrap();
        read_until_event(&mut events, "tool.completed");
        let process = running.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &process])
                .status()
                .unwrap()
                .success()
        );
        let mut left = String::new();
        held.read_to_string(&mut left).unwrap();
        assert_eq!(left, "", "{signal}");
        running.wait().unwrap();
    }
}

/// Makes the server and its child processes ignore signals. They also continue after the end of
/// their input.
const IGNORE_SIGNALS: &str = r#"trap '' TERM INT HUP
( trap '' TERM INT HUP; exec 3> "$NOTES/held"; while :; do sleep 0.1; done ) &
sh -c 'sh -c "trap \"\" TERM INT HUP; exec 3> \"$NOTES/held\"; while :; do sleep 0.1; done" & wait' &
exec 3> "$NOTES/held"
"#;

#[test]
fn a_server_that_ignores_signals_ends_with_its_child_processes() {
    for signal in ["KILL", "TERM"] {
        let sandbox = project(ENDLESS_TURN, "permissions: {default: allow}");
        let held = sandbox.named_pipe("held");
        let endless_loop = "while :; do sleep 0.1; done\n";
        let server = SERVER.replace(
            "[ -p \"$NOTES/held\" ] && exec 3> \"$NOTES/held\" && sleep 600 &\n",
            IGNORE_SIGNALS,
        );
        sandbox.write("p/server.sh", &format!("{server}{endless_loop}"));
        let mut line = command(
            &sandbox,
            &[
                "run",
                "p",
                "--input",
                "hi",
                "--output-format",
                "stream-json",
            ],
        );
        let mut running = line
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut events = std::io::BufReader::new(running.stdout.take().unwrap());
        let mut pipe = std::fs::File::open(&held).unwrap();
        read_until_event(&mut events, "tool.completed");
        let process = running.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &process])
                .status()
                .unwrap()
                .success()
        );
        // The read ends when the last process closes the pipe.
        let mut left = String::new();
        pipe.read_to_string(&mut left).unwrap();
        assert_eq!(left, "", "{signal}");
        running.wait().unwrap();
    }
}

#[test]
fn mcp_list_contacts_servers_only_with_connect() {
    let sandbox = project(CALL_SCRIPT, "");
    let listed = sandbox.run_command(command(&sandbox, &["mcp", "list", "--project", "p"]));
    assert_eq!(
        listed.ok(),
        "shell  /bin/sh server.sh\n  tools not known yet; run with `--connect` to list them\n"
    );
    assert!(!sandbox.dir().join("seen").exists());
    let reached = sandbox.run_command(command(
        &sandbox,
        &["mcp", "list", "--project", "p", "--connect", "--json"],
    ));
    let reached: Value = serde_json::from_str(reached.ok()).unwrap();
    assert_eq!(reached[0]["catalog"]["tools"][0]["export"]["name"], "pid");
    let listed = sandbox.run_command(command(&sandbox, &["mcp", "list", "--project", "p"]));
    assert!(
        listed.ok().contains("1 tools") && listed.ok().contains("shell__pid  Tells its process."),
        "{listed:?}"
    );
}

#[test]
fn secrets_in_server_output_are_masked() {
    let sandbox = project(CALL_SCRIPT, "");
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: shell}\n\
                spec: {mcp: {command: /bin/sh, args: [-c, 'echo \"refused: $SERVER_TOKEN\" >&2; \
                echo \"refused: $(printf %s \"$SERVER_TOKEN\" | base64)\" >&2; exit 1'], \
                env: {SERVER_TOKEN: {valueFrom: {env: SERVER_TOKEN}}}}}\n";
    let (before, _) = text
        .split_once("---\napiVersion: goondan.ai/v1\nkind: Tool")
        .unwrap();
    sandbox.write("p/goondan.yaml", &format!("{before}{tool}"));
    let secret = "sk-secret-0123456789";
    let encoded = "c2stc2VjcmV0LTAxMjM0NTY3";
    for arguments in [
        &["mcp", "list", "--project", "p", "--connect"][..],
        &["mcp", "list", "--project", "p", "--connect", "--json"],
        &["validate", "p", "--connect"],
        &["validate", "p", "--connect", "-o", "github"],
        &["validate", "p", "--connect", "--json"],
    ] {
        let mut command = command(&sandbox, arguments);
        command.env("SERVER_TOKEN", secret);
        let outcome = sandbox.run_command(command);
        let shown = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(shown.contains("refused: ***"), "{arguments:?} {shown}");
        assert!(!shown.contains(secret), "{arguments:?} {shown}");
        assert!(!shown.contains(encoded), "{arguments:?} {shown}");
    }
}

#[test]
fn a_missing_server_program_is_reported_with_a_fix() {
    let sandbox = project(CALL_SCRIPT, "");
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    sandbox.write(
        "p/goondan.yaml",
        &text.replace("command: /bin/sh", "command: no-such-server"),
    );
    let outcome = sandbox.run_command(command(
        &sandbox,
        &["mcp", "list", "--project", "p", "--connect"],
    ));
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stdout.contains("cannot be started")
            && outcome.stdout.contains("install `no-such-server`"),
        "{outcome:?}"
    );
    let outcome = sandbox.run_command(command(&sandbox, &["validate", "p", "--connect"]));
    assert!(
        outcome.stdout.contains("W_MCP_CATALOG") && outcome.code == 0,
        "{outcome:?}"
    );
    let outcome = sandbox.run_command(command(&sandbox, &["doctor", "p"]));
    assert!(
        outcome
            .stdout
            .contains("program `no-such-server` not found"),
        "{outcome:?}"
    );
}

#[test]
fn mcp_import_converts_the_servers_of_other_programs() {
    let sandbox = project(CALL_SCRIPT, "");
    sandbox.write("p/.mcp.json", r#"{"mcpServers": {"Git Hub": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer s3cret"}}}}"#);
    let printed = sandbox.gdn(&["mcp", "import", "--project", "p"]);
    assert!(
        printed.ok().contains("metadata: {name: \"git-hub\"}")
            && !printed.stdout.contains("s3cret"),
        "{printed:?}"
    );
    assert!(
        printed.stderr.contains("needs GIT_HUB_AUTHORIZATION")
            && !printed.stderr.contains("s3cret"),
        "{printed:?}"
    );
    let written = sandbox.gdn(&["mcp", "import", "--project", "p", "--write"]);
    assert_eq!(written.code, 0, "{written:?}");
    let again = sandbox.gdn(&["mcp", "import", "--project", "p", "--write"]);
    assert!(
        again.code != 0 && again.stderr.contains("can't be written"),
        "{again:?}"
    );
    let valid = sandbox.gdn(&["validate", "p"]);
    assert_eq!(valid.code, 0, "{valid:?}");
}

#[test]
fn mcp_import_reports_skipped_servers() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "some.json",
        r#"{"mcpServers": {"bad": 5, "empty": {}, "my files!": {"command": "x"}}}"#,
    );
    let some = sandbox.gdn(&["mcp", "import", "some.json"]);
    assert!(
        some.ok().contains("metadata: {name: \"my-files\"}"),
        "{some:?}"
    );
    assert_eq!(
        some.stderr,
        "bad: skipped: the server is not an object with `command` or `url`\n\
         empty: skipped: the server has neither `command` nor `url`\n\
         my files!: The Tool is named `my-files`, because names may contain only \
         letters, digits and hyphens.\n"
    );
    sandbox.write("none.json", r#"{"mcpServers": {"bad": 5}}"#);
    let none = sandbox.gdn(&["mcp", "import", "none.json"]);
    assert!(none.code == 3 && none.stdout.is_empty(), "{none:?}");
    assert!(
        none.stderr
            .contains("`none.json` lists no MCP server that can be imported"),
        "{none:?}"
    );
}

/// A server runs in the sandbox of its agents, including for the tool list.
#[test]
fn a_server_of_a_sandboxed_agent_is_sandboxed() {
    if !crate::safety::has_sandbox() {
        return;
    }
    let sandbox = project(CALL_SCRIPT, "permissions: {default: allow, sandbox: {}}");
    let outcome = sandbox.run_command(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert!(outcome.ok().starts_with("process "), "{outcome:?}");
    assert!(
        !sandbox.dir().join("seen").exists(),
        "the server wrote outside of its directory"
    );
}

/// Runs `inputs` as turns of a stream, and answers approval requests with `answer`. Calls
/// `between` after each turn. Returns the approval requests.
fn stream(
    sandbox: &Sandbox,
    inputs: &[&str],
    answer: &Value,
    mut between: impl FnMut(),
) -> Vec<Value> {
    let mut command = command(sandbox, &["run", "p", "--input-format", "stream-json"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take();
    let (mut requests, mut inputs) = (Vec::new(), inputs.iter());
    let send = |stdin: &mut Option<std::process::ChildStdin>, line: Value| {
        writeln!(stdin.as_mut().unwrap(), "{line}").unwrap();
    };
    send(&mut stdin, serde_json::json!({"input": inputs.next()}));
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["type"].as_str() {
            Some("approval.request") => {
                let mut reply = answer.clone();
                reply["approval"] = line["approval"].clone();
                send(&mut stdin, reply);
                requests.push(line);
            }
            Some("result") => {
                between();
                match inputs.next() {
                    Some(input) => send(&mut stdin, serde_json::json!({"input": input})),
                    None => stdin = None,
                }
            }
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    requests
}

/// Replaces the server with one that notes its start in `new`.
fn replace_server(sandbox: &Sandbox) {
    let new = SERVER.replacen('\n', "\ntouch \"$NOTES/new\"\n", 1);
    sandbox.write("p/server.sh", &new);
}

/// A sandboxed program may change the script of a server that runs without a sandbox.
#[test]
fn a_tool_approval_covers_only_the_approved_server_program() {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: ask}");
    let always = serde_json::json!({"answer": "always", "covers": "tool"});
    assert_eq!(stream(&sandbox, &["go"], &always, || {}).len(), 1);
    assert_eq!(stream(&sandbox, &["go"], &always, || {}).len(), 0);
    replace_server(&sandbox);
    let deny = serde_json::json!({"answer": "deny"});
    let requests = stream(&sandbox, &["go"], &deny, || {});
    let reason = requests[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("server.sh` changed since the last approval"),
        "{reason}"
    );
    assert!(
        !sandbox.dir().join("new").exists(),
        "the server ran before the answer"
    );
    assert_eq!(stream(&sandbox, &["go"], &always, || {}).len(), 1);
    assert!(sandbox.dir().join("new").exists());
}

/// The server ends after each call, so the next call starts it again.
#[test]
fn a_changed_server_is_not_restarted_with_an_earlier_approval() {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: ask}");
    let ending = SERVER.replace(r#"$$\"}]}}" ;;"#, r#"$$\"}]}}"; exit ;;"#);
    assert_ne!(ending, SERVER);
    sandbox.write("p/server.sh", &ending);
    let once = serde_json::json!({"answer": "conversation", "covers": "tool"});
    assert_eq!(stream(&sandbox, &["go", "again"], &once, || {}).len(), 1);
    let mut turns = 0;
    let change = || {
        turns += 1;
        if turns == 1 {
            replace_server(&sandbox);
        }
    };
    // The first turn has the approval of the earlier process.
    let deny = serde_json::json!({"answer": "deny"});
    stream(&sandbox, &["go", "again"], &deny, change);
    assert_eq!(turns, 2);
    assert!(!sandbox.dir().join("new").exists(), "the new script ran");
}

/// A program that gdn does not know may run all code in a directory that an argument names.
#[test]
fn an_unknown_program_of_a_server_loads_the_named_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = project(
        CALL_SCRIPT,
        "workdir: project\n  permissions: {default: allow, rules: [{tool: 'shell__*', action: ask}]}",
    );
    let path = |name: &str| sandbox.dir().join(name);
    sandbox.write("bin/runner", "#!/bin/sh\nexec sh \"$1/main.go\"\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path("bin/runner"), executable).unwrap();
    sandbox.write("p/srv/main.go", SERVER);
    let search_path = format!("PATH: '{}:/usr/bin:/bin', NOTES:", path("bin").display());
    let text = std::fs::read_to_string(path("p/goondan.yaml")).unwrap();
    let text = text.replace("command: /bin/sh", "command: runner");
    let text = text.replace("args: [server.sh]", "args: [./srv]");
    let text = text.replace("NOTES:", &search_path);
    let tools = "{ref: Tool/shell}, {ref: Tool/fs}";
    sandbox.write("p/goondan.yaml", &text.replace("{ref: Tool/shell}", tools));
    let always = serde_json::json!({"answer": "always", "covers": "tool"});
    assert_eq!(stream(&sandbox, &["go"], &always, || {}).len(), 1);
    assert_eq!(stream(&sandbox, &["go"], &always, || {}).len(), 0);
    let explain = |path: &str| {
        let arguments = serde_json::json!({"path": path, "content": "x"}).to_string();
        let explain = ["policy", "explain", "--project", "p", "--agent", "a"];
        let call = ["--tool", "fs__write", "--args", &arguments];
        let outcome = sandbox.gdn(&[&explain[..], &call[..]].concat());
        outcome.ok().to_owned()
    };
    for path in ["srv/main.go", "srv/new.go", "srv.js"] {
        let explained = explain(path);
        assert!(
            explained.contains("it is a program of a tool"),
            "{explained}"
        );
    }
    assert!(explain("src/main.go").starts_with("fs__write: allow\n"));
    let new = SERVER.replacen('\n', "\ntouch \"$NOTES/new\"\n", 1);
    sandbox.write("p/srv/main.go", &new);
    let deny = serde_json::json!({"answer": "deny"});
    assert_eq!(stream(&sandbox, &["go"], &deny, || {}).len(), 1);
    assert!(!path("new").exists(), "the new code ran");
}

/// File tools ask before they change the program of a server.
#[test]
fn a_server_program_is_a_protected_file() {
    let sandbox = project(
        CALL_SCRIPT,
        "workdir: project\n  permissions: {default: allow}",
    );
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    let tools = "{ref: Tool/shell}, {ref: Tool/fs}";
    sandbox.write("p/goondan.yaml", &text.replace("{ref: Tool/shell}", tools));
    let explain = |path: &str| {
        let arguments = serde_json::json!({"path": path, "content": "x"}).to_string();
        let explain = ["policy", "explain", "--project", "p", "--agent", "a"];
        let call = ["--tool", "fs__write", "--args", &arguments];
        let outcome = sandbox.gdn(&[&explain[..], &call[..]].concat());
        outcome.ok().to_owned()
    };
    let script = explain("server.sh");
    assert!(script.starts_with("fs__write: ask\n"), "{script}");
    assert!(script.contains("it is a program of a tool"), "{script}");
    assert!(explain("other.sh").starts_with("fs__write: allow\n"));
}

/// Returns the answer to a request, and `None` for a notification.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => serde_json::json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "here", "version": "1"},
        }),
        "tools/list" => {
            serde_json::json!({"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => serde_json::json!({"content": [{"type": "text", "text": "from afar"}]}),
        _ => {
            return Some(
                serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}),
            );
        }
    };
    Some(serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Creates the project with another `mcp` entry for its server.
fn project_with_server(mcp: &str) -> Sandbox {
    let sandbox = project(CALL_SCRIPT, "permissions: {default: allow}");
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    let (before, rest) = text.split_once("  mcp:\n").unwrap();
    let (_, after) = rest.split_once("---\n").unwrap();
    sandbox.write(
        "p/goondan.yaml",
        &format!("{before}  mcp: {mcp}\n---\n{after}"),
    );
    sandbox
}

#[test]
fn a_server_on_a_unix_socket_is_called() {
    let sandbox = project_with_server("{socket: server.sock}");
    let listener =
        std::os::unix::net::UnixListener::bind(sandbox.dir().join("p/server.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = std::io::BufReader::new(stream.try_clone().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            if let Some(answer) = answer(&serde_json::from_str(&line).unwrap()) {
                writeln!(stream, "{answer}").unwrap();
            }
        }
    });
    let outcome = sandbox.run_command(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert_eq!(outcome.ok(), "from afar\n");
    server.join().unwrap();
}

/// Reads a request. Returns its head in lower case, and its message.
fn request(stream: &mut std::net::TcpStream) -> Option<(String, Value)> {
    let mut reader = std::io::BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).unwrap_or_default()))
}

#[test]
fn headers_are_sent_only_to_their_http_server() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let elsewhere = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (port, other) = (
        listener.local_addr().unwrap().port(),
        elsewhere.local_addr().unwrap().port(),
    );
    let key = "{X-Key: {valueFrom: {env: WANTED}}}";
    let sandbox = project_with_server(&format!(
        "{{url: 'http://127.0.0.1:{port}/mcp', headers: {key}}}"
    ));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some((head, message)) = request(&mut stream) else {
                continue;
            };
            assert!(head.contains("\r\nx-key: hand this over\r\n"), "{head}");
            let (status, body) = match answer(&message) {
                Some(_) if head.starts_with("post /moved") => (
                    format!("307 -\r\nlocation: http://127.0.0.1:{other}/"),
                    String::new(),
                ),
                Some(answer) => (
                    "200 -\r\ncontent-type: application/json".to_owned(),
                    answer.to_string(),
                ),
                None if message.is_null() => ("405 -".to_owned(), String::new()),
                None => ("202 -".to_owned(), String::new()),
            };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    let outcome = sandbox.run_command(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert_eq!(outcome.ok(), "from afar\n");
    // At this path, the server redirects to another address.
    let sandbox = project_with_server(&format!(
        "{{url: 'http://127.0.0.1:{port}/moved', headers: {key}}}"
    ));
    let outcome = sandbox.run_command(command(
        &sandbox,
        &["mcp", "list", "--project", "p", "--connect"],
    ));
    assert!(
        outcome.code == 1 && !outcome.stdout.contains("hand this over"),
        "{outcome:?}"
    );
    elsewhere.set_nonblocking(true).unwrap();
    assert!(
        elsewhere.accept().is_err(),
        "the other address received a request"
    );
}
