//! Command lines on another host: a mock of `ssh` prints its arguments.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::projects::manifest;
use crate::sandbox::{Outcome, Sandbox};

/// Prints its last three arguments. Fails for lines that start with `lost`.
const SSH: &str = "#!/bin/sh\nwhile [ $# -gt 3 ]; do shift; done\nprintf '<%s>' \"$@\"\ncase $3 in lost*) exit 255;; esac\n";

/// Creates a project whose agent runs command lines on a host. `config` is appended to the tool
/// config.
fn project(config: &str, permissions: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let tool = |name: &str| {
        let spec = format!("{{entry: \"builtin:{name}\", config: {{host: me@box, {config}}}}}");
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: there-{name}}}\nspec: {spec}\n"
        )
    };
    let text = manifest("{provider: scripted, model: any}", permissions).replace(
        "{ref: Tool/bash}",
        "{ref: Tool/there-bash}, {ref: Tool/there-runtime}",
    );
    sandbox.write(
        "p/goondan.yaml",
        &format!("{text}{}{}", tool("bash"), tool("runtime")),
    );
    sandbox.write("bin/ssh", SSH);
    let program = sandbox.dir().join("bin/ssh");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    sandbox
}

fn call(sandbox: &Sandbox, tool: &str, args: &Value) -> Outcome {
    let args = args.to_string();
    let mut command = sandbox.command(&[
        "tool",
        "call",
        tool,
        "--args",
        &args,
        "--project",
        "p",
        "--json",
    ]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env(
        "PATH",
        format!("{}:{path}", sandbox.dir().join("bin").display()),
    );
    sandbox.run_command(command)
}

fn result(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

#[test]
fn a_command_line_is_sent_to_the_host_as_one_argument() {
    let sandbox = project("", "permissions: {default: allow}");
    let line = "-x; echo 'a b' \"$HOME\" > ../c";
    for tool in ["there-bash__exec", "there-runtime__exec"] {
        let result = result(&call(&sandbox, tool, &json!({"command": line})));
        assert_eq!(
            result["output"]["stdout"],
            format!("<--><me@box><{line}>"),
            "{result}"
        );
        assert_eq!(
            (&result["output"]["host"], &result["output"]["exitCode"]),
            (&json!("me@box"), &json!(0))
        );
    }
    let lost = result(&call(
        &sandbox,
        "there-bash__exec",
        &json!({"command": "lost"}),
    ));
    assert!(
        lost["output"]["note"]
            .as_str()
            .unwrap()
            .contains("could not connect to me@box"),
        "{lost}"
    );
}

#[test]
fn options_that_a_remote_command_cannot_have_are_refused() {
    let sandbox = project("", "permissions: {default: allow}");
    for (tool, args, code) in [
        (
            "there-bash__exec",
            json!({"command": "ls", "cwd": "."}),
            "E_TOOL_INVALID_ARGS",
        ),
        (
            "there-bash__exec",
            json!({"command": "ls", "env": {"A": "1"}}),
            "E_TOOL_INVALID_ARGS",
        ),
        (
            "there-runtime__exec",
            json!({"command": "ls", "workdir": "."}),
            "E_TOOL_INVALID_ARGS",
        ),
        (
            "there-bash__script",
            json!({"path": "x.sh"}),
            "E_TOOL_UNAVAILABLE",
        ),
    ] {
        let result = result(&call(&sandbox, tool, &args));
        assert_eq!(result["error"]["code"], code, "{tool} {args}: {result}");
    }
}

#[test]
fn a_sandbox_without_network_access_prevents_remote_commands() {
    let rules = |more: &str| {
        format!(
            "permissions: {{default: deny, rules: [{{tool: \"*__exec\", args: {{command: \"make *\"}}, action: allow{more}}}]}}"
        )
    };
    let args = json!({"command": "make all"});
    let kept = result(&call(&project("", &rules("")), "there-bash__exec", &args));
    assert_eq!(kept["error"]["code"], "E_TOOL_SANDBOX", "{kept}");
    let open = project("", &rules(", sandbox: {network: true}"));
    let gone = result(&call(&open, "there-bash__exec", &args));
    assert_eq!(gone["output"]["stdout"], "<--><me@box><make all>", "{gone}");
    // The policy also checks remote command lines.
    let denied = result(&call(
        &open,
        "there-bash__exec",
        &json!({"command": "make all; rm x"}),
    ));
    assert_eq!(denied["error"]["code"], "E_TOOL_DENIED", "{denied}");
}

#[test]
fn host_commands_run_remotely_and_other_commands_locally() {
    let sandbox = project("hostCommands: [docker]", "permissions: {default: allow}");
    let there = result(&call(
        &sandbox,
        "there-bash__exec",
        &json!({"command": "docker ps"}),
    ));
    assert_eq!(there["output"]["host"], "me@box", "{there}");
    let here = result(&call(
        &sandbox,
        "there-bash__exec",
        &json!({"command": "echo hi"}),
    ));
    assert_eq!(
        (&here["output"]["stdout"], &here["output"]["host"]),
        (&json!("hi\n"), &Value::Null),
        "{here}"
    );
    let mixed = result(&call(
        &sandbox,
        "there-bash__exec",
        &json!({"command": "echo hi | docker ps"}),
    ));
    assert_eq!(mixed["error"]["code"], "E_TOOL_INVALID_ARGS", "{mixed}");
}

#[test]
fn a_host_requires_trust_and_a_valid_name() {
    let sandbox = project("", "permissions: {default: allow}");
    let args = [
        "tool",
        "call",
        "there-bash__exec",
        "--args",
        "{\"command\": \"ls\"}",
        "--project",
        "p",
    ];
    let refused = sandbox.run_command(sandbox.command_without_trust(&args));
    assert!(
        refused.stderr.contains("E_PROJECT_UNTRUSTED"),
        "{refused:?}"
    );
    assert!(
        refused
            .stderr
            .contains("runs commands on the host `me@box` over SSH"),
        "{refused:?}"
    );
    for (config, what) in [
        ("sandbox: true", "`sandbox` applies only to local programs"),
        (
            "limits: {processes: 5}",
            "`limits` applies only to local programs",
        ),
        ("hots: x", "unknown field `hots`"),
    ] {
        let outcome = project(config, "permissions: {default: allow}").gdn(&["validate", "p"]);
        assert!(outcome.report().contains(what), "{outcome:?}");
    }
    sandbox.write(
        "p/goondan.yaml",
        &std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml"))
            .unwrap()
            .replace("me@box", "-oProxyCommand=x"),
    );
    let outcome = sandbox.gdn(&["validate", "p"]);
    assert!(
        outcome
            .report()
            .contains("`host` must be an `ssh` destination"),
        "{outcome:?}"
    );
}
