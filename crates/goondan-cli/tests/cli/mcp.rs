//! MCP servers that are real programs: how they start, what they see, and that they end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::sandbox::{Sandbox, until};

/// A server in the shell. It says where it is by holding the pipe `held`, as does a program that it starts; it writes what it
/// sees to `seen`, and its tool answers with its process.
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

/// The model calls the tool, and then takes its time.
const CALLS: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: shell__pid, args: {}}]}
  - when: {role: tool}
    reply: {text: '{{ results.c.output }}'}
";

const STUCK: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: shell__pid, args: {}}]}
  - when: {role: tool}
    reply: {text: late, delayMs: 600000}
";

/// A project with that server; `more` stands at the end of the Agent's spec.
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

/// `gdn` with a variable that the server gets, and one that it does not.
fn command(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command
        .env("WANTED", "hand this over")
        .env("UNWANTED_TOKEN", "keep this back");
    command
}

#[test]
fn a_server_sees_what_its_tool_gives_it_and_nothing_else() {
    let sandbox = project(CALLS, "permissions: {default: allow}");
    let outcome = sandbox.finished(command(&sandbox, &["run", "p", "--input", "hi"]));
    // Nothing that was handed over as a secret is shown, and the rest is the answer.
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
    let sandbox = project(CALLS, "permissions: {default: allow}");
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
    let sandbox = project(CALLS, "permissions: {default: allow}");
    let (mut running, mut lines) = run_with_slow_server(&sandbox);
    let process = running.id().to_string();
    let killed = Command::new("kill").args(["-s", "TERM", &process]).status();
    assert!(killed.unwrap().success());
    assert!(lines.any(|line| line.unwrap().contains("error[INTERRUPTED]")));
    assert_eq!(running.wait().unwrap().code(), Some(143));
}

#[test]
fn a_server_of_a_project_that_nobody_trusts_is_not_started() {
    let sandbox = project(CALLS, "permissions: {default: allow}");
    let lines: [&[&str]; 4] = [
        &["run", "p", "--input", "hi"],
        &["tool", "list", "--project", "p"],
        &["mcp", "list", "--project", "p", "--connect"],
        &["validate", "p", "--connect"],
    ];
    for line in lines {
        let mut command = sandbox.stranger(line);
        command.env("WANTED", "x");
        let outcome = sandbox.finished(command);
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
fn a_server_ends_with_all_that_it_started_however_gdn_ends() {
    for signal in ["KILL", "TERM", "INT"] {
        let sandbox = project(STUCK, "permissions: {default: allow}");
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
        // It opens when the server has opened the other end, and ends when the last process has let go of it.
        let mut held = std::fs::File::open(&pipe).unwrap();
        until(&mut events, "tool.completed");
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

/// A server that goes on when its input ends, hears no signal that can be left unheard, and has started others that do the same.
const STUBBORN: &str = r#"trap '' TERM INT HUP
( trap '' TERM INT HUP; exec 3> "$NOTES/held"; while :; do sleep 0.1; done ) &
sh -c 'sh -c "trap \"\" TERM INT HUP; exec 3> \"$NOTES/held\"; while :; do sleep 0.1; done" & wait' &
exec 3> "$NOTES/held"
"#;

#[test]
fn a_server_that_does_not_want_to_end_ends_with_all_that_it_started() {
    for signal in ["KILL", "TERM"] {
        let sandbox = project(STUCK, "permissions: {default: allow}");
        let held = sandbox.named_pipe("held");
        let goes_on = "while :; do sleep 0.1; done\n";
        let server = SERVER.replace(
            "[ -p \"$NOTES/held\" ] && exec 3> \"$NOTES/held\" && sleep 600 &\n",
            STUBBORN,
        );
        sandbox.write("p/server.sh", &format!("{server}{goes_on}"));
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
        until(&mut events, "tool.completed");
        let process = running.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &process])
                .status()
                .unwrap()
                .success()
        );
        // It ends when nobody holds the pipe any more.
        let mut left = String::new();
        pipe.read_to_string(&mut left).unwrap();
        assert_eq!(left, "", "{signal}");
        running.wait().unwrap();
    }
}

#[test]
fn servers_are_listed_and_reached_when_that_is_asked_for() {
    let sandbox = project(CALLS, "");
    let listed = sandbox.finished(command(&sandbox, &["mcp", "list", "--project", "p"]));
    assert_eq!(
        listed.ok(),
        "shell  /bin/sh server.sh\n  tools not known yet; run with `--connect` to list them\n"
    );
    assert!(!sandbox.dir().join("seen").exists());
    let reached = sandbox.finished(command(
        &sandbox,
        &["mcp", "list", "--project", "p", "--connect", "--json"],
    ));
    let reached: Value = serde_json::from_str(reached.ok()).unwrap();
    assert_eq!(reached[0]["catalog"]["tools"][0]["export"]["name"], "pid");
    let listed = sandbox.finished(command(&sandbox, &["mcp", "list", "--project", "p"]));
    assert!(
        listed.ok().contains("1 tools") && listed.ok().contains("shell__pid  Tells its process."),
        "{listed:?}"
    );
}

#[test]
fn a_secret_in_a_message_of_a_server_is_masked() {
    let sandbox = project(CALLS, "");
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
        let outcome = sandbox.finished(command);
        let shown = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(shown.contains("refused: ***"), "{arguments:?} {shown}");
        assert!(!shown.contains(secret), "{arguments:?} {shown}");
        assert!(!shown.contains(encoded), "{arguments:?} {shown}");
    }
}

