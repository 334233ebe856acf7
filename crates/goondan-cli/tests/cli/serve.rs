//! A `gdn serve` process, and the commands and clients that use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::projects::{ECHO, SHOUT, manifest, scripted};
use crate::pty_session::PtySession;
use crate::sandbox::Sandbox;

/// The model calls a tool that may need an approval, and answers with its result.
const CASE_TOOL_SCRIPT: &str = "\
rules:
  - {when: {role: user}, reply: {calls: [{id: c, tool: text-transform__case, args: {text: '{{ input }}', to: upper}}]}}
  - {when: {role: tool, contains: E_TOOL}, reply: {text: refused}}
  - {when: {role: tool}, reply: {text: '{{ results.c.output.result }}'}}
";

/// A `gdn serve` that is ready.
pub(crate) struct ServeProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
    pub(crate) token: String,
    pub(crate) token_file: PathBuf,
}

impl ServeProcess {
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut command = sandbox.command(
            &[
                &["serve", "p", "--listen", "127.0.0.1:0", "--json"],
                arguments,
            ]
            .concat(),
        );
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut errors = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut errors)
                .unwrap();
            panic!("{line}{errors}")
        });
        let address = ready["url"]
            .as_str()
            .unwrap()
            .strip_prefix("http://")
            .unwrap()
            .to_owned();
        let token_file = PathBuf::from(ready["tokenFile"].as_str().unwrap());
        let token = std::fs::read_to_string(&token_file)
            .unwrap()
            .trim()
            .to_owned();
        ServeProcess {
            child,
            stdout,
            address,
            token,
            token_file,
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the end. Returns the exit code and the remaining output.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut rest)
            .unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// Sends a request whose response is an event stream.
    fn stream(&self, method: &str, path: &str, header: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, token, length) = (&self.address, &self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n{header}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        self.request(&format!("GET {path}"), "")
    }

    fn post(&self, path: &str, body: &Value) -> String {
        self.request(&format!("POST {path}"), &body.to_string())
    }

    fn request(&self, method_and_path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, token, length) = (&self.address, &self.token, body.len());
        let request = format!(
            "{method_and_path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

#[test]
fn a_server_prints_a_line_for_each_approval_request_and_failed_turn() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, options: {script: script.yaml}}",
            "permissions: {default: ask}",
        ),
    );
    let failing =
        "  - {when: {contains: break}, reply: {error: {status: 400, message: \"no\\nServing\"}}}\n";
    sandbox.write(
        "p/script.yaml",
        &CASE_TOOL_SCRIPT.replace("rules:\n", &format!("rules:\n{failing}")),
    );
    let mut command = sandbox.command(&["serve", "p", "--listen", "127.0.0.1:0", "--no-token"]);
    let mut child = command
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut line_with = |words: &str| {
        let mut lines = lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(words)).unwrap()
    };
    let serving = line_with("Serving the swarm s at http://");
    let address = serving.split("http://").nth(1).unwrap();
    let address = address.split(". Press").next().unwrap();
    for (text, key) in [("break", "one"), ("shout", "two")] {
        let body = json!({"text": text, "instanceKey": key}).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let request = format!(
            "POST /api/inputs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 202"), "{response}");
        match key {
            // The message of the provider stays in its line.
            "one" => assert!(line_with("A turn of a:one failed: [E_MODEL").contains("Serving")),
            _ => drop(line_with(
                "a:two waits for an approval of text-transform__case.",
            )),
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn site_files_are_public_except_hidden_files() {
    let sandbox = scripted(ECHO);
    let site = sandbox.dir().join("site");
    std::fs::create_dir_all(site.join(".git")).unwrap();
    for (name, text) in [
        ("index.html", "<p>hello"),
        (".env", "KEY=1"),
        (".git/config", "secret"),
    ] {
        std::fs::write(site.join(name), text).unwrap();
    }
    let mut serving = ServeProcess::start(&sandbox, &["--site", "site"]);
    serving.token = "nobody's".to_owned();
    let page = serving.get("/");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.ends_with("<p>hello"),
        "{page}"
    );
    for hidden in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/%2Egit/config",
        "/../p/goondan.yaml",
        "/%2e%2e/p/goondan.yaml",
        "/no",
    ] {
        let refused = serving.get(hidden);
        assert!(
            refused.starts_with("HTTP/1.1 404") && refused.contains("E_SERVE_NOT_FOUND"),
            "{hidden}: {refused}"
        );
    }
    assert!(serving.get("/api/swarm").starts_with("HTTP/1.1 401"));
    serving.signal("TERM");
    assert_eq!(serving.end().0, Some(0));
    let absent = sandbox.gdn(&["serve", "p", "--site", "nowhere"]);
    assert!(
        absent
            .stderr
            .contains("The directory `nowhere` does not exist."),
        "{}",
        absent.stderr
    );
}

