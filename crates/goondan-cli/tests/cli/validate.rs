//! `gdn validate`.

use serde_json::Value;

use crate::sandbox::Sandbox;

const WRONG: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, temprature: 1}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools:
    - ref: Tool/bahs
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

fn wrong() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p/goondan.yaml", WRONG);
    sandbox
}

#[test]
fn every_format_shows_all_errors() {
    let sandbox = wrong();
    for format in ["pretty", "short", "json", "github"] {
        let outcome = sandbox.gdn(&["validate", "p", "--format", format]);
        assert_eq!(outcome.code, 4);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(format!("validate {format}"), outcome.report()));
    }
    let json: Value =
        serde_json::from_str(&sandbox.gdn(&["validate", "p", "--json"]).stdout).unwrap();
    assert_eq!(
        (&json["valid"], json["errors"].as_array().unwrap().len()),
        (&false.into(), 2)
    );
}

#[test]
fn validate_accepts_the_manifest_or_its_directory() {
    let sandbox = wrong();
    let by_file = sandbox.gdn(&["validate", "p/goondan.yaml", "--format", "short"]);
    let by_folder = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(by_file.stdout, by_folder.stdout);
}

#[test]
fn strict_fails_on_warnings() {
    let sandbox = Sandbox::new();
    let unused = WRONG
        .replace(", temprature: 1", "")
        .replace("  tools:\n    - ref: Tool/bahs\n", "")
        + "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: spare}\nspec: {modelConfig: {modelRef: Model/m}}\n";
    sandbox.write("p/goondan.yaml", &unused);
    assert_eq!(sandbox.gdn(&["validate", "p"]).code, 0);
    assert_eq!(sandbox.gdn(&["validate", "p", "--strict"]).code, 4);
}

#[test]
fn run_prints_only_the_number_of_warnings() {
    let spare = "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: spare}\n\
                 spec: {modelConfig: {modelRef: Model/m}}\n";
    let sandbox = with_tools("{provider: scripted, model: x}", &[], spare);
    let run = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stderr
            .contains("warning: 1 warning in 1 file. List the warnings with `gdn validate`.\n"),
        "{run:?}"
    );
    assert!(!run.stderr.contains("W_CONFIG_UNUSED"), "{run:?}");
    let list = sandbox.gdn(&["connection", "list", "--project", "p"]);
    assert!(!list.stderr.contains("warning"), "{list:?}");
}

/// Creates a project whose agent has the tools `names`. `tools` contains their documents.
fn with_tools(model: &str, names: &[&str], tools: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let used: Vec<String> = names
        .iter()
        .map(|name| format!("{{ref: Tool/{name}}}"))
        .collect();
    let yaml = format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\nspec: {model}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\nspec: {{modelConfig: {{modelRef: Model/m}}, tools: [{}]}}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: default}}\nspec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}\n{tools}",
        used.join(", ")
    );
    sandbox.write("p/goondan.yaml", &yaml);
    sandbox
}

fn tool(name: &str, entry: &str) -> String {
    format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec: {{entry: {entry}}}\n"
    )
}

#[test]
fn an_unknown_provider_is_a_validation_error() {
    let sandbox = with_tools("{provider: opnai, model: x}", &[], "");
    let outcome = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(outcome.code, 4);
    assert!(
        outcome.stdout.contains("the provider `opnai`")
            && outcome.stdout.contains("Did you mean `openai`")
    );
}

#[test]
fn a_missing_model_key_is_a_warning_in_validate_and_an_error_in_run() {
    let sandbox = with_tools(
        "{provider: openai, model: x, apiKey: {valueFrom: {env: NOBODYS_KEY}}}",
        &[],
        "",
    );
    let outcome = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(outcome.code, 0);
    assert!(
        outcome.stdout.contains("E_CONFIG_ENV_MISSING") && outcome.stdout.contains("NOBODYS_KEY"),
        "{}",
        outcome.stdout
    );
    let customary = with_tools("{provider: anthropic, model: x}", &[], "");
    let without = |arguments: &[&str]| {
        let mut command = customary.command(arguments);
        command.env_remove("ANTHROPIC_API_KEY");
        customary.run_command(command)
    };
    assert!(
        without(&["validate", "p"])
            .stdout
            .contains("ANTHROPIC_API_KEY")
    );
    assert_eq!(without(&["run", "p", "--input", "x"]).code, 3);
    assert!(
        without(&["doctor", "p"])
            .stdout
            .contains("Model/m has no key")
    );
}

#[test]
fn a_missing_swarm_is_an_error_and_unread_files_are_listed() {
    let sandbox = with_tools("{provider: scripted, model: x}", &[], "");
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    let whole = sandbox.gdn(&["validate", "p"]);
    assert!(
        whole
            .stdout
            .starts_with("No problems: 1 model, 1 agent, 1 swarm in 1 file.\n"),
        "{whole:?}"
    );
    let (before, swarm) = text.split_at(
        text.find("---\napiVersion: goondan.ai/v1\nkind: Swarm")
            .unwrap(),
    );
    // A project with one agent needs no Swarm.
    let second = "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: second}\n\
                  spec: {model: ollama/qwen3}\n";
    sandbox.write("p/goondan.yaml", &format!("{before}{second}"));
    sandbox.write("p/team.yaml", swarm);
    let outcome = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert!(outcome.stdout.contains("E_CONFIG_NO_SWARM"), "{outcome:?}");
    assert!(
        outcome.stdout.contains("W_CONFIG_UNREAD_FILE"),
        "{outcome:?}"
    );
    let run = sandbox.gdn(&["run", "p", "--input", "x"]);
    assert!(run.stderr.contains("E_CONFIG_NO_SWARM"), "{run:?}");
}

