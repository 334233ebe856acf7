//! Another program at the end of a pipe, with JSON-RPC lines in both directions.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A client of `gdn` that talks over its standard input and output.
pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    requests: u64,
}

impl Peer {
    /// Starts the command.
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut child = sandbox
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Peer {
            child,
            stdin,
            stdout,
            requests: 0,
        }
    }

    /// Sends a request; gives back its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        self.write(
            &json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}),
        );
        self.requests
    }

    /// Sends a notification.
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the other side.
    pub(crate) fn respond(&mut self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// The next line. Each is JSON; nothing else ever comes.
    pub(crate) fn line(&mut self) -> Value {
        serde_json::from_str(&self.stdout.next().unwrap().unwrap()).unwrap()
    }

    /// Ends standard input. The command ends with it, and well. A withdrawn approval request may be
    /// cancelled after the answer to the prompt.
    pub(crate) fn close(mut self) {
        drop(self.stdin.take());
        let left: Vec<String> = self.stdout.by_ref().map(Result::unwrap).collect();
        let is_cancel = |line: &String| line.contains("\"$/cancel_request\"");
        assert!(left.iter().all(is_cancel), "{left:?}");
        assert!(self.child.wait().unwrap().success());
    }

    fn write(&mut self, line: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

/// Whether a line answers the request with that id.
pub(crate) fn answers(line: &Value, id: u64) -> bool {
    line["id"] == id && line.get("method").is_none()
}
