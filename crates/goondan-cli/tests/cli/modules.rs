//! Tools in JavaScript, as the command runs them. These tests need Node.js, and say so where it is missing.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::projects::manifest;
use crate::sandbox::{Sandbox, until};

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

/// The call ends, and the model does not.
const STUCK: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: t__start, args: {}}]}
  - when: {role: tool}
    reply: {text: late, delayMs: 600000}
";

/// Each holds a pipe open: the host, and what it has started.
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

#[allow(clippy::print_stderr, reason = "it says why a test is skipped")]
fn has_node() -> bool {
    let is_there = Command::new("node").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: there is no node");
    }
    is_there
}

/// A project with the tool, its config and what the agent is like.
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
    sandbox.write("p/script.yaml", STUCK);
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
fn a_module_of_a_project_that_nobody_trusts_is_not_run() {
    if !has_node() {
        return;
    }
    let sandbox = project("{}", "permissions: {default: allow}");
    for line in [
        &["run", "p", "--input", "hi"][..],
        &["tool", "call", "t__start", "--project", "p"],
        &["tool", "list", "--project", "p"],
    ] {
        let outcome = sandbox.finished(sandbox.stranger(line));
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
        "something has run it"
    );
}

#[test]
fn a_host_ends_with_all_that_it_started_however_gdn_ends() {
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
        // It opens when the host has opened the other end, and ends when the last process has let go of it.
        let mut held = std::fs::File::open(&pipe).unwrap();
        until(&mut events, "tool.completed");
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
fn a_host_sees_the_variables_that_it_is_given() {
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
        let outcome = sandbox.finished(line);
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
fn a_host_is_in_the_sandbox_of_its_tool_and_of_its_agent() {
    if !has_node() || !goondan::has_sandbox() {
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
fn a_host_has_no_more_memory_than_it_is_given() {
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