#[test]
fn validate_reports_that_env_files_need_trust() {
    let sandbox = with_tools(
        "{provider: openai, model: x, apiKey: {valueFrom: {env: NOBODYS_KEY}}}",
        &[],
        "",
    );
    sandbox.write("p/.env", "NOBODYS_KEY=a-long-key\n");
    let untrusted = sandbox.run_command(sandbox.command_without_trust(&["validate", "p"]));
    assert!(
        untrusted
            .stdout
            .contains("`.env` is only read in a trusted project"),
        "{untrusted:?}"
    );
    let trusted = sandbox.gdn(&["validate", "p"]);
    assert!(!trusted.stdout.contains("NOBODYS_KEY"), "{trusted:?}");
}

#[test]
fn a_missing_server_variable_disables_only_its_tools() {
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: remote}\n\
                spec: {mcp: {command: nothing, env: {KEY: {valueFrom: {env: NOBODYS_KEY}}}}}\n";
    let sandbox = with_tools("{provider: scripted, model: x}", &["remote"], tool);
    let checked = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(
        checked.stdout.contains("W_MCP_CATALOG") && checked.stdout.contains("NOBODYS_KEY"),
        "{checked:?}"
    );
    let run = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stderr.contains("do not have the tools of Tool/remote"),
        "{run:?}"
    );
}

#[test]
fn a_key_too_short_to_be_masked_is_a_warning_without_its_value() {
    let sandbox = with_tools(
        "{provider: scripted, model: x, apiKey: {valueFrom: {env: SHORT_KEY}}}",
        &[],
        "",
    );
    let with_key = |arguments: &[&str], key: &str| {
        let mut command = sandbox.command(arguments);
        command.env("SHORT_KEY", key);
        sandbox.run_command(command)
    };
    let check = ["validate", "p", "--format", "short"];
    let checked = with_key(&check, "zq");
    assert_eq!(checked.code, 0, "{checked:?}");
    assert_eq!(
        checked.stdout.matches("W_CONFIG_SHORT_SECRET").count(),
        1,
        "{checked:?}"
    );
    assert!(
        checked.stdout.contains("SHORT_KEY") && !checked.stdout.contains("zq"),
        "{checked:?}"
    );
    let run = with_key(&["run", "p", "--input", "the zq key"], "zq");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.stderr.matches("W_CONFIG_SHORT_SECRET").count(),
        1,
        "{run:?}"
    );
    let long = with_key(&check, "zq-long-enough");
    assert!(!long.stdout.contains("W_CONFIG_SHORT_SECRET"), "{long:?}");
}

#[test]
fn a_missing_connection_secret_is_a_warning_in_validate() {
    let webhook = "---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: alerts}\nspec:\n  connectorRef: \
                   Connector/webhook\n  secrets: {signingSecret: {valueFrom: {env: NOBODYS_SECRET}}}\n";
    let sandbox = with_tools("{provider: scripted, model: x}", &[], webhook);
    let checked = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(
        checked.stdout.contains("E_CONFIG_ENV_MISSING")
            && checked.stdout.contains("NOBODYS_SECRET"),
        "{checked:?}"
    );
    assert!(
        sandbox
            .gdn(&["doctor", "p"])
            .stdout
            .contains("Connection/alerts can't run")
    );
}

#[test]
#[cfg(unix)]
fn validate_checks_the_files_of_entries() {
    use std::os::unix::fs::PermissionsExt as _;
    let tools = [
        ("plain", "./plain"),
        ("python", "./python"),
        ("text", "./text.so"),
        ("spare", "./spare"),
        ("idle", "./idle.so"),
    ];
    let yaml: String = tools
        .iter()
        .map(|(name, entry)| tool(name, entry))
        .collect();
    // An entry with a build may be missing. Any other missing entry is an error.
    let yaml = yaml.replace("./spare", "./spare, build: {command: [make]}");
    let sandbox = with_tools(
        "{provider: scripted, model: x}",
        &["plain", "python", "text"],
        &yaml,
    );
    for (name, line) in [
        ("plain", "#!/bin/sh"),
        ("python", "#!/usr/bin/env -S no-such-python -u"),
    ] {
        sandbox.write(
            &format!("p/{name}/tool.yaml"),
            &format!("name: {name}\ndescription: x\nentrypoint: run\nparameters: []\n"),
        );
        sandbox.write(&format!("p/{name}/run"), &format!("{line}\n"));
    }
    sandbox.write("p/text.so", "no library");
    sandbox.write("p/idle.so", "");
    let script = sandbox.dir().join("p/python/run");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(outcome.code, 4);
    insta::assert_snapshot!("validate entries", outcome.report());
}

/// The exports of a library are known only after it is loaded.
#[test]
#[cfg(target_os = "linux")]
fn validate_open_reports_exports_that_a_library_lacks() {
    let sandbox = with_tools(
        "{provider: scripted, model: x}",
        &["reverse"],
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: reverse}\nspec: {entry: ./libreverse.so, exports: [{name: nothing}]}\n",
    );
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let built = std::process::Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-I",
            &format!("{root}/include"),
            &format!("{root}/examples/plugins/c-reverse/reverse.c"),
        ])
        .arg("-o")
        .arg(sandbox.dir().join("p/libreverse.so"))
        .status();
    assert!(built.unwrap().success());
    assert_eq!(sandbox.gdn(&["validate", "p"]).code, 0);
    let outcome = sandbox.gdn(&["validate", "p", "--open", "--format", "short"]);
    assert_eq!(outcome.code, 4);
    assert!(
        outcome.stdout.contains("has no export `nothing`"),
        "{}",
        outcome.stdout
    );
}
