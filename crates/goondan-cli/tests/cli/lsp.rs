//! `gdn lsp` as a process, and `gdn validate --fix`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A project with an unknown field and a missing reference.
const INVALID_PROJECT: &str = "apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, modle: x}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/man}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/writer, agents: [{ref: Agent/writer}]}
";
const PROJECT_WITHOUT_KEY: &str = "apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: x, apiKey: {valueFrom: {env: NO_SUCH_VARIABLE}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/writer, agents: [{ref: Agent/writer}]}
";

struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Editor {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["lsp"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        let mut editor = Editor {
            child,
            input,
            output,
        };
        editor.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": {} } }));
        assert_eq!(editor.receive()["result"]["serverInfo"]["name"], "gdn");
        editor
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.input.flush().unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut header = String::new();
        self.output.read_line(&mut header).unwrap();
        let length = header
            .trim()
            .strip_prefix("Content-Length: ")
            .unwrap()
            .parse()
            .unwrap();
        self.output.read_line(&mut header).unwrap();
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

/// Code, line and column of diagnostics. Lines and columns start at 0.
type Findings = BTreeSet<(String, u64, u64)>;

#[test]
fn published_diagnostics_match_validate() {
    for text in [INVALID_PROJECT, PROJECT_WITHOUT_KEY] {
        let sandbox = Sandbox::new();
        // The saved file is empty: the diagnostics must be about the open text.
        sandbox.write("p/goondan.yaml", "");
        let file = sandbox.dir().join("p/goondan.yaml").canonicalize().unwrap();
        let uri = format!("file://{}", file.display());
        let mut editor = Editor::start(&sandbox);
        let document = json!({ "uri": uri, "languageId": "yaml", "version": 1, "text": text });
        let params = json!({ "textDocument": document });
        editor
            .send(&json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": params }));
        let published = editor.receive();
        let position = |found: &Value| {
            let start = &found["range"]["start"];
            let number = |name: &str| start[name].as_u64().unwrap();
            (
                found["code"].as_str().unwrap().to_owned(),
                number("line"),
                number("character"),
            )
        };
        let published: Findings = published["params"]["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(position)
            .collect();
        sandbox.write("p/goondan.yaml", text);
        let validated = sandbox.gdn(&["validate", "p", "--json"]);
        let validated: Value = serde_json::from_str(&validated.stdout).unwrap();
        let all = validated["errors"]
            .as_array()
            .unwrap()
            .iter()
            .chain(validated["warnings"].as_array().unwrap());
        let place = |found: &Value, name: &str| found[name].as_u64().map_or(0, |number| number - 1);
        let expected: Findings = all
            .map(|found| {
                (
                    found["code"].as_str().unwrap().to_owned(),
                    place(found, "line"),
                    place(found, "column"),
                )
            })
            .collect();
        assert!(!expected.is_empty());
        assert_eq!(published, expected);
    }
}

#[test]
fn the_language_server_exits_as_the_protocol_requires() {
    let sandbox = Sandbox::new();
    let mut editor = Editor::start(&sandbox);
    editor.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "shutdown" }));
    assert_eq!(editor.receive()["result"], Value::Null);
    editor.send(&json!({ "jsonrpc": "2.0", "method": "exit" }));
    assert_eq!(editor.child.wait().unwrap().code(), Some(0));

    let editor = Editor::start(&sandbox);
    drop(editor.input);
    assert_eq!(
        editor.child.wait_with_output().unwrap().status.code(),
        Some(1)
    );

    let mut editor = Editor::start(&sandbox);
    editor.input.write_all(b"hello\n").unwrap();
    let output = editor.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("E_LSP_PROTOCOL"));
}

#[test]
fn validate_fix_applies_safe_fixes_and_reports_them() {
    let sandbox = Sandbox::new();
    sandbox.write("p/goondan.yaml", INVALID_PROJECT);
    let shown = sandbox.gdn(&["validate", "p", "--fix", "--dry-run"]);
    assert_eq!(shown.code, 4);
    assert!(shown.stdout.contains(
        "-spec: {provider: scripted, modle: x}\n+spec: {provider: scripted, model: x}\n"
    ));
    assert_eq!(
        std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap(),
        INVALID_PROJECT
    );
    let fixed = sandbox.gdn(&["validate", "p", "--fix"]);
    assert_eq!(fixed.code, 0, "{}", fixed.stdout);
    assert!(
        fixed.stdout.contains("fixed goondan.yaml:9:"),
        "{}",
        fixed.stdout
    );
    let expected = INVALID_PROJECT
        .replace("modle", "model")
        .replace("Model/man", "Model/main");
    assert_eq!(
        std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap(),
        expected
    );
    let again: Value =
        serde_json::from_str(&sandbox.gdn(&["validate", "p", "--fix", "--json"]).stdout).unwrap();
    assert_eq!(again["fixed"], json!([]));
}
