//! `gdn acp`, as an editor uses it.

use serde_json::{Value, json};

use crate::json_rpc_client::{Peer, is_response_to};
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

/// A mock editor that is connected to an agent.
struct Editor {
    peer: Peer,
    /// Answer to each approval request, or `wait` for no answer.
    approval_choice: &'static str,
}

/// Messages up to the answer of a request.
struct PromptOutcome {
    updates: Vec<Value>,
    permission_requests: Vec<Value>,
    answer: Value,
}

impl PromptOutcome {
    /// Returns the joined texts of one kind of update.
    fn text_of(&self, kind: &str) -> String {
        let updates = self
            .updates
            .iter()
            .filter(|update| update["sessionUpdate"] == kind);
        updates
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    fn kinds(&self) -> Vec<&str> {
        self.updates
            .iter()
            .map(|update| update["sessionUpdate"].as_str().unwrap())
            .collect()
    }
}

impl Editor {
    fn open(sandbox: &Sandbox) -> Self {
        let mut editor = Editor {
            peer: Peer::start(sandbox, &["acp", "p"]),
            approval_choice: "deny",
        };
        let hello = editor.request(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        assert_eq!(hello.answer["result"]["agentInfo"]["name"], "gdn");
        editor
    }

    fn request(&mut self, method: &str, params: Value) -> PromptOutcome {
        let id = self.peer.request(method, params);
        self.read_until(|line| is_response_to(line, id))
    }

    /// Reads until a line meets the condition.
    fn read_until(&mut self, is_last: impl Fn(&Value) -> bool) -> PromptOutcome {
        let (mut updates, mut permission_requests) = (Vec::new(), Vec::new());
        loop {
            let line = self.peer.line();
            match line["method"].as_str() {
                Some("session/update") => updates.push(line["params"]["update"].clone()),
                Some("session/request_permission") => {
                    if self.approval_choice != "wait" {
                        let outcome =
                            json!({"outcome": "selected", "optionId": self.approval_choice});
                        self.peer.respond(&line, json!({"outcome": outcome}));
                    }
                    permission_requests.push(line["params"].clone());
                }
                _ => {}
            }
            if is_last(&line) {
                return PromptOutcome {
                    updates,
                    permission_requests,
                    answer: line,
                };
            }
        }
    }

    fn new_session(&mut self) -> String {
        let created = self.request("session/new", json!({"cwd": "/", "mcpServers": []}));
        created.answer["result"]["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn prompt(&mut self, session: &str, prompt: Value) -> PromptOutcome {
        self.request(
            "session/prompt",
            json!({"sessionId": session, "prompt": prompt}),
        )
    }

    fn prompt_text(&mut self, session: &str, text: &str) -> PromptOutcome {
        self.prompt(session, json!([{"type": "text", "text": text}]))
    }
}

/// Creates a swarm whose agent needs an approval for each command.
fn project_with_approvals(script: &str) -> Sandbox {
    let sandbox = scripted(script);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: ask}"),
    );
    sandbox
}

const COMMAND_SCRIPT: &str = "\
rules:
  - {when: {role: user}, reply: {text: Look., calls: [{id: c, tool: bash__exec, args: {command: echo hi}}]}}
  - {when: {role: tool}, reply: {text: 'It said {{ results.c.status }}.'}}
";

#[test]
fn reasoning_and_retries_are_sent_as_thoughts() {
    let sandbox = scripted(
        "\
agents:
  a:
    - {error: {status: 503, message: overloaded, retryAfterMs: 10}}
    - {reasoning: Let me see., text: a half, finishReason: length}
",
    );
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    let outcome = editor.prompt_text(&session, "go");
    let thoughts = outcome.text_of("agent_thought_chunk");
    assert!(
        thoughts.starts_with("Retrying any in ") && thoughts.ends_with("Let me see."),
        "{thoughts}"
    );
    assert_eq!(outcome.text_of("agent_message_chunk"), "a half");
    assert_eq!(outcome.answer["result"]["stopReason"], "max_tokens");
    let place = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let loaded = editor.request("session/load", place);
    assert_eq!(loaded.text_of("agent_thought_chunk"), "Let me see.");
    editor.peer.close();
}

#[test]
fn a_session_continues_after_a_restart() {
    let sandbox = scripted(ECHO);
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    let first = editor.prompt_text(&session, "one");
    assert_eq!(first.text_of("agent_message_chunk"), "heard one");
    assert_eq!(first.answer["result"], json!({"stopReason": "end_turn"}));
    editor.peer.close();

    let mut editor = Editor::open(&sandbox);
    let place = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let unloaded = editor.prompt_text(&session, "two");
    assert_eq!(unloaded.answer["error"]["code"], -32602);
    let loaded = editor.request("session/load", place);
    assert_eq!(
        (
            &*loaded.text_of("user_message_chunk"),
            &*loaded.text_of("agent_message_chunk")
        ),
        ("one", "heard one")
    );
    assert_eq!(
        editor
            .prompt_text(&session, "two")
            .text_of("agent_message_chunk"),
        "heard two"
    );
    let listed = editor.request("session/list", json!({}));
    assert_eq!(
        listed.answer["result"]["sessions"][0]["sessionId"],
        json!(session)
    );
    let unknown = editor.request(
        "session/load",
        json!({"sessionId": "other", "cwd": "/", "mcpServers": []}),
    );
    assert_eq!(unknown.answer["error"]["code"], -32002);
    editor.peer.close();
}

/// An MCP server in the shell with one prompt and no tools.
#[cfg(unix)]
const PROMPT_SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  file=$(printf '%s' "$line" | sed -n 's/.*"file":"\([a-z. ]*\)".*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      result='{"protocolVersion":"2025-11-25","capabilities":{"prompts":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[]}' ;;
    *'"method":"prompts/list"'*)
      result='{"prompts":[{"name":"review","description":"Reviews a file.","arguments":[{"name":"file","required":true}]}]}' ;;
    *'"method":"prompts/get"'*)
      result="{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Please review $file.\"}}]}" ;;
    *'"id":'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}"
      continue ;;
    *) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

