//! `gdn acp`, as an editor uses it.

use serde_json::{Value, json};

use crate::peer::{Peer, answers};
use crate::projects::{ECHO, manifest, scripted};
use crate::sandbox::Sandbox;

/// An editor with its agent.
struct Editor {
    peer: Peer,
    /// What the person at the editor answers to each question.
    choice: &'static str,
}

/// What came until a request was answered.
struct PromptOutcome {
    updates: Vec<Value>,
    questions: Vec<Value>,
    answer: Value,
}

impl PromptOutcome {
    /// The texts of one kind of update, one after another.
    fn said(&self, kind: &str) -> String {
        let of_kind = self
            .updates
            .iter()
            .filter(|update| update["sessionUpdate"] == kind);
        of_kind
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
            choice: "deny",
        };
        let hello = editor.ask(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        assert_eq!(hello.answer["result"]["agentInfo"]["name"], "gdn");
        editor
    }

    fn ask(&mut self, method: &str, params: Value) -> PromptOutcome {
        let id = self.peer.request(method, params);
        self.hear(|line| answers(line, id))
    }

    /// Reads on until a line comes that is waited for.
    fn hear(&mut self, is_last: impl Fn(&Value) -> bool) -> PromptOutcome {
        let (mut updates, mut questions) = (Vec::new(), Vec::new());
        loop {
            let line = self.peer.line();
            match line["method"].as_str() {
                Some("session/update") => updates.push(line["params"]["update"].clone()),
                Some("session/request_permission") => {
                    if self.choice != "wait" {
                        let outcome = json!({"outcome": "selected", "optionId": self.choice});
                        self.peer.respond(&line, json!({"outcome": outcome}));
                    }
                    questions.push(line["params"].clone());
                }
                _ => {}
            }
            if is_last(&line) {
                return PromptOutcome {
                    updates,
                    questions,
                    answer: line,
                };
            }
        }
    }

    fn begin(&mut self) -> String {
        let begun = self.ask("session/new", json!({"cwd": "/", "mcpServers": []}));
        begun.answer["result"]["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn prompt(&mut self, session: &str, prompt: Value) -> PromptOutcome {
        self.ask(
            "session/prompt",
            json!({"sessionId": session, "prompt": prompt}),
        )
    }

    fn say(&mut self, session: &str, text: &str) -> PromptOutcome {
        self.prompt(session, json!([{"type": "text", "text": text}]))
    }
}

/// A swarm whose agent asks before it runs a command.
fn asking(script: &str) -> Sandbox {
    let sandbox = scripted(script);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: ask}"),
    );
    sandbox
}

const RUNS: &str = "\
rules:
  - {when: {role: user}, reply: {text: Look., calls: [{id: c, tool: bash__exec, args: {command: echo hi}}]}}
  - {when: {role: tool}, reply: {text: 'It said {{ results.c.status }}.'}}
";

#[test]
fn reasoning_and_retries_are_thoughts_and_an_incomplete_answer_has_its_reason() {
    let sandbox = scripted(
        "\
agents:
  a:
    - {error: {status: 503, message: overloaded, retryAfterMs: 10}}
    - {reasoning: Let me see., text: a half, finishReason: length}
",
    );
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    let heard = editor.say(&session, "go");
    let thoughts = heard.said("agent_thought_chunk");
    assert!(
        thoughts.starts_with("Retrying any in ") && thoughts.ends_with("Let me see."),
        "{thoughts}"
    );
    assert_eq!(heard.said("agent_message_chunk"), "a half");
    assert_eq!(heard.answer["result"]["stopReason"], "max_tokens");
    let place = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let loaded = editor.ask("session/load", place);
    assert_eq!(loaded.said("agent_thought_chunk"), "Let me see.");
    editor.peer.close();
}

#[test]
fn a_session_goes_on_after_a_restart() {
    let sandbox = scripted(ECHO);
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    let first = editor.say(&session, "one");
    assert_eq!(first.said("agent_message_chunk"), "heard one");
    assert_eq!(first.answer["result"], json!({"stopReason": "end_turn"}));
    editor.peer.close();

    let mut editor = Editor::open(&sandbox);
    let place = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let unloaded = editor.say(&session, "two");
    assert_eq!(unloaded.answer["error"]["code"], -32602);
    let loaded = editor.ask("session/load", place);
    assert_eq!(
        (
            &*loaded.said("user_message_chunk"),
            &*loaded.said("agent_message_chunk")
        ),
        ("one", "heard one")
    );
    assert_eq!(
        editor.say(&session, "two").said("agent_message_chunk"),
        "heard two"
    );
    let listed = editor.ask("session/list", json!({}));
    assert_eq!(
        listed.answer["result"]["sessions"][0]["sessionId"],
        json!(session)
    );
    let unknown = editor.ask(
        "session/load",
        json!({"sessionId": "other", "cwd": "/", "mcpServers": []}),
    );
    assert_eq!(unknown.answer["error"]["code"], -32002);
    editor.peer.close();
}

/// A server in the shell with one prompt and no tools.
#[cfg(unix)]
const PROMPTER: &str = r#"#!/bin/sh
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

/// A swarm whose agent uses the server `git`, which runs the script.
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
fn prompts_of_servers_are_commands() {
    let sandbox = with_prompts(PROMPTER);
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    let announced = editor.hear(announces);
    let commands = &announced.updates[0]["availableCommands"];
    assert_eq!(
        *commands,
        json!([{"name": "git:review", "description": "Reviews a file.", "input": {"hint": "file"}}])
    );
    let reviewed = editor.say(&session, "/git:review a b.rs");
    assert_eq!(
        reviewed.said("agent_message_chunk"),
        "heard Please review a b.rs."
    );
    let missing = editor.say(&session, "/git:review").answer["error"].clone();
    assert_eq!(missing["data"]["code"], "E_TOOL_INVALID_ARGS");
    assert_eq!(
        editor.say(&session, "/other:x").said("agent_message_chunk"),
        "heard /other:x"
    );
    editor.peer.close();
}

