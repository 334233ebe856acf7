//! `gdn tool`.

use serde_json::{Value, json};

use crate::projects::{ECHO, manifest, scripted};

#[test]
fn a_tool_can_be_called_without_a_model() {
    let sandbox = scripted(ECHO);
    let call = |arguments: &str| {
        sandbox.gdn(&[
            "tool",
            "call",
            "text-transform__case",
            "--project",
            "p",
            "--args",
            arguments,
        ])
    };
    let outcome = call(r#"{"text": "hi", "to": "upper"}"#);
    let output: Value = serde_json::from_str(outcome.ok()).unwrap();
    assert_eq!(output["result"], "HI");
    let refused = call(r#"{"text": 1}"#);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("tool with bad arguments", refused.report()));
}

#[test]
fn a_failed_tool_call_fails_the_command() {
    let sandbox = scripted(ECHO);
    let cases: [(&str, &[&str]); 3] = [
        (
            "no such tool",
            &["tool", "call", "no-such__tool", "-p", "p"],
        ),
        (
            "tool that would have to ask",
            &[
                "tool",
                "call",
                "bash__exec",
                "-p",
                "p",
                "--args",
                r#"{"command": "ls"}"#,
            ],
        ),
        (
            "no such agent",
            &[
                "tool",
                "call",
                "text-transform__case",
                "-p",
                "p",
                "--agent",
                "b",
            ],
        ),
    ];
    for (name, arguments) in cases {
        let outcome = sandbox.gdn(arguments);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name, outcome.report()));
    }
    let json = sandbox.gdn(&["tool", "call", "no-such__tool", "-p", "p", "--json"]);
    let result: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(result["error"]["code"], "E_TOOL_NOT_IN_CATALOG");
    assert_eq!(json.code, 1);
}

#[test]
fn tool_list_shows_the_tools_of_the_agent() {
    let sandbox = scripted(ECHO);
    let text = sandbox.gdn(&["tool", "list", "-p", "p"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("tool list", text.ok()));
    let tools: Value =
        serde_json::from_str(sandbox.gdn(&["tool", "list", "-p", "p", "--json"]).ok()).unwrap();
    assert_eq!(tools[0]["parameters"]["type"], "object");
    assert_eq!(
        sandbox
            .gdn(&["tool", "list", "-p", "p", "--agent", "b"])
            .code,
        2
    );
}

#[cfg(unix)]
#[test]
fn a_failed_write_of_a_hard_linked_file_keeps_its_contents() {
    let sandbox = scripted(ECHO);
    sandbox.write(
        "p/goondan.yaml",
        &manifest(
            "{provider: scripted, model: any, options: {script: script.yaml}}",
            "",
        )
        .replace("Tool/bash", "Tool/fs"),
    );
    let old = "old\n".repeat(1024);
    sandbox.write("p/one", &old);
    std::fs::hard_link(sandbox.dir().join("p/one"), sandbox.dir().join("p/two")).unwrap();
    let arguments = json!({"path": "one", "content": "new\n".repeat(8 * 1024)}).to_string();
    let call = ["tool", "call", "fs__write", "-p", "p", "--args", &arguments];
    let gdn = sandbox.command(&call);
    // A file may have 8 blocks, and a larger one is an error.
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 8; trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(gdn.get_program())
        .args(gdn.get_args())
        .current_dir(sandbox.dir())
        .env_clear()
        .envs(
            gdn.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let outcome = sandbox.run_command(limited);
    assert!(
        outcome.report().contains("too large"),
        "{}",
        outcome.report()
    );
    let kept = std::fs::read_to_string(sandbox.dir().join("p/two")).unwrap();
    assert!(kept == old, "{} bytes", kept.len());
}