/// Creates a swarm whose agent uses the MCP server `git`. `server` is its script.
#[cfg(unix)]
fn with_prompts(server: &str) -> Sandbox {
    let sandbox = scripted(ECHO);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let agent =
        manifest(model, "").replace("[{ref: Tool/text", "[{ref: Tool/git}, {ref: Tool/text");
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: git}\n\
                spec: {mcp: {command: /bin/sh, args: [prompter.sh]}}\n";
    sandbox.write("p/goondan.yaml", &format!("{agent}{tool}"));
    sandbox.write("p/prompter.sh", server);
    sandbox
}

/// Returns true if the line announces commands.
#[cfg(unix)]
fn announces(line: &Value) -> bool {
    !line["params"]["update"]["availableCommands"].is_null()
}

#[cfg(unix)]
#[test]
fn mcp_prompts_are_slash_commands() {
    let sandbox = with_prompts(PROMPT_SERVER);
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    let announced = editor.read_until(announces);
    let commands = &announced.updates[0]["availableCommands"];
    assert_eq!(
        *commands,
        json!([{"name": "git:review", "description": "Reviews a file.", "input": {"hint": "file"}}])
    );
    let reviewed = editor.prompt_text(&session, "/git:review a b.rs");
    assert_eq!(
        reviewed.text_of("agent_message_chunk"),
        "heard Please review a b.rs."
    );
    let missing = editor.prompt_text(&session, "/git:review").answer["error"].clone();
    assert_eq!(missing["data"]["code"], "E_TOOL_INVALID_ARGS");
    assert_eq!(
        editor
            .prompt_text(&session, "/other:x")
            .text_of("agent_message_chunk"),
        "heard /other:x"
    );
    editor.peer.close();
}