#[cfg(unix)]
#[test]
fn changed_prompts_of_servers_are_announced() {
    let list = "*'\"method\":\"prompts/list\"'*)\n";
    let removed = "[ -e used ] && { echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":\
                   {\\\"prompts\\\":[]}}\"; continue; }\n";
    let get = "*'\"method\":\"prompts/get\"'*)\n";
    let changes = "touch used; \
                   echo '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}'\n";
    let server = PROMPTER.replace(list, &format!("{list}{removed}"));
    let sandbox = with_prompts(&server.replace(get, &format!("{get}{changes}")));
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    editor.hear(announces);
    let text = json!([{"type": "text", "text": "/git:review a"}]);
    let prompt = json!({"sessionId": session, "prompt": text});
    let prompt = editor.peer.request("session/prompt", prompt);
    // The announcement and the answer have no order.
    let missing = std::cell::Cell::new(2);
    let heard = editor.hear(|line| {
        let is_expected = announces(line) || answers(line, prompt);
        missing.set(missing.get() - usize::from(is_expected));
        missing.get() == 0
    });
    let mut updates = heard.updates.iter();
    let announced = updates.find_map(|update| update.get("availableCommands"));
    assert_eq!(announced, Some(&json!([])));
    editor.peer.close();
}

#[cfg(unix)]
#[test]
fn a_prompt_that_a_server_expands_is_cancelled() {
    let hangs = "*'\"method\":\"prompts/get\"'*) continue\n";
    let get = "*'\"method\":\"prompts/get\"'*)\n";
    let sandbox = with_prompts(&PROMPTER.replace(get, hangs));
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    editor.hear(announces);
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
        let cancelled = editor.hear(|line| answers(line, prompt));
        assert_eq!(
            cancelled.answer["result"]["stopReason"], "cancelled",
            "{end}"
        );
    }
    editor.peer.close();
}

#[test]
fn what_a_prompt_holds_reaches_the_model() {
    let sandbox = scripted(ECHO);
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    let heard = editor.prompt(
        &session,
        json!([
            {"type": "text", "text": "Look:"},
            {"type": "resource_link", "name": "main.rs", "uri": "file:///p/main.rs"},
            {"type": "resource", "resource": {"uri": "file:///p/a\"b", "text": "fn main() {}"}},
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
        ]),
    );
    let said = heard.said("agent_message_chunk");
    assert!(said.contains("[main.rs](file:///p/main.rs)"), "{said}");
    assert!(
        said.contains("<resource uri=\"file:///p/a%22b\">\nfn main() {}\n</resource>"),
        "{said}"
    );
    let loaded = editor.ask(
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
fn a_person_at_the_editor_is_asked() {
    let sandbox = asking(RUNS);
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    let denied = editor.say(&session, "run");
    assert_eq!(
        denied.kinds(),
        [
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk"
        ]
    );
    assert_eq!(denied.said("agent_message_chunk"), "Look.It said error.");
    let (question, call) = (&denied.questions[0], &denied.updates[1]);
    assert_eq!(question["toolCall"]["toolCallId"], call["toolCallId"]);
    assert_eq!(question["toolCall"]["rawInput"]["command"], "echo hi");
    let kinds: Vec<_> = question["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| &option["kind"])
        .collect();
    assert_eq!(
        kinds,
        ["allow_once", "allow_always", "allow_always", "reject_once"]
    );

    editor.choice = "conversation";
    let allowed = editor.say(&session, "run");
    assert_eq!(allowed.said("agent_message_chunk"), "Look.It said ok.");
    let output = &allowed.updates[2]["content"][0]["content"]["text"];
    assert_eq!(output, "hi\n");
    assert_eq!(allowed.updates[3]["status"], "completed");
    // The same call again: the answer was for the conversation, and another session is another one.
    assert_eq!(editor.say(&session, "run").questions.len(), 0);
    let other = editor.begin();
    assert_eq!(editor.say(&other, "run").questions.len(), 1);
    editor.peer.close();
}

#[test]
fn a_turn_that_waits_for_an_answer_is_cancelled() {
    let sandbox = asking(RUNS);
    let mut editor = Editor::open(&sandbox);
    editor.choice = "wait";
    let session = editor.begin();
    let prompt = editor.peer.request(
        "session/prompt",
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "run"}]}),
    );
    editor.hear(|line| line["method"] == "session/request_permission");
    editor
        .peer
        .notify("session/cancel", json!({"sessionId": session}));
    let cancelled = editor.hear(|line| answers(line, prompt));
    assert_eq!(cancelled.answer["result"]["stopReason"], "cancelled");
    editor.peer.close();
}

#[test]
fn a_failed_turn_is_an_error_with_its_code() {
    let sandbox = scripted("default: {error: {status: 400, message: no}}\n");
    let mut editor = Editor::open(&sandbox);
    let session = editor.begin();
    let failed = editor.say(&session, "hi");
    assert_eq!(failed.answer["error"]["data"]["code"], "E_MODEL_STATUS");
    editor.peer.close();
}

#[test]
fn an_agent_that_is_not_there_can_not_be_talked_to() {
    let outcome = scripted(ECHO).gdn(&["acp", "p", "--agent", "nobody"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("AGENT_NOT_FOUND"),
        "{}",
        outcome.stderr
    );
}