#[test]
fn a_site_cannot_contain_the_state_root_or_the_token_file() {
    let sandbox = scripted(ECHO);
    sandbox.write("secret/token", "the token of this server is long\n");
    let state = sandbox.state();
    std::fs::create_dir_all(state.join("workspaces")).unwrap();
    let inside = state.join("workspaces");
    for arguments in [
        ["--site", ".."].as_slice(),
        &["--site", inside.to_str().unwrap()],
        &["--site", "secret", "--token-file", "secret/token"],
    ] {
        let refused = sandbox.gdn(&[&["serve", "p"], arguments].concat());
        assert!(
            refused.stderr.contains("would publish"),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn the_studio_records_the_same_test_case_as_the_command() {
    let sandbox = scripted(SHOUT);
    let serving = ServeProcess::start(&sandbox, &["--studio"]);
    let case = |message: Value| {
        let response = serving.post("/api/instances/a/main/case", &message);
        serde_json::from_str::<Value>(response.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    for input in ["good {{ morning }}", "again"] {
        let answer = serving.post("/api/inputs?wait=true", &json!({ "text": input }));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let messages = serving.get("/api/instances/a/main/messages");
    let messages: Value = serde_json::from_str(messages.split_once("\r\n\r\n").unwrap().1).unwrap();
    let second = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["data"]["role"] == "user")
        .nth(1);
    let whole = case(json!({}));
    let turn = case(json!({ "messageId": second.unwrap()["id"] }));
    assert_eq!(
        (&whole["file"], &turn["name"]),
        (&json!("a-main.case.yaml"), &json!("a-main-turn-2"))
    );
    let refused = case(json!({ "messageId": "of-nobody" }));
    assert_eq!(refused["error"]["code"], "CASE_NOT_RECORDED", "{refused}");
    // A project that now gives another result is reported.
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, options: {script: script.yaml}}",
            "",
        )
        .replace("{ref: Tool/text-transform}, ", ""),
    );
    let other = case(json!({}));
    assert!(
        other["error"]["message"]
            .as_str()
            .unwrap()
            .contains("gives a different result"),
        "{other}"
    );
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, options: {script: script.yaml}}",
            "",
        ),
    );
    serving.signal("TERM");
    assert_eq!(serving.end().0, Some(0));
    for (made, arguments) in [(whole, &[][..]), (turn, &["--turn", "2"][..])] {
        let file = format!("p/{}", made["file"].as_str().unwrap());
        let output = ["test", "record", "p", "-i", "a:main", "-o", &file];
        sandbox.gdn(&[&output[..], arguments].concat()).ok();
        assert_eq!(
            made["text"],
            std::fs::read_to_string(sandbox.dir().join(&file)).unwrap()
        );
    }
    assert!(
        sandbox
            .gdn(&["test", "p"])
            .ok()
            .ends_with("2 passed, 0 failed\n")
    );
}

#[test]
fn other_commands_use_the_running_server() {
    let sandbox = scripted(ECHO);
    let serving = ServeProcess::start(&sandbox, &[]);
    let run = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(
        (run.code, &*run.stdout),
        (0, "heard hi\n"),
        "{}",
        run.stderr
    );
    assert_eq!(
        run.stderr,
        "Another process runs this swarm and receives the input.\n"
    );
    let json = sandbox.gdn(&["run", "p", "--input", "you", "--output-format", "json"]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&report["type"], &report["response"]),
        (&"result".into(), &"heard you".into())
    );
    let called = sandbox.gdn(&[
        "tool",
        "call",
        "-p",
        "p",
        "text-transform__case",
        "--args",
        r#"{"text": "a", "to": "upper"}"#,
    ]);
    assert_eq!(called.code, 0, "{}", called.stderr);
    assert!(called.stdout.contains("\"A\""), "{}", called.stdout);
    let listed = sandbox.gdn(&["tool", "list", "-p", "p", "--json"]);
    assert!(
        listed.stdout.contains("text-transform__case"),
        "{}",
        listed.stderr
    );
    let sent = sandbox.gdn(&["send", "-p", "p", "--id", "once", "again", "--json"]);
    let state: Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(
        (&state["id"], &state["instanceKey"]),
        (&"once".into(), &"main".into())
    );
    let second = sandbox.gdn(&["serve", "p", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 1);
    assert!(
        second
            .stderr
            .contains(&format!("is held by process {}", serving.child.id())),
        "{}",
        second.stderr
    );
    serving.signal("TERM");
    let (code, output) = serving.end();
    assert_eq!((code, &*output), (Some(0), ""));
    let not_running = sandbox.gdn(&["send", "-p", "p", "hi"]);
    assert!(
        not_running.stderr.starts_with("error[NOT_RUNNING]"),
        "{}",
        not_running.stderr
    );
    // The conversation contains the sent input once.
    let shown = sandbox.gdn(&["instance", "show", "a:main", "--project", "p"]);
    assert_eq!(
        shown.stdout.matches("heard again").count(),
        1,
        "{}",
        shown.stdout
    );
}

