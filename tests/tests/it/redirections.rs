//! Files that redirections name are opened in the same sandboxes as the commands that they belong to.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says what it skips"
)]

use std::fs;
use std::path::PathBuf;

use goondan::Swarm;
use goondan::spec::Environment;
use serde_json::json;

/// A worker, and a boss that asks it to run a line. The braces are filled in.
const PROJECT: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - when: {agent: boss, role: user}
        reply: {calls: [{id: c1, tool: agents__request, args: {target: worker, input: "{{ input }}"}}]}
      - when: {agent: worker, role: user}
        reply: {calls: [{id: c2, tool: bash__exec, args: {command: "{{ input }}"}}]}
    default: {text: "{{ last }}"}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: bash}
spec: {entry: "builtin:bash", config: {sandbox: TOOL}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: boss}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/agents}]
  workdir: project
  permissions: {default: allow, rules: [{tool: "bash__*", action: allow}], CALLER}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: worker}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/bash}]
  workdir: project
  permissions: {default: ask, rules: [RULES], AGENT}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/boss, agents: [{ref: Agent/boss}, {ref: Agent/worker}]}
"#;

/// What a policy states.
#[derive(Clone, Copy)]
struct Policy {
    /// Patterns of commands that the worker may run, with what else their rules say.
    rules: &'static [(&'static str, &'static str)],
    tool: &'static str,
    agent: &'static str,
    caller: &'static str,
}

const OPEN: Policy = Policy {
    rules: &[("*", "")],
    tool: "false",
    agent: "",
    caller: "",
};
const NAMED: Policy = Policy {
    rules: &[
        ("echo *", ""),
        ("cat *", ""),
        ("> @O/*", ""),
        ("< @O/*", ""),
    ],
    ..OPEN
};

/// A policy, a line, and whether the line reaches what lies outside. `@O` is a folder outside, in which `kept` is.
const ROWS: &[(Policy, &str, bool)] = &[
    (OPEN, "echo evil > @O/x", false),
    (OPEN, "echo evil >> @O/kept", false),
    (OPEN, "(echo evil) > @O/x", false),
    (OPEN, "sh -c 'echo evil > @O/x'", false),
    (OPEN, "echo a | cat > @O/x", false),
    (OPEN, "cat < @O/kept", false),
    (OPEN, "echo \\\"$(cat < @O/kept)\\\"", false),
    (OPEN, "cd / && cat < .@O/kept", false),
    (
        OPEN,
        "echo evil > inside && cat < inside && cat < kept-inside",
        true,
    ),
    (
        Policy {
            rules: &[("echo *", ""), ("> *", "")],
            ..OPEN
        },
        "echo evil > @O/x",
        false,
    ),
    (
        Policy {
            rules: &[("cat", ""), ("< *", "")],
            ..OPEN
        },
        "cat < @O/kept",
        false,
    ),
    (
        Policy {
            rules: &[("*", ", sandbox: {write: [@O]}")],
            ..OPEN
        },
        "echo evil > @O/x",
        true,
    ),
    (
        Policy {
            rules: &[("*", ", sandbox: {read: [@O]}")],
            ..OPEN
        },
        "echo evil > @O/x; cat < @O/kept",
        true,
    ),
    (
        Policy {
            rules: &[("*", ", sandbox: false")],
            ..OPEN
        },
        "echo evil > @O/x",
        true,
    ),
    (NAMED, "echo evil > @O/x", true),
    (NAMED, "cat - < @O/kept", true),
    (NAMED, "echo evil > @O/link", false),
    (NAMED, "cat - < @O/folder/file", false),
    (
        Policy {
            tool: "true",
            ..NAMED
        },
        "echo evil > @O/x",
        false,
    ),
    (
        Policy {
            tool: "true",
            ..NAMED
        },
        "cat - < @O/kept",
        false,
    ),
    (
        Policy {
            agent: "sandbox: {}",
            ..NAMED
        },
        "echo evil > @O/x",
        false,
    ),
    (
        Policy {
            agent: "sandbox: {}",
            ..NAMED
        },
        "(echo evil) > @O/x",
        false,
    ),
    (
        Policy {
            caller: "sandbox: {}",
            ..NAMED
        },
        "echo evil > @O/x",
        false,
    ),
    (
        Policy {
            caller: "sandbox: {}",
            ..NAMED
        },
        "cat - < @O/kept",
        false,
    ),
    (
        Policy {
            caller: "sandbox: {write: [@O]}",
            ..NAMED
        },
        "echo evil > @O/x",
        true,
    ),
    (
        Policy {
            caller: "sandbox: {}",
            rules: &[("*", ", sandbox: false")],
            ..OPEN
        },
        "cat < @O/kept",
        false,
    ),
    (
        Policy {
            caller: "sandbox: {}",
            rules: &[("*", ", sandbox: false")],
            ..OPEN
        },
        "cd @O && echo *",
        false,
    ),
    (
        Policy {
            rules: &[("*", ", sandbox: false")],
            ..OPEN
        },
        "cd @O && cat kept",
        true,
    ),
];

/// Runs a line as the worker for the boss, and tells whether it reached what lies outside.
async fn reaches(policy: Policy, line: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (work, outside): (PathBuf, PathBuf) = (root.join("work"), root.join("outside"));
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::create_dir_all(&work).unwrap();
    fs::write(outside.join("kept"), "SECRET").unwrap();
    fs::write(outside.join("deep/file"), "SECRET").unwrap();
    fs::write(work.join("kept-inside"), "SECRET").unwrap();
    std::os::unix::fs::symlink("new", outside.join("link")).unwrap();
    std::os::unix::fs::symlink("deep", outside.join("folder")).unwrap();
    let rule = |(pattern, more): &(&str, &str)| {
        format!("{{tool: bash__exec, args: {{command: \"{pattern}\"}}, action: allow{more}}}")
    };
    let rules: Vec<String> = policy.rules.iter().map(rule).collect();
    let filled = |text: &str| text.replace("@O", &outside.display().to_string());
    let project = PROJECT
        .replace("TOOL", policy.tool)
        .replace("CALLER", policy.caller);
    let project = filled(
        &project
            .replace("RULES", &rules.join(", "))
            .replace("AGENT", policy.agent),
    );
    fs::write(work.join("goondan.yaml"), project).unwrap();

    let bundle = goondan::load(&work).bundle.unwrap();
    let builder = Swarm::builder(bundle)
        .state_root(root.join("state"))
        .environment(Environment::default());
    let swarm = builder.start().await.unwrap();
    let request = json!({"target": "worker", "input": filled(line)});
    let result = swarm
        .call_tool(Some("boss"), None, "agents__request", request)
        .await
        .unwrap();
    swarm.shutdown().await;
    let told = format!("{result:?}");
    let written = outside.join("x").exists() || outside.join("new").exists();
    let changed = fs::read_to_string(outside.join("kept")).unwrap() != "SECRET";
    (
        written || changed || told.contains("SECRET") || told.contains("kept deep"),
        told,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn redirections_are_opened_in_the_sandboxes_of_their_commands() {
    let mut wrong = Vec::new();
    for (policy, line, expected) in ROWS {
        let (reached, told) = reaches(*policy, line).await;
        if reached != *expected {
            wrong.push(format!("{:?} {line:?}: {reached}: {told}", policy.rules));
        }
    }
    println!(
        "attacks: redirections, out of sandboxes: {} tried",
        ROWS.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
