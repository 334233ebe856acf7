//! `gdn` as an MCP server: over stdio in both protocol revisions, and with another `gdn` as client.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::json_rpc_client::{Peer, is_response_to};
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

/// The agent runs a command for the input `run`, and hangs for the input `stuck`.
const COMMAND_SCRIPT: &str = "\
rules:
  - {when: {role: user, contains: stuck}, reply: {text: late, delayMs: 600000}}
  - {when: {role: user, contains: run}, reply: {text: Look., calls: [{id: c, tool: bash__exec, args: {command: echo hi}}]}}
  - {when: {role: tool}, reply: {text: 'It said {{ results.c.status }}.'}}
default: {text: 'heard {{ input }}'}
";

const OLD_REVISION: &str = "2025-11-25";
const NEW_REVISION: &str = "2026-07-28";

/// Trace id of the client.
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";

/// A client of one protocol revision that supports elicitation.
struct Client {
    peer: Peer,
    revision: &'static str,
}

struct CallResult {
    result: Value,
}

impl CallResult {
    fn text(&self) -> &str {
        self.result["content"][0]["text"].as_str().unwrap()
    }
}

impl Client {
    fn start(sandbox: &Sandbox, revision: &'static str) -> Self {
        let mut client = Client {
            peer: Peer::start(sandbox, &["mcp", "serve", "p"]),
            revision,
        };
        if revision == OLD_REVISION {
            let capabilities = json!({"elicitation": {}});
            let client_info = json!({"name": "test", "version": "1"});
            let initialize = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client_info});
            let id = client.peer.request("initialize", initialize);
            client.read_response(id);
            client.peer.notify("notifications/initialized", json!({}));
        }
        client
    }

    /// Returns the `_meta` of a request. In the new revision, it describes the client.
    fn meta(&self) -> Value {
        let mut meta = json!({"progressToken": "p", "traceparent": format!("00-{TRACE_ID}-b7ad6b7169203331-01")});
        if self.revision == NEW_REVISION {
            meta["io.modelcontextprotocol/protocolVersion"] = NEW_REVISION.into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] =
                json!({"elicitation": {"form": {}}});
        }
        meta
    }

    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        params["_meta"] = self.meta();
        self.peer.request(method, params)
    }

    fn start_call(&mut self, message: &str, conversation: &str) -> u64 {
        let arguments = json!({"input": message, "conversation": conversation});
        self.request(
            "tools/call",
            json!({"name": "ask_a", "arguments": arguments}),
        )
    }

    /// Reads until the request is answered. Accepts all approval requests in between.
    fn read_response(&mut self, id: u64) -> CallResult {
        loop {
            let line = self.peer.line();
            if line["method"] == "elicitation/create" {
                assert!(
                    line["params"]["message"]
                        .as_str()
                        .unwrap()
                        .contains("echo hi")
                );
                self.peer.respond(
                    &line,
                    json!({"action": "accept", "content": {"answer": "once"}}),
                );
            }
            if is_response_to(&line, id) {
                return CallResult {
                    result: line["result"].clone(),
                };
            }
        }
    }
}

fn project_with_approvals() -> Sandbox {
    let sandbox = scripted(COMMAND_SCRIPT);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let project = manifest(model, "permissions: {default: ask}");
    sandbox.write(
        "p/goondan.yaml",
        &project.replace(
            "{name: a}",
            "{name: a, annotations: {description: Runs things.}}",
        ),
    );
    sandbox
}

#[test]
fn an_agent_is_a_tool_in_both_protocol_revisions() {
    for revision in [OLD_REVISION, NEW_REVISION] {
        let sandbox = project_with_approvals();
        let mut client = Client::start(&sandbox, revision);
        let id = client.request("tools/list", json!({}));
        let tools = client.read_response(id).result["tools"].clone();
        assert_eq!(
            (&tools[0]["name"], &tools[0]["description"]),
            (&json!("ask_a"), &json!("Runs things."))
        );
        assert_eq!(tools.as_array().map(Vec::len), Some(1));

        let id = client.start_call("one", "k");
        let called = client.read_response(id);
        assert_eq!(called.text(), "heard one");
        assert_eq!(
            called.result["structuredContent"],
            json!({"answer": "heard one", "conversation": "k"})
        );

        for wrong in [
            json!({}),
            json!({"message": " "}),
            json!({"message": "m", "more": 1}),
        ] {
            let id = client.request("tools/call", json!({"name": "ask_a", "arguments": wrong}));
            let refused = client.read_response(id);
            assert_eq!(refused.result["isError"], true, "{wrong}");
            assert!(
                refused.text().starts_with("[E_SERVE_REQUEST]"),
                "{}",
                refused.text()
            );
        }
        client.peer.close();
        assert!(
            sandbox
                .gdn(&["logs", "--trace", TRACE_ID])
                .ok()
                .contains("turn.started"),
            "the turn belongs to the trace of the client"
        );
    }
}

#[test]
fn an_older_client_answers_an_approval_request_during_the_call() {
    let sandbox = project_with_approvals();
    let mut client = Client::start(&sandbox, OLD_REVISION);
    let id = client.start_call("run", "k");
    assert_eq!(client.read_response(id).text(), "It said ok.");
    client.peer.close();
}

