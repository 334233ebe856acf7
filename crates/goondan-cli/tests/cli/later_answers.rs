//! Answers of turns that were not started by an input.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// `boss` sends a message to `worker`, whose message back starts another turn of `boss`.
const SEND_SCRIPT: &str = "\
agents:
  boss:
    - {calls: [{id: tell, tool: agents__send, args: {target: worker, input: dig}}], usage: {promptTokens: 10, completionTokens: 1}}
    - {text: I told the worker., usage: {promptTokens: 20, completionTokens: 2}}
    - {text: 'The worker says: {{ input }}', usage: {promptTokens: 30, completionTokens: 3}}
  worker:
    - {calls: [{id: back, tool: agents__send, args: {target: boss, input: found gold}}], usage: {promptTokens: 400, completionTokens: 40}}
    - {text: I told the boss., usage: {promptTokens: 500, completionTokens: 50}}
";

/// `boss` sends an asynchronous request to `worker`, which answers when the file `go` exists.
const ASYNC_REQUEST_SCRIPT: &str = "\
agents:
  boss:
    - calls: [{id: ask, tool: agents__request, args: {target: worker, input: dig, async: true}}]
    - {text: I asked the worker.}
    - {text: The worker found gold.}
  worker:
    - calls: [{id: wait, tool: bash__exec, args: {command: 'until test -e go; do sleep 0.02; done'}}]
    - {text: gold}
";

/// Creates a swarm of `boss` and `worker`.
fn swarm(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let agent = |name: &str| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec:\n  modelConfig: {{modelRef: Model/m}}\n  \
             tools: [{{ref: Tool/agents}}, {{ref: Tool/bash}}]\n  workdir: project\n  permissions: {{default: allow}}\n---\n"
        )
    };
    let manifest = format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\n\
         spec: {{provider: scripted, model: any, options: {{script: script.yaml}}}}\n---\n{}{}\
         apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: s}}\n\
         spec: {{entryAgent: Agent/boss, agents: [{{ref: Agent/boss}}, {{ref: Agent/worker}}]}}\n",
        agent("boss"),
        agent("worker")
    );
    sandbox.write("p/goondan.yaml", &manifest);
    sandbox.write("p/script.yaml", script);
    sandbox
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn text_output_shows_later_answers() {
    let sandbox = swarm(SEND_SCRIPT);
    let outcome = sandbox.gdn(&["run", "p", "--input", "go"]);
    assert_eq!(
        outcome.ok(),
        "I told the worker.\nThe worker says: found gold\n"
    );
    assert_eq!(outcome.stderr, "");
    let outcome = sandbox.gdn(&["run", "p", "--input", "go", "-k", "other", "-v"]);
    assert!(
        outcome
            .stderr
            .contains("worker:other, after a message from another agent: I told the boss.\n"),
        "{outcome:#?}"
    );
}

#[test]
fn json_output_has_later_answers_and_the_usage_of_all_agents() {
    let sandbox = swarm(SEND_SCRIPT);
    let outcome = sandbox.gdn(&["run", "p", "--input", "go", "--json"]);
    let result: Value = serde_json::from_str(outcome.ok()).unwrap();
    assert_eq!(result["response"], "I told the worker.");
    let usage = |prompt: u64, completion: u64| json!({"promptTokens": prompt, "completionTokens": completion, "totalTokens": prompt + completion});
    assert_eq!(result["usage"], usage(960, 96));
    assert_eq!(
        result["usageByAgent"],
        json!({"boss": usage(60, 6), "worker": usage(900, 90)})
    );
    let mut later: Vec<[&Value; 4]> = Vec::new();
    for answer in result["later"].as_array().unwrap() {
        assert_eq!(answer["traceId"], result["traceId"]);
        later.push(["type", "cause", "agentName", "response"].map(|name| &answer[name]));
    }
    later.sort_by_key(|answer| answer[2].to_string());
    let expected = [
        [
            "answer",
            "agent.send",
            "boss",
            "The worker says: found gold",
        ]
        .map(Value::from),
        ["answer", "agent.send", "worker", "I told the boss."].map(Value::from),
    ];
    assert_eq!(later, expected.each_ref().map(|answer| answer.each_ref()));
}

#[test]
fn a_stream_has_a_line_per_later_answer() {
    let sandbox = swarm(SEND_SCRIPT);
    let outcome = sandbox.gdn(&[
        "run",
        "p",
        "--input",
        "go",
        "--output-format",
        "stream-json",
    ]);
    let events = lines(outcome.ok());
    let answers: Vec<&Value> = events
        .iter()
        .filter(|line| line["type"] == "answer")
        .collect();
    assert_eq!(answers.len(), 2);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["usage"]["totalTokens"]),
        (&"result".into(), &1056.into())
    );
}

