//! `gdn` as an MCP server: over a pipe in both eras of the protocol, and for a `gdn` that is its client.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::peer::{Peer, answers};
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

/// An agent that asks before it runs a command, and that can be stuck.
const RUNS: &str = "\
rules:
  - {when: {role: user, contains: stuck}, reply: {text: late, delayMs: 600000}}
  - {when: {role: user, contains: run}, reply: {text: Look., calls: [{id: c, tool: bash__exec, args: {command: echo hi}}]}}
  - {when: {role: tool}, reply: {text: 'It said {{ results.c.status }}.'}}
default: {text: 'heard {{ input }}'}
";

const OLD: &str = "2025-11-25";
const NEW: &str = "2026-07-28";

/// The trace of the client.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A client in one of the eras, which can ask its person.
struct Client {
    peer: Peer,
    revision: &'static str,
}

/// What came of a call.
struct Called {
    result: Value,
}

impl Called {
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
        if revision == OLD {
            let capabilities = json!({"elicitation": {}});
            let who = json!({"name": "test", "version": "1"});
            let hello = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": who});
            let id = client.peer.request("initialize", hello);
            client.hear(id);
            client.peer.notify("notifications/initialized", json!({}));
        }
        client
    }

    /// What each request says of the client in the newer era.
    fn meta(&self) -> Value {
        let mut meta =
            json!({"progressToken": "p", "traceparent": format!("00-{TRACE}-b7ad6b7169203331-01")});
        if self.revision == NEW {
            meta["io.modelcontextprotocol/protocolVersion"] = NEW.into();
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

    fn begin(&mut self, message: &str, conversation: &str) -> u64 {
        let arguments = json!({"input": message, "conversation": conversation});
        self.request(
            "tools/call",
            json!({"name": "ask_a", "arguments": arguments}),
        )
    }

    /// Reads on until the request is answered. A person is always asked and says yes.
    fn hear(&mut self, id: u64) -> Called {
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
            if answers(&line, id) {
                return Called {
                    result: line["result"].clone(),
                };
            }
        }
    }
}

fn asking() -> Sandbox {
    let sandbox = scripted(RUNS);
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
fn an_agent_is_a_tool_in_both_eras() {
    for revision in [OLD, NEW] {
        let sandbox = asking();
        let mut client = Client::start(&sandbox, revision);
        let id = client.request("tools/list", json!({}));
        let tools = client.hear(id).result["tools"].clone();
        assert_eq!(
            (&tools[0]["name"], &tools[0]["description"]),
            (&json!("ask_a"), &json!("Runs things."))
        );
        assert_eq!(tools.as_array().map(Vec::len), Some(1));

        let id = client.begin("one", "k");
        let called = client.hear(id);
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
            let refused = client.hear(id);
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
                .gdn(&["logs", "--trace", TRACE])
                .ok()
                .contains("turn.started"),
            "the turn is in the client's trace"
        );
    }
}

#[test]
fn a_person_at_the_client_is_asked_while_the_call_runs() {
    let sandbox = asking();
    let mut client = Client::start(&sandbox, OLD);
    let id = client.begin("run", "k");
    assert_eq!(client.hear(id).text(), "It said ok.");
    client.peer.close();
}

#[test]
fn a_person_at_the_client_is_asked_between_two_calls() {
    let sandbox = asking();
    let mut client = Client::start(&sandbox, NEW);
    let id = client.begin("run", "k");
    let asked = client.hear(id).result;
    assert_eq!(asked["resultType"], "input_required");
    // A client that brings no answer is told again what is wanted.
    let state = asked["requestState"].clone();
    let empty = json!({"name": "ask_a", "arguments": {"message": "run"}, "requestState": state});
    let id = client.request("tools/call", empty);
    assert_eq!(
        client.hear(id).result["inputRequests"],
        asked["inputRequests"]
    );
    for (name, told) in [("ask_a", "It said ok."), ("ask_a", "It said ok.")] {
        let answers: Value = asked["inputRequests"]
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
        // The second time the turn is over: its result is told again, and no other turn begins.
        let id = client.request("tools/call", again);
        assert_eq!(client.hear(id).text(), told);
    }
    let forged = json!({"name": "ask_a", "arguments": {"message": "run"}, "requestState": "evt-0"});
    let id = client.request("tools/call", forged);
    assert_eq!(client.hear(id).result, Value::Null);
    client.peer.close();
}

#[test]
fn a_call_that_is_given_up_cancels_its_turn() {
    for revision in [OLD, NEW] {
        let sandbox = asking();
        let mut client = Client::start(&sandbox, revision);
        let stuck = client.begin("stuck", "k");
        while client.peer.line()["params"]["message"] != "a: step 1" {}
        client.peer.notify(
            "notifications/cancelled",
            json!({"requestId": stuck, "reason": "enough"}),
        );
        // The next turn of that conversation waits for the end of this one.
        let id = client.begin("next", "k");
        assert_eq!(client.hear(id).text(), "heard next");
        client.peer.close();
    }
}

/// A project whose Tool is the swarm in `p`, as a server that is described like that.
fn calling(sandbox: &Sandbox, server: &str) {
    let model = "{provider: scripted, model: any}";
    let tool = format!("kind: Tool\nmetadata: {{name: inner}}\nspec: {{mcp: {{{server}}}}}\n");
    let project =
        manifest(model, "permissions: {default: allow}").replace("Tool/bash", "Tool/inner");
    sandbox.write(
        "outer/goondan.yaml",
        &format!("{project}---\napiVersion: goondan.ai/v1\n{tool}"),
    );
}

fn call(sandbox: &Sandbox) -> String {
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
fn gdn_calls_gdn_over_a_pipe() {
    for protocol in ["", ", protocol: '2025-11-25'", ", protocol: '2026-07-28'"] {
        let sandbox = scripted(ECHO);
        let (state, gdn) = (sandbox.dir().join("inner-state"), env!("CARGO_BIN_EXE_gdn"));
        let env = format!(
            "{{GOONDAN_STATE_ROOT: '{}', GOONDAN_TRUST: '1'}}",
            state.display()
        );
        calling(
            &sandbox,
            &format!("command: '{gdn}', args: [mcp, serve, ../p], env: {env}{protocol}"),
        );
        assert_eq!(call(&sandbox), ANSWER, "{protocol}");
    }
}

/// `gdn serve`, which ends with the test.
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
    let told: Value = serde_json::from_str(&line).unwrap();
    let token = std::fs::read_to_string(told["tokenFile"].as_str().unwrap()).unwrap();
    let url = told["url"].as_str().unwrap();
    for protocol in [OLD, NEW] {
        let headers = format!("{{Authorization: 'Bearer {}'}}", token.trim());
        calling(
            &sandbox,
            &format!("url: '{url}/mcp', headers: {headers}, protocol: '{protocol}'"),
        );
        assert_eq!(call(&sandbox), ANSWER, "{protocol}");
    }
    calling(&sandbox, &format!("url: '{url}/mcp'"));
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