#[test]
fn a_command_answers_the_approval_requests_of_its_input() {
    let sandbox = Sandbox::new();
    let permissions = "permissions: {default: ask}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, options: {script: script.yaml}}",
            permissions,
        ),
    );
    sandbox.write("p/script.yaml", CASE_TOOL_SCRIPT);
    let serving = ServeProcess::start(&sandbox, &[]);
    let run = sandbox.gdn(&["run", "p", "--input", "hi", "--yes"]);
    assert_eq!((run.code, &*run.stdout), (0, "HI\n"), "{}", run.stderr);
    // Without a terminal, the approval request stays open for another client.
    let sent = sandbox.gdn(&["send", "-p", "p", "you"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let mut attached = sandbox.command(&["attach", "-p", "p", "--yes", "--json"]);
    let mut attached = attached
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(attached.stdout.take().unwrap()).lines();
    let answered = lines
        .map(Result::unwrap)
        .find(|line| line.contains("approval.resolved"))
        .unwrap();
    assert!(
        answered.contains("\"allow\"") || answered.contains("once"),
        "{answered}"
    );
    attached.kill().unwrap();
    attached.wait().unwrap();
    serving.signal("INT");
    assert_eq!(serving.end().0, Some(0));
}

/// Reads the events of a stream up to an event that contains `wanted`. Returns their numbers and
/// texts.
fn events_until(stream: &mut impl BufRead, wanted: &str) -> Vec<(u64, String)> {
    let (mut seen, mut number) = (Vec::new(), None);
    for line in stream.lines().map(Result::unwrap) {
        if let Some(id) = line
            .strip_prefix("id: ")
            .or_else(|| line.strip_prefix("id:"))
        {
            number = id.trim().parse().ok();
        } else if line.starts_with("data:") {
            seen.extend(number.take().map(|number| (number, line.clone())));
            if line.contains(wanted) {
                return seen;
            }
        }
    }
    panic!("no {wanted} was received: {seen:?}");
}

/// The process is killed during the second step of a turn. A client that sends its last event id
/// receives the remaining events, each of them once.
#[test]
fn a_stream_resumes_after_the_process_was_killed() {
    let sandbox = scripted(
        "rules:\n  - {when: {role: user}, reply: {calls: [{id: c, tool: text-transform__case, args: {text: a, to: upper}}]}}\n  \
         - {when: {role: tool}, reply: {text: at last, delayMs: 3000}}\n",
    );
    let serving = ServeProcess::start(&sandbox, &[]);
    let mut stream = BufReader::new(serving.stream(
        "POST",
        "/api/inputs",
        "",
        r#"{"text": "go", "id": "once"}"#,
    ));
    let before = events_until(&mut stream, "tool.completed");
    let (last, _) = before.last().unwrap();
    serving.signal("KILL");
    assert_eq!(serving.end().0, None);
    let serving = ServeProcess::start(&sandbox, &[]);
    let header = format!("Last-Event-ID: {last}\r\n");
    let mut stream = BufReader::new(serving.stream("GET", "/api/inputs/once/events", &header, ""));
    let after = events_until(&mut stream, "turn.completed");
    let numbers: Vec<u64> = before
        .iter()
        .chain(&after)
        .map(|(number, _)| *number)
        .collect();
    assert!(
        numbers.is_sorted_by(|one, next| one < next),
        "{before:?}\n{after:?}"
    );
    let all: String = before
        .into_iter()
        .chain(after)
        .map(|(_, data)| data)
        .collect();
    assert_eq!(
        (
            all.matches("tool.completed").count(),
            all.matches("turn.completed").count()
        ),
        (1, 1),
        "{all}"
    );
    serving.signal("TERM");
    assert_eq!(serving.end().0, Some(0));
    let shown = sandbox.gdn(&["instance", "show", "a:main", "--project", "p"]);
    assert_eq!(
        shown.stdout.matches("at last").count(),
        1,
        "{}",
        shown.stdout
    );
}

#[test]
fn a_stale_control_endpoint_of_a_killed_process_is_ignored() {
    let sandbox = scripted(ECHO);
    let mut serving = ServeProcess::start(&sandbox, &[]);
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let run = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(
        (run.code, &*run.stdout, &*run.stderr),
        (0, "heard hi\n", "")
    );
}

#[test]
fn the_api_requires_the_token_which_survives_restarts() {
    let sandbox = scripted(ECHO);
    let mut serving = ServeProcess::start(&sandbox, &[]);
    let swarm = serving.get("/api/swarm");
    assert!(
        swarm.starts_with("HTTP/1.1 200") && swarm.contains(r#""name":"s""#),
        "{swarm}"
    );
    let token = std::mem::replace(&mut serving.token, "nonsense-nonsense".to_owned());
    assert!(serving.get("/api/swarm").starts_with("HTTP/1.1 401"));
    serving.signal("INT");
    serving.end();
    // The token is kept, so that clients continue to work after a restart.
    assert_eq!(ServeProcess::start(&sandbox, &[]).token, token);
}

#[test]
fn an_unprotected_server_does_not_start() {
    let sandbox = scripted(ECHO);
    let open = sandbox.gdn(&["serve", "p", "--no-token", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 2);
    assert!(
        open.stderr
            .contains("`--no-token` is only allowed on a loopback address"),
        "{}",
        open.stderr
    );
    sandbox.write("token", "short\n");
    let short = sandbox.gdn(&[
        "serve",
        "p",
        "--token-file",
        "token",
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(short.code, 3, "{}", short.stderr);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let busy = sandbox.gdn(&["serve", "p", "--listen", &address]);
    assert!(
        busy.stderr.starts_with("error[E_SERVE_ADDRESS]"),
        "{}",
        busy.stderr
    );
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // Usually, the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The model hangs for the input `slow`, and fails for the input `fail`.
const SLOW_OR_FAILING: &str = "\
rules:
  - {when: {contains: slow}, reply: {text: late, delayMs: 600000}}
  - {when: {contains: fail}, reply: {error: {status: 400, message: no such thing}}}
default: {text: 'heard {{ input }}'}
";

#[test]
fn a_chat_uses_the_running_server() {
    let sandbox = scripted(SLOW_OR_FAILING);
    let serving = ServeProcess::start(&sandbox, &[]);
    let mut pty = PtySession::start_chat(&sandbox);
    pty.read_until("Another process runs this swarm");
    pty.read_until("a> ");
    pty.write("slow\r");
    pty.read_until("a is thinking");
    pty.signal("INT");
    pty.read_until("Cancelled.");
    pty.read_until("a> ");
    pty.write("/agent nobody\r");
    pty.read_until("There is no agent nobody; /agents lists them.");
    pty.read_until("a> ");
    pty.write("hi\r");
    pty.read_until("heard hi");
    pty.read_until("a> ");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
    assert!(serving.get("/api/swarm").starts_with("HTTP/1.1 200"));
}

#[test]
fn failed_events_are_retried_by_the_running_server() {
    let sandbox = scripted(SLOW_OR_FAILING);
    let serving = ServeProcess::start(&sandbox, &[]);
    for _ in 0..2 {
        assert_eq!(sandbox.gdn(&["run", "p", "--input", "fail"]).code, 1);
    }
    let again = sandbox.gdn(&["instance", "retry", "a:main", "--project", "p", "--json"]);
    assert_eq!(again.code, 1, "{}", again.stderr);
    let results: Vec<Value> = again
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(results.len(), 2, "{}", again.stdout);
    assert!(results.iter().all(|result| {
        result["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no such thing")
    }));
    drop(serving);
}

#[cfg(target_os = "linux")]
#[test]
fn a_state_root_that_is_not_utf8_is_shown() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = scripted(ECHO);
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    let mut child = sandbox
        .command(&["serve", "p", "--listen", "127.0.0.1:0", "--json"])
        .env("GOONDAN_STATE_ROOT", sandbox.state().join(name))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let file = ready["tokenFile"].as_str().unwrap_or_default();
    assert!(file.contains("bad\u{FFFD}"), "{line}");
}