#[cfg(unix)]
#[test]
fn changed_mcp_prompts_are_announced() {
    let list = "*'\"method\":\"prompts/list\"'*)\n";
    let removed = "[ -e used ] && { echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":\
                   {\\\"prompts\\\":[]}}\"; continue; }\n";
    let get = "*'\"method\":\"prompts/get\"'*)\n";
    let changes = "touch used; \
                   echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}'\n";
    let server = PROMPT_SERVER.replace(list, &format!("{list}{removed}"));
    let sandbox = with_prompts(&server.replace(get, &format!("{get}{changes}")));
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    editor.read_until(announces);
    let text = json!([{"type": "text", "text": "/git:review a"}]);
    let prompt = json!({"sessionId": session, "prompt": text});
    let prompt = editor.peer.request("session/prompt", prompt);
    // The announcement and the answer have no order.
    let missing = std::cell::Cell::new(2);
    let outcome = editor.read_until(|line| {
        let is_expected = announces(line) || is_response_to(line, prompt);
        missing.set(missing.get() - usize::from(is_expected));
        missing.get() == 0
    });
    let mut updates = outcome.updates.iter();
    let announced = updates.find_map(|update| update.get("availableCommands"));
    assert_eq!(announced, Some(&json!([])));
    editor.peer.close();
}

#[cfg(unix)]
#[test]
fn an_unfinished_mcp_prompt_expansion_is_cancelled() {
    let hangs = "*'\"method\":\"prompts/get\"'*) continue\n";
    let get = "*'\"method\":\"prompts/get\"'*)\n";
    let sandbox = with_prompts(&PROMPT_SERVER.replace(get, hangs));
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    editor.read_until(announces);
    for end in ["session/cancel", "session/close"] {
        let text = json!([{"type": "text", "text": "/git:review a"}]);
        let prompt = json!({"sessionId": session, "prompt": text});
        let prompt = editor.peer.request("session/prompt", prompt);
        let place = json!({"sessionId": session});
        if end == "session/cancel" {
            editor.peer.notify(end, place);
        } else {
            editor.peer.request(end, place);
        }
        let cancelled = editor.read_until(|line| is_response_to(line, prompt));
        assert_eq!(
            cancelled.answer["result"]["stopReason"], "cancelled",
            "{end}"
        );
    }
    editor.peer.close();
}

#[test]
fn all_parts_of_a_prompt_reach_the_model() {
    let sandbox = scripted(ECHO);
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    let outcome = editor.prompt(
        &session,
        json!([
            {"type": "text", "text": "Look:"},
            {"type": "resource_link", "name": "main.rs", "uri": "file:///p/main.rs"},
            {"type": "resource", "resource": {"uri": "file:///p/a\"b", "text": "fn main() {}"}},
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
        ]),
    );
    let text = outcome.text_of("agent_message_chunk");
    assert!(text.contains("[main.rs](file:///p/main.rs)"), "{text}");
    assert!(
        text.contains("<resource uri=\"file:///p/a%22b\">\nfn main() {}\n</resource>"),
        "{text}"
    );
    let loaded = editor.request(
        "session/load",
        json!({"sessionId": session, "cwd": "/", "mcpServers": []}),
    );
    let images = loaded
        .updates
        .iter()
        .filter(|update| update["content"]["type"] == "image");
    let data: Vec<_> = images.map(|update| &update["content"]["data"]).collect();
    assert_eq!(data, ["aGk="]);
    let empty = editor.prompt(&session, json!([{"type": "text", "text": " "}]));
    assert_eq!(empty.answer["error"]["code"], -32602);
    editor.peer.close();
}

#[test]
fn an_approval_request_is_answered_in_the_editor() {
    let sandbox = project_with_approvals(COMMAND_SCRIPT);
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    let denied = editor.prompt_text(&session, "run");
    assert_eq!(
        denied.kinds(),
        [
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk"
        ]
    );
    assert_eq!(denied.text_of("agent_message_chunk"), "Look.It said error.");
    let (request, call) = (&denied.permission_requests[0], &denied.updates[1]);
    assert_eq!(request["toolCall"]["toolCallId"], call["toolCallId"]);
    assert_eq!(request["toolCall"]["rawInput"]["command"], "echo hi");
    let kinds: Vec<_> = request["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| &option["kind"])
        .collect();
    assert_eq!(
        kinds,
        ["allow_once", "allow_always", "allow_always", "reject_once"]
    );

    editor.approval_choice = "conversation";
    let allowed = editor.prompt_text(&session, "run");
    assert_eq!(allowed.text_of("agent_message_chunk"), "Look.It said ok.");
    let output = &allowed.updates[2]["content"][0]["content"]["text"];
    assert_eq!(output, "hi\n");
    assert_eq!(allowed.updates[3]["status"], "completed");
    // The approval is for the conversation. Another session is another conversation.
    assert_eq!(
        editor
            .prompt_text(&session, "run")
            .permission_requests
            .len(),
        0
    );
    let other = editor.new_session();
    assert_eq!(
        editor.prompt_text(&other, "run").permission_requests.len(),
        1
    );
    editor.peer.close();
}

#[test]
fn a_turn_that_waits_for_an_approval_is_cancelled() {
    let sandbox = project_with_approvals(COMMAND_SCRIPT);
    let mut editor = Editor::open(&sandbox);
    editor.approval_choice = "wait";
    let session = editor.new_session();
    let prompt = editor.peer.request(
        "session/prompt",
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "run"}]}),
    );
    editor.read_until(|line| line["method"] == "session/request_permission");
    editor
        .peer
        .notify("session/cancel", json!({"sessionId": session}));
    let cancelled = editor.read_until(|line| is_response_to(line, prompt));
    assert_eq!(cancelled.answer["result"]["stopReason"], "cancelled");
    editor.peer.close();
}

#[test]
fn a_failed_turn_is_an_error_with_its_code() {
    let sandbox = scripted("default: {error: {status: 400, message: no}}\n");
    let mut editor = Editor::open(&sandbox);
    let session = editor.new_session();
    let failed = editor.prompt_text(&session, "hi");
    assert_eq!(failed.answer["error"]["data"]["code"], "E_MODEL_STATUS");
    editor.peer.close();
}

#[test]
fn an_unknown_agent_is_an_error_of_acp() {
    let outcome = scripted(ECHO).gdn(&["acp", "p", "--agent", "nobody"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("AGENT_NOT_FOUND"),
        "{}",
        outcome.stderr
    );
}