#[test]
fn a_program_that_is_not_there_is_told_with_what_to_do() {
    let sandbox = project(CALLS, "");
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    sandbox.write(
        "p/goondan.yaml",
        &text.replace("command: /bin/sh", "command: no-such-server"),
    );
    let outcome = sandbox.finished(command(
        &sandbox,
        &["mcp", "list", "--project", "p", "--connect"],
    ));
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stdout.contains("cannot be started")
            && outcome.stdout.contains("install `no-such-server`"),
        "{outcome:?}"
    );
    let outcome = sandbox.finished(command(&sandbox, &["validate", "p", "--connect"]));
    assert!(
        outcome.stdout.contains("W_MCP_CATALOG") && outcome.code == 0,
        "{outcome:?}"
    );
    let outcome = sandbox.finished(command(&sandbox, &["doctor", "p"]));
    assert!(
        outcome
            .stdout
            .contains("program `no-such-server` not found"),
        "{outcome:?}"
    );
}

#[test]
fn servers_of_other_programs_are_taken_over() {
    let sandbox = project(CALLS, "");
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
fn a_server_that_is_not_taken_over_is_told() {
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

/// Where programs can be contained, a server is contained as those who use it are, also when it is asked what it has.
#[test]
fn a_server_of_an_agent_in_a_sandbox_is_in_it() {
    if !goondan::has_sandbox() {
        return;
    }
    let sandbox = project(CALLS, "permissions: {default: allow, sandbox: {}}");
    let outcome = sandbox.finished(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert!(outcome.ok().starts_with("process "), "{outcome:?}");
    assert!(
        !sandbox.dir().join("seen").exists(),
        "it has written outside of its folder"
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
fn an_approval_of_a_tool_covers_the_program_of_its_server() {
    let sandbox = project(CALLS, "permissions: {default: ask}");
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
        "it ran before the answer"
    );
    assert_eq!(stream(&sandbox, &["go"], &always, || {}).len(), 1);
    assert!(sandbox.dir().join("new").exists());
}

/// The server ends after each call, so the next call starts it again.
#[test]
fn a_server_that_changed_is_not_restarted_with_an_earlier_approval() {
    let sandbox = project(CALLS, "permissions: {default: ask}");
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

/// File tools ask before they change the program of a server.
#[test]
fn the_program_of_a_server_is_a_protected_place() {
    let sandbox = project(CALLS, "workdir: project\n  permissions: {default: allow}");
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

/// What a server says to a message; nothing to a notification.
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

/// The project, with its server reached otherwise.
fn reached_by(mcp: &str) -> Sandbox {
    let sandbox = project(CALLS, "permissions: {default: allow}");
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
fn a_server_on_a_socket_is_spoken_with() {
    let sandbox = reached_by("{socket: server.sock}");
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
    let outcome = sandbox.finished(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert_eq!(outcome.ok(), "from afar\n");
    server.join().unwrap();
}

/// The head of a request, in lower case, and its message.
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
fn a_server_of_the_web_gets_its_headers_and_nobody_else_does() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let elsewhere = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (port, other) = (
        listener.local_addr().unwrap().port(),
        elsewhere.local_addr().unwrap().port(),
    );
    let key = "{X-Key: {valueFrom: {env: WANTED}}}";
    let sandbox = reached_by(&format!(
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
    let outcome = sandbox.finished(command(&sandbox, &["run", "p", "--input", "hi"]));
    assert_eq!(outcome.ok(), "from afar\n");
    // The same server, at an address from which it sends us elsewhere.
    let sandbox = reached_by(&format!(
        "{{url: 'http://127.0.0.1:{port}/moved', headers: {key}}}"
    ));
    let outcome = sandbox.finished(command(
        &sandbox,
        &["mcp", "list", "--project", "p", "--connect"],
    ));
    assert!(
        outcome.code == 1 && !outcome.stdout.contains("hand this over"),
        "{outcome:?}"
    );
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.accept().is_err(), "it was reached elsewhere");
}