#[test]
fn a_newer_client_answers_an_approval_request_with_a_second_call() {
    let sandbox = project_with_approvals();
    let mut client = Client::start(&sandbox, NEW_REVISION);
    let id = client.start_call("run", "k");
    let first_result = client.read_response(id).result;
    assert_eq!(first_result["resultType"], "input_required");
    // A repeated call without an answer receives the same input request.
    let state = first_result["requestState"].clone();
    let empty = json!({"name": "ask_a", "arguments": {"message": "run"}, "requestState": state});
    let id = client.request("tools/call", empty);
    assert_eq!(
        client.read_response(id).result["inputRequests"],
        first_result["inputRequests"]
    );
    for (name, expected) in [("ask_a", "It said ok."), ("ask_a", "It said ok.")] {
        let answers: Value = first_result["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| {
                (
                    key.clone(),
                    json!({"action": "accept", "content": {"answer": "once"}}),
                )
            })
            .collect::<serde_json::Map<_, _>>()
            .into();
        let again = json!({"name": name, "arguments": {"message": "run"}, "requestState": state, "inputResponses": answers});
        // At the second call, the turn is over: its result is repeated, and no turn starts.
        let id = client.request("tools/call", again);
        assert_eq!(client.read_response(id).text(), expected);
    }
    let forged = json!({"name": "ask_a", "arguments": {"message": "run"}, "requestState": "evt-0"});
    let id = client.request("tools/call", forged);
    assert_eq!(client.read_response(id).result, Value::Null);
    client.peer.close();
}

#[test]
fn a_cancelled_call_cancels_its_turn() {
    for revision in [OLD_REVISION, NEW_REVISION] {
        let sandbox = project_with_approvals();
        let mut client = Client::start(&sandbox, revision);
        let stuck = client.start_call("stuck", "k");
        while client.peer.line()["params"]["message"] != "a: step 1" {}
        client.peer.notify(
            "notifications/cancelled",
            json!({"requestId": stuck, "reason": "enough"}),
        );
        // The next turn of the conversation waits for the end of the cancelled turn.
        let id = client.start_call("next", "k");
        assert_eq!(client.read_response(id).text(), "heard next");
        client.peer.close();
    }
}

/// Writes a project `outer` whose Tool `inner` is an MCP server. `server` is its description.
fn write_outer_project(sandbox: &Sandbox, server: &str) {
    let model = "{provider: scripted, model: any}";
    let tool = format!("kind: Tool\nmetadata: {{name: inner}}\nspec: {{mcp: {{{server}}}}}\n");
    let project =
        manifest(model, "permissions: {default: allow}").replace("Tool/bash", "Tool/inner");
    sandbox.write(
        "outer/goondan.yaml",
        &format!("{project}---\napiVersion: goondan.ai/v1\n{tool}"),
    );
}

fn call_inner_agent(sandbox: &Sandbox) -> String {
    let arguments = r#"{"input": "hi", "conversation": "k"}"#;
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        "inner__ask_a",
        "--project",
        "outer",
        "--args",
        arguments,
        "--json",
    ]);
    let result: Value = serde_json::from_str(outcome.ok()).unwrap();
    result["output"].to_string()
}

const ANSWER: &str = r#"{"answer":"heard hi","conversation":"k"}"#;

#[test]
fn gdn_calls_gdn_over_stdio() {
    for protocol in ["", ", protocol: '2025-11-25'", ", protocol: '2026-07-28'"] {
        let sandbox = scripted(ECHO);
        let (state, gdn) = (sandbox.dir().join("inner-state"), env!("CARGO_BIN_EXE_gdn"));
        let env = format!(
            "{{GOONDAN_STATE_ROOT: '{}', GOONDAN_TRUST: '1'}}",
            state.display()
        );
        write_outer_project(
            &sandbox,
            &format!("command: '{gdn}', args: [mcp, serve, ../p], env: {env}{protocol}"),
        );
        assert_eq!(call_inner_agent(&sandbox), ANSWER, "{protocol}");
    }
}

/// A `gdn serve` that is killed at the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn gdn_calls_gdn_over_http() {
    let sandbox = scripted(ECHO);
    let mut server = sandbox.command(&["serve", "p", "--json", "--listen", "127.0.0.1:0"]);
    let mut server = Server(
        server
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let token = std::fs::read_to_string(ready["tokenFile"].as_str().unwrap()).unwrap();
    let url = ready["url"].as_str().unwrap();
    for protocol in [OLD_REVISION, NEW_REVISION] {
        let headers = format!("{{Authorization: 'Bearer {}'}}", token.trim());
        write_outer_project(
            &sandbox,
            &format!("url: '{url}/mcp', headers: {headers}, protocol: '{protocol}'"),
        );
        assert_eq!(call_inner_agent(&sandbox), ANSWER, "{protocol}");
    }
    write_outer_project(&sandbox, &format!("url: '{url}/mcp'"));
    let refused = sandbox.gdn(&[
        "tool",
        "call",
        "inner__ask_a",
        "--project",
        "outer",
        "--args",
        "{}",
    ]);
    assert_ne!(refused.code, 0);
}