#[test]
fn an_input_stream_receives_later_answers_before_its_end() {
    for format in ["json", "stream-json"] {
        let sandbox = swarm(SEND_SCRIPT);
        let arguments = [
            "run",
            "p",
            "--input-format",
            "stream-json",
            "--output-format",
            format,
        ];
        let outcome = sandbox.gdn_with_stdin(&arguments, "{\"input\": \"go\", \"id\": 7}\n");
        let events = lines(outcome.ok());
        let of_kind = |kind: &str| {
            events
                .iter()
                .filter(|line| line["type"] == kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(of_kind("result").len(), 1);
        assert_eq!(of_kind("result")[0]["id"], "7");
        let answers = of_kind("answer");
        assert_eq!(answers.len(), 2, "{events:#?}");
        let boss = answers
            .iter()
            .find(|answer| answer["agentName"] == "boss")
            .unwrap();
        assert_eq!(
            (&boss["response"], &boss["id"]),
            (&"The worker says: found gold".into(), &Value::Null)
        );
    }
}

#[test]
fn an_answer_that_fails_later_fails_the_command() {
    let failing = SEND_SCRIPT.replace(
        "{text: 'The worker says: {{ input }}'",
        "{error: {status: 401, message: bad key}",
    );
    let sandbox = swarm(&failing.replace(", usage: {promptTokens: 30, completionTokens: 3}}", "}"));
    let outcome = sandbox.gdn(&["run", "p", "--input", "go"]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (6, "I told the worker.\n"),
        "{outcome:#?}"
    );
    assert!(
        outcome.stderr.contains("error[E_MODEL_STATUS]"),
        "{outcome:#?}"
    );
}

#[test]
fn run_waits_for_the_answer_of_an_asynchronous_request() {
    let sandbox = swarm(ASYNC_REQUEST_SCRIPT);
    let mut command = sandbox.command(&["run", "p", "--input", "go"]);
    let child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    use std::io::{BufRead, BufReader};
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(stdout.next().unwrap().unwrap(), "I asked the worker.");
    sandbox.write("p/go", "");
    assert_eq!(stdout.next().unwrap().unwrap(), "The worker found gold.");
    assert!(child.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_chat_shows_a_later_answer_while_the_user_types() {
    let sandbox = swarm(ASYNC_REQUEST_SCRIPT);
    let mut pty = crate::pty_session::PtySession::start_chat(&sandbox);
    pty.read_until("boss> ");
    pty.write("go\r");
    pty.read_until("I asked the worker.");
    pty.read_until("boss> ");
    pty.write("half a line");
    sandbox.write("p/go", "");
    pty.read_until("A response arrived.");
    pty.read_until("The worker found gold.");
    pty.write("\x15/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
}

/// Starts a chat in which `worker` requests an approval when the file `go` exists. The user is at
/// the prompt.
#[cfg(unix)]
fn chat_with_pending_approval() -> (Sandbox, crate::pty_session::PtySession) {
    let risky = "    - calls: [{id: risk, tool: bash__exec, args: {command: 'touch x'}}]\n    - {text: gold}\n";
    let sandbox = swarm(&ASYNC_REQUEST_SCRIPT.replace("    - {text: gold}\n", risky));
    let manifest = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    let permissions = "permissions:\n    default: allow\n    rules:\n      - {permission: execute, action: ask}\n      \
                  - {tool: bash__*, args: {command: 'until test -e go; do sleep 0.02; done'}, action: allow}";
    let manifest = manifest.replace("permissions: {default: allow}", permissions);
    let policy = "policy: {shutdown: {gracePeriodSeconds: 3}}, entryAgent";
    sandbox.write("p/goondan.yaml", &manifest.replace("entryAgent", policy));
    let mut pty = crate::pty_session::PtySession::start_chat(&sandbox);
    pty.read_until("boss> ");
    pty.write("go\r");
    pty.read_until("I asked the worker.");
    pty.read_until("boss> ");
    (sandbox, pty)
}

#[cfg(unix)]
#[test]
fn an_approval_request_during_typing_is_shown_after_enter() {
    let (sandbox, mut pty) = chat_with_pending_approval();
    sandbox.write("p/go", "");
    pty.read_until(
        "worker:main requests approval to call bash__exec. Press Enter to see the request.",
    );
    pty.write("\r");
    pty.read_until("Agent worker requests to call bash__exec");
    pty.read_until("[N]o: ");
    pty.write("yse\r");
    pty.read_until("That is not an answer.");
    pty.read_until("[N]o: ");
    pty.write("y\r");
    pty.read_until("The worker found gold.");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
}

#[cfg(unix)]
#[test]
fn an_approval_request_after_the_end_is_shown_at_the_next_start() {
    let (sandbox, mut pty) = chat_with_pending_approval();
    pty.write("/quit\r");
    sandbox.write("p/go", "");
    assert_eq!(pty.exit_code(), Some(0));
    assert!(!sandbox.dir().join("p/x").exists());

    let mut pty = crate::pty_session::PtySession::start_chat(&sandbox);
    pty.read_until("Agent worker requests to call bash__exec");
    pty.read_until("[N]o: ");
    pty.write("y\r");
    // The scripted model begins its list again in the new process, and calls once more.
    pty.read_until("[N]o: ");
    assert!(sandbox.dir().join("p/x").exists());
    pty.write("n\r");
    // The worker's second response may join this turn or begin another one.
    pty.read_until("A response arrived.");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
}
