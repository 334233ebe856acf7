//! A JSON-RPC client that exchanges lines with `gdn` over a pipe.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A client that uses the standard input and output of `gdn`.
pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    requests: u64,
}

impl Peer {
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

    /// Sends a request. Returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        self.write(
            &json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}),
        );
        self.requests
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the server.
    pub(crate) fn respond(&mut self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Reads the next line. Each line must be JSON.
    pub(crate) fn line(&mut self) -> Value {
        serde_json::from_str(&self.stdout.next().unwrap().unwrap()).unwrap()
    }

    /// Closes standard input, after which the command must succeed. A withdrawn approval request
    /// may be cancelled after the answer to the prompt.
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

/// Returns true if the line answers the request with the id.
pub(crate) fn is_response_to(line: &Value, id: u64) -> bool {
    line["id"] == id && line.get("method").is_none()
}
