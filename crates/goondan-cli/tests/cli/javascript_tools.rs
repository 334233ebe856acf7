//! Tools in JavaScript. The tests are skipped without Node.js.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::projects::manifest;
use crate::sandbox::{Sandbox, read_until_event};

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

/// The tool call ends, and the model hangs.
const SCRIPT: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: t__start, args: {}}]}
  - when: {role: tool}
    reply: {text: late, delayMs: 600000}
";

/// `start` makes the runtime process and a child process hold the pipe `held` open.
const TOOL: &str = "
import fs from 'node:fs';
import { spawn } from 'node:child_process';
fs.writeFileSync('seen', 'x');
export const handlers = {
  start() {
    fs.openSync('held', 'w');
    spawn('/bin/sh', ['-c', 'exec 3> held; sleep 600'], { stdio: 'ignore' });
    return 'started';
  },
  write: (ctx, input) => { fs.writeFileSync(input.path, 'x'); return 'written'; },
  allocate: () => { const all = []; for (let i = 0; i < 4096; i++) all.push(Buffer.alloc(1 << 20, 1)); return all.length; },
  variable: (ctx, input) => process.env[input.name] ?? null,
};
";

#[allow(clippy::print_stderr, reason = "reports why a test is skipped")]
fn has_node() -> bool {
    let is_installed = Command::new("node").arg("--version").output().is_ok();
    if !is_installed {
        eprintln!("skipped: there is no node");
    }
    is_installed
}

/// Creates a project with the tool. `config` is its config, and `more` is appended to the spec of
/// the Agent.
fn project(config: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let export = |name: &str| {
        format!(
            "    - {{name: {name}, description: {name}, parameters: {{type: object, properties: {{path: {{type: string}}, name: {{type: string}}}}}}}}\n"
        )
    };
    let exports: String = ["start", "write", "allocate", "variable"]
        .map(export)
        .concat();
    let tool = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t}}\nspec:\n  entry: ./tool.mjs\n  config: {config}\n  exports:\n{exports}"
    );
    let project = manifest(MODEL, more)
        .replace("{ref: Tool/bash}", "{ref: Tool/t}")
        .replace("policy: {", "policy: {shutdown: {gracePeriodSeconds: 1}, ");
    sandbox.write("p/goondan.yaml", &(project + &tool));
    sandbox.write("p/script.yaml", SCRIPT);
    sandbox.write("p/tool.mjs", TOOL);
    sandbox
}

fn call(sandbox: &Sandbox, tool: &str, args: &str) -> Value {
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        tool,
        "--project",
        "p",
        "--args",
        args,
        "--json",
    ]);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

#[test]
fn a_handler_file_of_an_untrusted_project_is_not_run() {
    if !has_node() {
        return;
    }
    let sandbox = project("{}", "permissions: {default: allow}");
    for line in [
        &["run", "p", "--input", "hi"][..],
        &["tool", "call", "t__start", "--project", "p"],
        &["tool", "list", "--project", "p"],
    ] {
        let outcome = sandbox.run_command(sandbox.command_without_trust(line));
        assert!(
            outcome.code != 0 && outcome.stderr.contains("runs the code in `tool.mjs`"),
            "{line:?}: {outcome:?}"
        );
    }
    for line in [&["validate", "p"][..], &["doctor", "p"]] {
        sandbox.gdn(line);
    }
    assert!(
        !sandbox.dir().join("p/seen").exists(),
        "the handler file ran"
    );
}

#[test]
fn a_runtime_process_and_its_child_processes_end_with_gdn() {
    if !has_node() {
        return;
    }
    for signal in ["KILL", "TERM"] {
        let sandbox = project("{}", "permissions: {default: allow}");
        let pipe = sandbox.named_pipe("p/held");
        let mut line = sandbox.command(&[
            "run",
            "p",
            "--input",
            "hi",
            "--output-format",
            "stream-json",
        ]);
        let mut running = line
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut events = std::io::BufReader::new(running.stdout.take().unwrap());
        // The open succeeds when the runtime process opens the pipe. Reads end when the last
        // process closes it.
        let mut held = std::fs::File::open(&pipe).unwrap();
        read_until_event(&mut events, "tool.completed");
        assert!(
            Command::new("kill")
                .args(["-s", signal, &running.id().to_string()])
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

#[test]
fn a_runtime_process_receives_only_its_configured_variables() {
    if !has_node() {
        return;
    }
    let sandbox = project("{env: [GIVEN]}", "permissions: {default: allow}");
    for (name, seen) in [("GIVEN", true), ("KEPT", false)] {
        let arguments = format!("{{\"name\":\"{name}\"}}");
        let mut line = sandbox.command(&[
            "tool",
            "call",
            "t__variable",
            "--project",
            "p",
            "--args",
            &arguments,
            "--json",
        ]);
        line.env("GIVEN", "one").env("KEPT", "two");
        let outcome = sandbox.run_command(line);
        assert_eq!(
            outcome.stdout.contains("\"one\""),
            seen,
            "{name}: {outcome:?}"
        );
        assert!(!outcome.stdout.contains("two"), "{name}: {outcome:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_runtime_process_runs_in_the_sandbox_of_its_tool_and_agent() {
    if !has_node() || !crate::safety::has_sandbox() {
        return;
    }
    let cases = [
        ("{sandbox: true}", "permissions: {default: allow}"),
        ("{}", "permissions: {default: allow, sandbox: {}}"),
    ];
    for (config, permissions) in cases {
        let sandbox = project(config, &format!("workdir: project\n  {permissions}"));
        sandbox.write("outside/there", "");
        let inside = sandbox.dir().join("p/inside").display().to_string();
        let outside = sandbox.dir().join("outside/file").display().to_string();
        let result = call(&sandbox, "t__write", &format!("{{\"path\":\"{inside}\"}}"));
        assert_eq!(result["status"], "ok", "{config} {permissions}: {result:#}");
        let result = call(&sandbox, "t__write", &format!("{{\"path\":\"{outside}\"}}"));
        assert_eq!(
            result["error"]["code"], "EACCES",
            "{config} {permissions}: {result:#}"
        );
        assert!(!sandbox.dir().join("outside/file").exists());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_runtime_process_has_a_memory_limit() {
    if !has_node() {
        return;
    }
    let sandbox = project(
        "{limits: {memoryMib: 512}}",
        "permissions: {default: allow}",
    );
    let result = call(&sandbox, "t__allocate", "{}");
    assert_eq!(result["status"], "error", "{result:#}");
    let result = call(&sandbox, "t__variable", "{\"name\":\"none\"}");
    assert_eq!(result["status"], "ok", "{result:#}");
}
