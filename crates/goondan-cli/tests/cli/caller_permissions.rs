//! Permissions of called agents: warnings of `validate`, and output of `policy explain`.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Creates a swarm whose lead can call the worker. `lead` and `worker` are their permissions.
fn team(lead: &str, worker: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let text = format!(
        "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {{provider: scripted, model: any}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: lead}}
spec: {{modelConfig: {{modelRef: Model/m}}, tools: [{{ref: Tool/agents, exports: [request]}}]{lead}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: worker}}
spec: {{modelConfig: {{modelRef: Model/m}}, tools: [{{ref: Tool/bash, exports: [exec]}}, {{ref: Tool/fs, exports: [read, write]}}]{worker}}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/lead, agents: [{{ref: Agent/lead}}, {{ref: Agent/worker}}]}}
"
    );
    sandbox.write("p/goondan.yaml", &text);
    sandbox
}

const GIT: &str = ", permissions: {rules: [{tool: bash__exec, args: {command: 'git *'}, action: allow, sandbox: {network: true}}]}";

fn warnings(lead: &str, worker: &str) -> Vec<Value> {
    let outcome = team(lead, worker).gdn(&["validate", "p", "--json"]);
    let report: Value = serde_json::from_str(outcome.ok()).unwrap();
    report["warnings"].as_array().unwrap().clone()
}

#[test]
fn validate_suggests_rules_for_permissions_that_a_caller_lacks() {
    let sandbox = team(
        ", permissions: {default: ask, rules: [{permission: read, action: allow}]}",
        GIT,
    );
    let validated = sandbox.gdn(&["validate", "p"]);
    insta::assert_snapshot!("caller restricts", validated.ok());
    // The suggested rules remove the warning.
    let granted = sandbox.gdn(&["validate", "p", "--json"]);
    let report: Value = serde_json::from_str(granted.ok()).unwrap();
    let suggestion = report["warnings"][0]["suggestion"].as_str().unwrap();
    let rules: Vec<&str> = suggestion
        .split('`')
        .filter_map(|part| part.strip_prefix("- "))
        .collect();
    assert_eq!(rules.len(), 2, "{suggestion}");
    let lead = format!(
        ", permissions: {{default: ask, rules: [{{permission: read, action: allow}}, {}]}}",
        rules.join(", ")
    );
    assert_eq!(warnings(&lead, GIT), Vec::<Value>::new());
}

#[test]
fn validate_accepts_granted_and_deliberate_caller_restrictions() {
    for (lead, worker) in [
        ("", ""),
        (", permissions: {default: allow}", GIT),
        (
            ", permissions: {default: allow}",
            ", permissions: {default: allow}",
        ),
        // The rule of the lead states explicitly that programs need an approval.
        (
            ", permissions: {rules: [{permission: execute, action: ask}]}",
            GIT,
        ),
        ("", ", permissions: {default: deny}"),
    ] {
        assert_eq!(
            warnings(lead, worker),
            Vec::<Value>::new(),
            "{lead} {worker}"
        );
    }
    // Without own permissions, the lead requires an approval before programs run.
    let found = warnings("", ", permissions: {default: allow}");
    assert_eq!(
        (found.len(), &found[0]["resource"]),
        (1, &json!("Agent/lead"))
    );
    let found = warnings(
        ", permissions: {default: deny, rules: [{tool: 'agents__*', action: allow}]}",
        "",
    );
    assert!(
        found[0]["message"]
            .as_str()
            .unwrap()
            .contains("fs__read and fs__write are refused"),
        "{found:?}"
    );
}

#[test]
fn policy_explain_shows_the_action_for_each_caller() {
    let sandbox = team("", GIT);
    let explain = [
        "policy",
        "explain",
        "-p",
        "p",
        "--agent",
        "worker",
        "--tool",
        "bash__exec",
    ];
    let line = ["--args", r#"{"command": "git log"}"#];
    insta::assert_snapshot!(
        "explain for callers",
        sandbox.gdn(&[&explain[..], &line].concat()).ok()
    );
    let as_json = sandbox.gdn(&[&explain[..], &line, &["--json"]].concat());
    let answer: Value = serde_json::from_str(as_json.ok()).unwrap();
    assert_eq!(
        (&answer["action"], &answer["callers"][0]["action"]),
        (&json!("allow"), &json!("ask"))
    );
    // With a given caller, its policy requires an approval.
    let named = sandbox.gdn(&[&explain[..], &line, &["--caller", "lead", "--json"]].concat());
    let answer: Value = serde_json::from_str(named.ok()).unwrap();
    assert_eq!(
        (&answer["action"], &answer["callers"]),
        (&json!("ask"), &json!([]))
    );
    // No agent can call the lead.
    let lead = [
        "policy",
        "explain",
        "-p",
        "p",
        "--agent",
        "lead",
        "--tool",
        "agents__request",
        "--json",
    ];
    let answer: Value = serde_json::from_str(sandbox.gdn(&lead).ok()).unwrap();
    assert_eq!(answer["callers"], json!([]));
}
